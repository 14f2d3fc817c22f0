//! Reading the dead-letter topic, record by record.

use super::letter::Letter;
use crate::commands::watch::reading::WatchError;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_service::shutdown::Shutdown;
use std::collections::BTreeMap;
use std::time::Duration;

/// What to read.
#[derive(Debug, Clone)]
pub struct LettersOptions {
    /// How to reach the brokers.
    pub connection: Connection,
    /// The topic of dead letters.
    pub topic: String,
    /// Where to begin.
    pub from: From,
    /// Stop at what is the end of the topic when reading begins.
    pub until_end: bool,
    /// Stop after so many letters.
    pub limit: Option<u64>,
    /// Only letters of these codes; all where empty.
    pub codes: Vec<String>,
    /// How long to wait for the brokers' first answer.
    pub retry_for: Duration,
}

/// Most codes that are counted apart; this program has fewer, another one's records may have any.
const MAX_CODES: usize = 64;

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterCounts {
    /// Letters shown.
    pub letters: u64,
    /// The same by code.
    pub by_code: BTreeMap<String, u64>,
    /// Records that are no dead letters.
    pub others: u64,
}

/// Shows dead letters until asked to stop, the end or the limit.
///
/// # Errors
/// The brokers, or what `show` gives.
pub fn read_letters(
    options: &LettersOptions,
    shutdown: &Shutdown,
    show: &mut dyn FnMut(&Letter) -> std::io::Result<()>,
) -> Result<LetterCounts, WatchError> {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut reader = TopicReader::open(&options.connection, &options.topic, options.from, options.retry_for)?;
    shutdown.begin();
    let mut seen = LetterCounts::default();
    let is_over = |seen: &LetterCounts, reader: &TopicReader| {
        options.limit.is_some_and(|limit| seen.letters >= limit) || (options.until_end && reader.at_end())
    };
    while !shutdown.is_requested() && !is_over(&seen, &reader) {
        let Some(record) = reader.next(MOMENT)? else { continue };
        let Some(letter) = Letter::of(record) else {
            seen.others += 1;
            continue;
        };
        if !options.codes.is_empty() && !options.codes.contains(&letter.code) {
            continue;
        }
        seen.letters += 1;
        if seen.by_code.len() < MAX_CODES || seen.by_code.contains_key(&letter.code) {
            *seen.by_code.entry(letter.code.clone()).or_default() += 1;
        }
        show(&letter)?;
    }
    Ok(seen)
}
