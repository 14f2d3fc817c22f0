//! What `run` and `prepare` have in common: settings, logging, signals, metrics and health.

use crate::cli::Failure;
use crate::cli::args::ConfigFile;
use crate::cli::interrupt::{force_after, service_shutdown_by_signals};
use crate::live::{Board, LiveFacts, router};
use crate::telemetry::{Health, HealthBounds, Server, logging, recorder, set_configured};
use axum::Router;
use kvset_service::plan::PlanError;
use kvset_service::plan::schemas::RegistryError;
use kvset_service::shutdown::Shutdown;
use kvset_settings::{Http, Settings};
use std::sync::Arc;

/// A process that serves until it is told to stop.
pub(super) struct Serving {
    pub(super) settings: Settings,
    pub(super) shutdown: Shutdown,
    pub(super) health: Arc<Health>,
    server: Option<Server>,
}

impl Serving {
    /// Reads the settings, begins to log, to listen for signals and to show metrics: of `kvset prepare`, whose group
    /// is its own.
    pub(super) fn start(config: &ConfigFile) -> Result<Self, Failure> {
        let settings = Settings::load(config.file())?;
        set_configured(settings.prepare.group.clone(), settings.fingerprint_hex());
        Self::over(settings, None)
    }

    /// Begins so for `kvset run`, with the page and the API, which show what the board is reported.
    pub(super) fn with_page(settings: Settings) -> Result<(Self, Arc<Board>), Failure> {
        set_configured(settings.kafka.group.clone(), settings.fingerprint_hex());
        let board = Arc::new(Board::new(settings.http.max_pool_labels, settings.provisioned()));
        Ok((Self::over(settings, Some(&board))?, board))
    }

    fn over(settings: Settings, board: Option<&Arc<Board>>) -> Result<Self, Failure> {
        logging::init(&settings.log).map_err(Failure::Usage)?;
        settings.exposures().iter().for_each(|exposure| tracing::warn!("{exposure}"));
        let shutdown = service_shutdown_by_signals()?;
        force_after(shutdown.clone(), settings.shutdown.deadline.as_duration())?;
        let health = Arc::new(Health::new());
        let server = serve_http(&settings.http, &health, board)?;
        Ok(Self { settings, shutdown, health, server })
    }

    /// Serves nothing any more.
    pub(super) fn stop(self) {
        if let Some(server) = self.server {
            server.stop();
        }
    }
}

/// Goes on where the service reads topics.
///
/// # Errors
/// It follows a folder: what to do in place of this command.
pub(super) fn require_topics(settings: &Settings, command: &str, instead: &str) -> Result<(), Failure> {
    let Some(folder) = &settings.input.folder else { return Ok(()) };
    let folder = folder.display();
    Err(Failure::usage(format!("`kvset {command}` needs topics, and input.folder is {folder}: {instead}")))
}

/// What went wrong with the plan: the configuration, or the brokers.
pub(super) fn plan_failure(error: PlanError) -> Failure {
    match error {
        PlanError::Registry(RegistryError::Open(_))
        | PlanError::Secret(_)
        | PlanError::NotBuilt(_)
        | PlanError::Pool(_) => Failure::Usage(error.into()),
        PlanError::Kafka(_) | PlanError::Registry(_) => Failure::Runtime(error.into()),
    }
}

/// Serves metrics and health, and the page and the API of a board, where `http.listen` asks for it.
pub(super) fn serve_http(
    http: &Http,
    health: &Arc<Health>,
    board: Option<&Arc<Board>>,
) -> Result<Option<Server>, Failure> {
    let Some(address) = http.listen.0 else { return Ok(None) };
    let recorder = recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| anyhow::anyhow!("metrics: {error}"))?;
    let bounds =
        HealthBounds { live_within: http.live_within.as_duration(), ready_max_lag: http.ready_max_lag };
    let live =
        |board: &Arc<Board>| LiveFacts { board: Arc::clone(board), health: Arc::clone(health), bounds };
    let page = board.map_or_else(Router::new, |board| router(live(board)));
    let server = Server::start(address, &http.allowed_hosts, handle, Arc::clone(health), bounds, page)?;
    tracing::info!("serving on http://{}", server.address());
    Ok(Some(server))
}
