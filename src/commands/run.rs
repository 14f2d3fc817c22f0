//! `kvset run`: the service.

use crate::cli::Failure;
use crate::cli::args::RunArgs;
use crate::commands::serving::{Serving, plan_failure};
use crate::present::words::integer;
use crate::telemetry::service_metrics::ServiceMetrics;
use kvset_service::estimating::serve;
use kvset_service::events::Observer;
use kvset_service::folder::{FolderPlan, follow};
use kvset_service::plan::ServicePlan;
use kvset_service::poll_loop::summary::Summary;
use kvset_settings::Settings;
use std::sync::Arc;

/// Runs `kvset run`.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    let folder = FolderPlan::make(&settings, args.until_end).map_err(plan_failure)?;
    if folder.is_none() && (args.estimates.is_some() || args.until_end) {
        let message =
            "--estimates and --until-end go with a folder: name it with --folder, or set input.folder";
        return Err(Failure::usage(message));
    }
    let (serving, board) = Serving::with_page(settings)?;
    let settings = &serving.settings;
    let metrics = ServiceMetrics::new(
        Arc::clone(&serving.health),
        settings.http.max_pool_labels,
        settings.provisioned(),
    );
    metrics.begin_service(&settings.estimate.windows);
    let observers: [&dyn Observer; 2] = [&metrics, &*board];
    let summary = match &folder {
        Some(folder) => follow(folder, settings, &serving.shutdown, &observers),
        None => {
            let plan = ServicePlan::make(settings, args.create_topics).map_err(plan_failure)?;
            serve(&plan, &serving.shutdown, &observers)
        }
    };
    let summary = summary.map_err(anyhow::Error::from)?;
    tracing::info!("{}", summary_line(&summary, "estimates"));
    serving.stop();
    Ok(())
}

/// The settings, over which the arguments win.
fn settings(args: &RunArgs) -> Result<Settings, Failure> {
    let mut settings = Settings::load(args.config.file())?;
    if args.create_topics && settings.input.folder.is_some() {
        let message = "--create-topics: there are no topics, as input.folder is set; leave one of them out";
        return Err(Failure::usage(message));
    }
    if let Some(folder) = &args.folder {
        settings.input.folder = Some(folder.clone());
    }
    if let Some(file) = &args.estimates {
        settings.output.file.clone_from(file);
    }
    settings.checked().map_err(Into::into)
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
