//! `kvset prepare`: raw request logs to request events.

use crate::cli::Failure;
use crate::cli::args::PrepareArgs;
use crate::commands::run::summary_line;
use crate::commands::serving::{Serving, plan_failure};
use crate::telemetry::logging;
use crate::telemetry::service_metrics::ServiceMetrics;
use kvset_service::prepare::{PreparePlan, PreparePlanError, ProgressLog, prepare};
use std::sync::Arc;

mod dry_run;

/// Runs `kvset prepare`.
pub fn run(args: &PrepareArgs) -> Result<(), Failure> {
    // The words of a panic may quote what was being tokenised.
    logging::leave_out_panic_messages();
    if let Some(file) = &args.dry_run {
        return dry_run::run(args, file);
    }
    let serving = Serving::start(&args.config)?;
    let plan = PreparePlan::make(&serving.settings, args.create_topics).map_err(|error| match error {
        PreparePlanError::Plan(error) => plan_failure(error),
        PreparePlanError::Model { .. } | PreparePlanError::HashKey { .. } => Failure::Usage(error.into()),
    })?;
    let health = Arc::clone(&serving.health);
    let metrics = ServiceMetrics::stateless(health, serving.settings.http.max_pool_labels);
    metrics.begin_prepare();
    let progress = ProgressLog::before(&metrics);
    let summary = prepare(&plan, &serving.shutdown, &progress).map_err(anyhow::Error::from)?;
    tracing::info!("{}", summary_line(&summary, "request events"));
    serving.stop();
    Ok(())
}
