//! `kvset run`: the service.

use crate::cli::Failure;
use crate::cli::args::RunArgs;
use crate::commands::serving::{Serving, plan_failure};
use crate::present::words::integer;
use crate::telemetry::service_metrics::ServiceMetrics;
use kvset_service::estimating::serve;
use kvset_service::events::Observer;
use kvset_service::plan::ServicePlan;
use kvset_service::poll_loop::summary::Summary;
use std::sync::Arc;

/// Runs `kvset run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let (serving, board) = Serving::with_page(&args.config)?;
    let plan = ServicePlan::make(&serving.settings, args.create_topics).map_err(plan_failure)?;
    let settings = &serving.settings;
    let metrics = ServiceMetrics::new(
        Arc::clone(&serving.health),
        settings.http.max_pool_labels,
        settings.provisioned(),
    );
    metrics.begin_service(&settings.estimate.windows);
    let observers: [&dyn Observer; 2] = [&metrics, &*board];
    let summary = serve(&plan, &serving.shutdown, &observers).map_err(anyhow::Error::from)?;
    tracing::info!("{}", summary_line(&summary, "estimates"));
    serving.stop();
    Ok(())
}

/// What a run came to, in one line that calls its results so.
pub(super) fn summary_line(summary: &Summary, results: &str) -> String {
    format!(
        "stopped in order: {} records processed, {} {results} and {} dead letters published in {} commits",
        integer(summary.records),
        integer(summary.results),
        integer(summary.dead_letters),
        integer(summary.commits)
    )
}
