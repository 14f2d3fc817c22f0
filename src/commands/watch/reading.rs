//! `kvset watch`: committed estimates of a topic.

use kvset_core::estimate::Estimate;
use kvset_formats::codec::decode_estimate;
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_service::shutdown::Shutdown;
use std::time::Duration;

/// What to watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// How to reach the brokers.
    pub connection: Connection,
    /// The topic of estimates.
    pub topic: String,
    /// Where to begin.
    pub from: From,
    /// Stop at what is the end of the topic when watching begins.
    pub until_end: bool,
    /// Only these pools; all where empty.
    pub pools: Vec<String>,
    /// How long to wait for the brokers' first answer.
    pub retry_for: Duration,
}

/// What was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watched {
    /// Estimates shown.
    pub estimates: u64,
    /// Records that are no estimates.
    pub unreadable: u64,
}

/// Why watching ended early.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The brokers.
    #[error(transparent)]
    Kafka(#[from] KafkaFailure),
    /// What was seen could not be shown.
    #[error("writing the output: {0}")]
    Show(#[from] std::io::Error),
}

/// Shows estimates as they are committed, until asked to stop. `show` is called with `None` when
/// nothing new has come for a moment.
///
/// # Errors
/// The brokers, or what `show` gives.
pub fn watch(
    options: &WatchOptions,
    shutdown: &Shutdown,
    show: &mut dyn FnMut(Option<Estimate>) -> std::io::Result<()>,
) -> Result<Watched, WatchError> {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut reader = TopicReader::open(&options.connection, &options.topic, options.from, options.retry_for)?;
    shutdown.begin();
    let mut watched = Watched::default();
    let ended = |reader: &TopicReader| options.until_end && reader.at_end();
    while !shutdown.is_requested() && !ended(&reader) {
        let Some(record) = reader.next(MOMENT)? else {
            show(None)?;
            continue;
        };
        match decode_estimate(record.value.as_deref().unwrap_or_default()) {
            Ok(estimate) if options.pools.is_empty() || options.pools.contains(&estimate.pool) => {
                watched.estimates += 1;
                show(Some(estimate))?;
            }
            Ok(_) => {}
            Err(error) => {
                watched.unreadable += 1;
                let (topic, partition, offset) = (&options.topic, record.partition, record.offset);
                tracing::warn!(topic = %topic, partition, offset, "{topic}/{partition}, offset {offset}: {error}");
            }
        }
    }
    Ok(watched)
}
