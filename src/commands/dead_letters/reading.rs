//! Reading the dead-letter topic, record by record.

use super::letter::Letter;
use crate::commands::watch::reading::{SHOWING, WatchOptions};
use anyhow::Context as _;
use kvset_kafka::kafka::reader::TopicReader;
use kvset_service::shutdown::Shutdown;
use std::collections::BTreeMap;
use std::time::Duration;

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
    options: &WatchOptions,
    limit: Option<u64>,
    shutdown: &Shutdown,
    show: &mut dyn FnMut(&Letter) -> std::io::Result<()>,
) -> anyhow::Result<LetterCounts> {
    const MOMENT: Duration = Duration::from_millis(100);
    let mut reader = TopicReader::open(&options.connection, &options.topic, options.from, options.retry_for)?;
    shutdown.begin();
    let mut seen = LetterCounts::default();
    let is_over = |seen: &LetterCounts, reader: &TopicReader| {
        limit.is_some_and(|limit| seen.letters >= limit) || (options.until_end && reader.at_end())
    };
    while !shutdown.is_requested() && !is_over(&seen, &reader) {
        let Some(record) = reader.next(MOMENT)? else { continue };
        let Some(letter) = Letter::of(record) else {
            seen.others += 1;
            continue;
        };
        if !options.only.is_empty() && !options.only.contains(&letter.code) {
            continue;
        }
        seen.letters += 1;
        if seen.by_code.len() < MAX_CODES || seen.by_code.contains_key(&letter.code) {
            *seen.by_code.entry(letter.code.clone()).or_default() += 1;
        }
        show(&letter).context(SHOWING)?;
    }
    Ok(seen)
}
