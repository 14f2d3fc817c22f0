//! `kvset watch`: committed estimates, as they are published.

pub mod reading;

use crate::cli::Failure;
use crate::cli::args::WatchArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::commands::serving::require_topics;
use crate::commands::watch::reading::{WatchOptions, watch};
use crate::present::terminal::live::LiveEstimates;
use crate::telemetry::logging;
use kvset_kafka::kafka::reader::From;
use kvset_kafka::kafka::topics::FIRST_ANSWER;
use kvset_service::plan::connection;
use kvset_settings::Settings;

/// Runs `kvset watch`.
pub fn run(args: &WatchArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    if args.topic.is_none() {
        let file = settings.output.file.display();
        let instead = format!(
            "estimates are lines of {file} (`tail -F {file}`) and on the page; --topic names a topic"
        );
        require_topics(&settings, "watch", &instead)?;
    }
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let topic = args.topic.as_ref().unwrap_or(&settings.output.topic).as_str().to_owned();
    let mut live =
        LiveEstimates::new(args.json, format!("estimates on topic {topic}"), settings.provisioned());
    let options = WatchOptions {
        connection: connection(&settings.kafka).map_err(|error| Failure::Usage(error.into()))?,
        topic,
        from: if args.from_beginning { From::Beginning } else { From::Now },
        until_end: args.until_end,
        only: args.pools.clone(),
        retry_for: settings.kafka.retry_for.as_duration().min(FIRST_ANSWER),
    };
    let unreadable = watch(&options, &shutdown, &mut |estimate| live.show(estimate));
    live.finish()?;
    let unreadable = unreadable?;
    if unreadable > 0 {
        eprintln!("{unreadable} records on the topic are no estimates");
    }
    Ok(())
}
