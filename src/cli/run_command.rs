//! `kvset run`: the service.

use super::Failure;
use super::args::RunArgs;
use super::interrupt::{force_after, stop_flag};
use super::output::thousands;
use crate::live::{Board, Live, router};
use crate::runtime::metrics::ServiceMetrics;
use crate::runtime::observe::Observers;
use crate::runtime::plan::{PlanError, ServicePlan};
use crate::runtime::schemas::RegistryError;
use crate::runtime::service::{Summary, serve};
use crate::runtime::shutdown::Shutdown;
use crate::settings::{Http, Settings};
use crate::telemetry::catalog::BUILD_INFO;
use crate::telemetry::{Health, HealthBounds, Server, logging, recorder};
use std::sync::Arc;

/// Runs `kvset run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    logging::init(&settings.log).map_err(|error| Failure::Usage(error.into()))?;
    let shutdown = Shutdown::by(stop_flag()?);
    force_after(shutdown.clone(), settings.shutdown.deadline.as_duration())?;
    let health = Arc::new(Health::new());
    let board = Arc::new(Board::new(settings.http.max_pool_labels));
    let server = serve_http(&settings.http, &health, &board)?;
    BUILD_INFO.gauge(&[env!("CARGO_PKG_VERSION"), &settings.fingerprint_hex()]).set(1.0);
    let plan = ServicePlan::make(&settings, args.create_topics).map_err(plan_failure)?;
    let metrics = ServiceMetrics::new(health, settings.http.max_pool_labels);
    let summary =
        serve(&plan, &shutdown, &Observers(vec![&metrics, &*board])).map_err(anyhow::Error::from)?;
    tracing::info!("{}", summary_line(&summary));
    if let Some(server) = server {
        server.stop();
    }
    Ok(())
}

/// What went wrong with the plan: the configuration, or the brokers.
pub(super) fn plan_failure(error: PlanError) -> Failure {
    match error {
        PlanError::Registry(RegistryError::Open(_)) | PlanError::Secret(_) | PlanError::Pool(_) => {
            Failure::Usage(error.into())
        }
        PlanError::Kafka(_) | PlanError::Registry(_) => Failure::Runtime(error.into()),
    }
}

/// Serves metrics, health, the page and the API, where `http.listen` asks for it.
pub(super) fn serve_http(
    http: &Http,
    health: &Arc<Health>,
    board: &Arc<Board>,
) -> Result<Option<Server>, Failure> {
    let Some(address) = http.listen.0 else { return Ok(None) };
    let recorder = recorder().map_err(anyhow::Error::from)?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| anyhow::anyhow!("metrics: {error}"))?;
    let bounds =
        HealthBounds { live_within: http.live_within.as_duration(), ready_max_lag: http.ready_max_lag };
    let page = router(Live { board: Arc::clone(board), health: Arc::clone(health), bounds });
    let server =
        Server::start(address, handle, Arc::clone(health), bounds, page).map_err(anyhow::Error::from)?;
    tracing::info!("page on http://{0}/, metrics on http://{0}/metrics", server.address());
    Ok(Some(server))
}

/// What a run came to, in one line.
pub(super) fn summary_line(summary: &Summary) -> String {
    format!(
        "stopped in order: {} records processed, {} estimates and {} dead letters published in {} commits",
        thousands(summary.records),
        thousands(summary.estimates),
        thousands(summary.dead_letters),
        thousands(summary.commits)
    )
}
