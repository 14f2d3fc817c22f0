//! `kvset watch`: committed estimates of a topic, or of the file in its place.

use super::lines::LinesLog;
use super::log::RecordLog;
use crate::cli::Failure;
use crate::cli::args::WatchArgs;
use anyhow::Context as _;
use kvset_core::estimate::Estimate;
use kvset_formats::codec::decode_estimate;
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_kafka::kafka::topics::FIRST_ANSWER;
use kvset_service::plan::connection;
use kvset_service::shutdown::Shutdown;
use kvset_settings::{Settings, TopicName};
use std::path::Path;
use std::time::Duration;

/// Where what was read could not be shown.
pub const SHOWING: &str = "writing the output";

/// A log that is read, and what it is called.
pub struct NamedLog {
    /// "topic ", or nothing before the name of a file.
    pub kind: &'static str,
    pub name: String,
    pub log: Box<dyn RecordLog>,
}

impl NamedLog {
    /// Opens the file where one takes the topic's place.
    ///
    /// # Errors
    /// The configuration, the brokers, or the file.
    pub fn open(
        settings: &Settings,
        file: Option<&Path>,
        topic: &TopicName,
        from_beginning: bool,
    ) -> Result<Self, Failure> {
        let from = if from_beginning { From::Beginning } else { From::Now };
        if let Some(file) = file {
            let log = Box::new(LinesLog::open(file, from)?);
            return Ok(Self { kind: "", name: file.display().to_string(), log });
        }
        let connection = connection(&settings.kafka).map_err(|error| Failure::Usage(error.into()))?;
        let (name, retry_for) = (topic.as_str().to_owned(), settings.kafka.retry_for.as_duration());
        let log = TopicReader::open(&connection, &name, from, retry_for.min(FIRST_ANSWER));
        let log = Box::new(log.map_err(anyhow::Error::from)?);
        Ok(Self { kind: "topic ", name, log })
    }
}

/// Shows estimates as they are committed, until asked to stop. `show` is called with `None` when
/// nothing new has come for a moment. Gives how many records are no estimates.
///
/// # Errors
/// The log, or what `show` gives.
pub fn watch(
    named: &mut NamedLog,
    args: &WatchArgs,
    shutdown: &Shutdown,
    show: &mut dyn FnMut(Option<Estimate>) -> std::io::Result<()>,
) -> anyhow::Result<u64> {
    const MOMENT: Duration = Duration::from_millis(100);
    let NamedLog { name, log, .. } = named;
    shutdown.begin();
    let mut unreadable = 0;
    while !(shutdown.is_requested() || args.until_end && log.at_end()) {
        let Some(record) = log.next(MOMENT)? else {
            show(None).context(SHOWING)?;
            continue;
        };
        match decode_estimate(record.value.as_deref().unwrap_or_default()) {
            Ok(estimate) if args.pools.is_empty() || args.pools.contains(&estimate.pool) => {
                show(Some(estimate)).context(SHOWING)?;
            }
            Ok(_) => {}
            Err(error) => {
                unreadable += 1;
                let (partition, offset) = (record.partition, record.offset);
                tracing::warn!(topic = %name, partition, offset, "{name}/{partition}, offset {offset}: {error}");
            }
        }
    }
    Ok(unreadable)
}
