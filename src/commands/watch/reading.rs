//! `kvset watch`: committed estimates of a topic.

use anyhow::Context as _;
use kvset_core::estimate::Estimate;
use kvset_formats::codec::decode_estimate;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_service::shutdown::Shutdown;
use std::time::Duration;

/// Where what was read could not be shown.
pub const SHOWING: &str = "writing the output";

/// What to read of a topic, and how long.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// How to reach the brokers.
    pub connection: Connection,
    /// The topic.
    pub topic: String,
    /// Where to begin.
    pub from: From,
    /// Stop at what is the end of the topic when reading begins.
    pub until_end: bool,
    /// Only estimates of these pools, or dead letters of these codes; all where empty.
    pub only: Vec<String>,
    /// How long to wait for the brokers' first answer.
    pub retry_for: Duration,
}

/// Shows estimates as they are committed, until asked to stop. `show` is called with `None` when
/// nothing new has come for a moment. Gives how many records are no estimates.
///
/// # Errors
/// The brokers, or what `show` gives.
pub fn watch(
    options: &WatchOptions,
    shutdown: &Shutdown,
    show: &mut dyn FnMut(Option<Estimate>) -> std::io::Result<()>,
) -> anyhow::Result<u64> {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut reader = TopicReader::open(&options.connection, &options.topic, options.from, options.retry_for)?;
    shutdown.begin();
    let mut unreadable = 0;
    let ended = |reader: &TopicReader| options.until_end && reader.at_end();
    while !shutdown.is_requested() && !ended(&reader) {
        let Some(record) = reader.next(MOMENT)? else {
            show(None).context(SHOWING)?;
            continue;
        };
        match decode_estimate(record.value.as_deref().unwrap_or_default()) {
            Ok(estimate) if options.only.is_empty() || options.only.contains(&estimate.pool) => {
                show(Some(estimate)).context(SHOWING)?;
            }
            Ok(_) => {}
            Err(error) => {
                unreadable += 1;
                let (topic, partition, offset) = (&options.topic, record.partition, record.offset);
                tracing::warn!(topic = %topic, partition, offset, "{topic}/{partition}, offset {offset}: {error}");
            }
        }
    }
    Ok(unreadable)
}
