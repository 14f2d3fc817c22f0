//! Which address answers what, and what every answer promises.

use super::api::{self, Filter};
use super::board::Board;
use super::overview::{Overview, OverviewProblem};
use super::page;
use crate::present::plots::PlotError;
use crate::present::stylesheet;
use crate::telemetry::{Health, HealthBounds};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;

/// Scripts, styles and answers come from the service itself and from nowhere else, and nothing inline
/// runs: what a hostile pool name might smuggle in would do nothing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the answers are made from.
#[derive(Debug, Clone)]
pub struct LiveFacts {
    /// Estimates and positions.
    pub board: Arc<Board>,
    /// Whether results are up to date.
    pub health: Arc<Health>,
    /// When they count as such.
    pub bounds: HealthBounds,
}

/// The filter of a query, or why it is none.
type FilterQuery = Result<Query<Filter>, QueryRejection>;

/// The page at `/`, what it is made of, and `/api/v1`.
pub fn router(live: LiveFacts) -> Router {
    let text = |kind: &'static str, text: String| {
        let answer = ([(header::CONTENT_TYPE, kind)], text);
        get(move || std::future::ready(answer.clone()))
    };
    let style = stylesheet() + include_str!("live.css");
    Router::new()
        .route("/", get(whole))
        .route("/live/status", get(status))
        .route("/live/section", get(section))
        .route("/live.css", text("text/css; charset=utf-8", style))
        .route("/live.js", text("text/javascript; charset=utf-8", include_str!("live.js").to_owned()))
        .route("/live.svg", text("image/svg+xml", include_str!("live.svg").to_owned()))
        .route("/api/v1/estimates", get(estimates))
        .route("/api/v1/pools", get(pools))
        .route("/api/v1/openapi.json", text("application/json", api::OPENAPI.to_owned()))
        .layer(map_response(promise))
        .with_state(live)
}

/// Headers of every answer.
async fn promise(mut response: Response) -> Response {
    let headers: [(HeaderName, &str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl LiveFacts {
    fn overview(&self) -> Overview {
        let mut overview = self.board.overview();
        if let Err(reason) = self.health.ready(self.bounds) {
            overview
                .problems
                .insert(0, OverviewProblem::general("not_ready", format!("Not up to date: {reason}.")));
        }
        overview
    }
}

async fn estimates(State(live): State<LiveFacts>, asked: FilterQuery) -> Response {
    match asked {
        Ok(Query(filter)) => Json(api::estimates(&live.board, &filter)).into_response(),
        Err(rejection) => {
            let error = serde_json::json!({ "error": rejection.body_text() });
            (StatusCode::BAD_REQUEST, Json(error)).into_response()
        }
    }
}

async fn pools(State(live): State<LiveFacts>) -> Json<Overview> {
    Json(live.overview())
}

async fn whole(State(live): State<LiveFacts>, Query(filter): Query<Filter>) -> Response {
    let view = live.board.view(filter.pool.as_deref(), filter.window);
    html(page::whole(&live.overview(), &view, &filter))
}

async fn status(State(live): State<LiveFacts>, Query(filter): Query<Filter>) -> Response {
    let view = live.board.view(filter.pool.as_deref(), filter.window);
    html(Ok(page::status(&live.overview(), &view, &filter)))
}

/// Answers that nothing has changed to those who have it already.
async fn section(
    State(live): State<LiveFacts>,
    Query(filter): Query<Filter>,
    headers: HeaderMap,
) -> Response {
    let view = live.board.view(filter.pool.as_deref(), filter.window);
    if headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == view.tag.as_bytes()) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    html(page::section(&view, &filter))
}

fn html(page: Result<String, PlotError>) -> Response {
    match page {
        Ok(page) => Html(page).into_response(),
        Err(error) => {
            tracing::error!("{error}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}
