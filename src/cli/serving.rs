//! What `run` and `prepare` have in common: settings, logging, signals, metrics and health.

use super::Failure;
use super::args::ConfigFile;
use super::interrupt::{force_after, stop_flag};
use crate::runtime::plan::PlanError;
use crate::runtime::schemas::RegistryError;
use crate::runtime::shutdown::Shutdown;
use crate::settings::{Http, Settings};
use crate::telemetry::catalog::BUILD_INFO;
use crate::telemetry::{Health, HealthBounds, Server, logging, recorder};
use std::sync::Arc;

/// A process that serves until it is told to stop.
pub(super) struct Serving {
    pub(super) settings: Settings,
    pub(super) shutdown: Shutdown,
    pub(super) health: Arc<Health>,
    server: Option<Server>,
}

impl Serving {
    /// Reads the settings, begins to log, to listen for signals and to show metrics.
    pub(super) fn start(config: &ConfigFile) -> Result<Self, Failure> {
        let settings = Settings::load(config.file())?;
        logging::init(&settings.log).map_err(|error| Failure::Usage(error.into()))?;
        let shutdown = Shutdown::by(stop_flag()?);
        force_after(shutdown.clone(), settings.shutdown.deadline.as_duration())?;
        let health = Arc::new(Health::new());
        let server = serve_metrics(&settings.http, &health)?;
        BUILD_INFO.gauge(&[env!("CARGO_PKG_VERSION"), &settings.fingerprint_hex()]).set(1.0);
        Ok(Self { settings, shutdown, health, server })
    }

    /// Shows no metrics any more.
    pub(super) fn stop(self) {
        if let Some(server) = self.server {
            server.stop();
        }
    }
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

fn serve_metrics(http: &Http, health: &Arc<Health>) -> Result<Option<Server>, Failure> {
    let Some(address) = http.listen.0 else { return Ok(None) };
    let recorder = recorder().map_err(anyhow::Error::from)?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| anyhow::anyhow!("metrics: {error}"))?;
    let bounds =
        HealthBounds { live_within: http.live_within.as_duration(), ready_max_lag: http.ready_max_lag };
    let server = Server::start(address, handle, Arc::clone(health), bounds).map_err(anyhow::Error::from)?;
    tracing::info!("serving /metrics, /livez and /readyz on {}", server.address());
    Ok(Some(server))
}
