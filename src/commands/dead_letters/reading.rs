//! Reading dead letters, record by record.

use super::letter::Letter;
use crate::cli::args::DeadLettersArgs;
use crate::commands::watch::log::RecordLog;
use crate::commands::watch::reading::SHOWING;
use anyhow::Context as _;
use kvset_kafka::kafka::reader::ReadRecord;
use kvset_service::shutdown::Shutdown;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

/// Most codes that are counted apart; this program has fewer, another one's records may have any.
const MAX_CODES: usize = 64;

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterCounts {
    /// Letters shown.
    pub letters: u64,
    /// Letters by code.
    pub by_code: BTreeMap<String, u64>,
    /// Records that are no dead letters.
    pub others: u64,
}

/// Shows dead letters until asked to stop, the end or the limit.
///
/// # Errors
/// The log, or what `show` gives.
pub fn read_letters(
    log: &mut dyn RecordLog,
    args: &DeadLettersArgs,
    shutdown: &Shutdown,
    show: &mut dyn FnMut(&Letter) -> std::io::Result<()>,
) -> anyhow::Result<LetterCounts> {
    let limit = args.limit.map(NonZeroU64::get);
    const MOMENT: Duration = Duration::from_millis(100);
    shutdown.begin();
    let mut seen = LetterCounts::default();
    let is_over = |seen: &LetterCounts, log: &dyn RecordLog| {
        limit.is_some_and(|limit| seen.letters >= limit) || (args.until_end && log.at_end())
    };
    while !shutdown.is_requested() && !is_over(&seen, log) {
        let Some(record) = log.next(MOMENT)? else { continue };
        let Some(letter) = Letter::of(of_line(record)) else {
            seen.others += 1;
            continue;
        };
        if !args.codes.is_empty() && !args.codes.contains(&letter.code) {
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

/// A line of a folder's dead letters as a record: its members are the headers, and its file stands for the topic.
fn of_line(record: ReadRecord) -> ReadRecord {
    let line = record.value.as_deref().filter(|_| record.headers.is_empty());
    let Some(mut line) = line.and_then(|line| serde_json::from_slice::<Map<String, Value>>(line).ok()) else {
        return record;
    };
    if let Some(file) = line.remove("file") {
        line.insert("kvset_topic".to_owned(), file);
    }
    let text = |value: Value| value.as_str().map(|text| text.as_bytes().to_vec());
    let value = line.remove("value").and_then(text);
    let headers = line.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect();
    ReadRecord { headers, value, ..record }
}
