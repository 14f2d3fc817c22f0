//! `kvset watch`: committed estimates, as they are published.

mod lines;
pub mod log;
pub mod reading;

use crate::cli::Failure;
use crate::cli::args::WatchArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::watch::reading::{NamedLog, watch};
use crate::present::terminal::live::LiveEstimates;
use crate::telemetry::logging;
use kvset_settings::Settings;

/// Runs `kvset watch`.
pub fn run(args: &WatchArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let file = args.estimates.as_deref().or(settings.estimates_file()).filter(|_| args.topic.is_none());
    let topic = args.topic.as_ref().unwrap_or(&settings.output.topic);
    let mut log = NamedLog::open(&settings, file, topic, args.from_beginning)?;
    let (kind, name) = (log.kind, log.name.clone());
    let mut live =
        LiveEstimates::new(args.json, format!("estimates on {kind}{name}"), settings.provisioned());
    let unreadable = watch(&mut log, args, &shutdown, &mut |estimate| live.show(estimate));
    live.finish()?;
    let unreadable = unreadable?;
    if unreadable > 0 {
        eprintln!("{unreadable} records on {kind}{name} are no estimates");
    }
    Ok(())
}
