//! Log lines about refused records: of each code the first at once, then one now and then with how many
//! there were. They say where, never what: a prompt stays out of the log.

use kvset_formats::codec::ErrorCode;
use kvset_formats::position::Partition;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Least time between two lines about one code.
const SPACING: Duration = Duration::from_secs(10);

/// How many records were refused of each code, and the offset of the last, from the counts and the last offsets that
/// are kept by code.
pub(crate) fn refusals<'a>(
    records: &'a BTreeMap<ErrorCode, u64>,
    last_offsets: &'a BTreeMap<ErrorCode, i64>,
) -> impl Iterator<Item = (ErrorCode, u64, i64)> + 'a {
    records.iter().filter_map(|(code, records)| Some((*code, *records, *last_offsets.get(code)?)))
}

/// One line to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RefusalLine {
    code: ErrorCode,
    /// Records since the last line of this code.
    records: u64,
    partition: Partition,
    last_offset: i64,
}

/// What was refused and not told yet; bounded by the number of codes.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    /// Where the records came from and where their dead letters go.
    topic: String,
    dead_letters: String,
    /// When a line was written last, and what the next one will say.
    codes: BTreeMap<ErrorCode, (Option<Instant>, RefusalLine)>,
}

impl RefusalLog {
    /// Nothing was refused yet.
    pub(crate) fn new(topic: &str, dead_letters: &str) -> Self {
        Self { topic: topic.to_owned(), dead_letters: dead_letters.to_owned(), codes: BTreeMap::new() }
    }

    /// Takes in what was refused of a partition, and says what is due.
    pub(crate) fn note(
        &mut self,
        partition: Partition,
        refused: impl Iterator<Item = (ErrorCode, u64, i64)>,
        now: Instant,
    ) {
        for (code, records, last_offset) in refused {
            let fresh = RefusalLine { code, records: 0, partition, last_offset };
            let (_, line) = self.codes.entry(code).or_insert((None, fresh));
            line.records = line.records.saturating_add(records);
            (line.partition, line.last_offset) = (partition, last_offset);
        }
        self.tell(now);
    }

    /// Says what is due.
    pub(crate) fn tell(&mut self, now: Instant) {
        for line in self.due(now) {
            let RefusalLine { code, records, partition, last_offset } = line;
            let (topic, dead_letters) = (&self.topic, &self.dead_letters);
            tracing::warn!(
                code = code.name(),
                topic = %topic,
                partition = partition.0,
                offset = last_offset,
                count = records,
                "refused {records} records as {code}, the last at {topic}/{partition}, offset {last_offset}: they \
                 go to {dead_letters}, each with its reason"
            );
        }
    }

    fn due(&mut self, now: Instant) -> Vec<RefusalLine> {
        let mut lines = Vec::new();
        for (told, line) in self.codes.values_mut() {
            let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= SPACING);
            if line.records == 0 || !is_due {
                continue;
            }
            lines.push(*line);
            (*told, line.records) = (Some(now), 0);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(
        log: &mut RefusalLog,
        code: ErrorCode,
        records: u64,
        last_offset: i64,
        now: Instant,
    ) -> Vec<RefusalLine> {
        let fresh = RefusalLine { code, records: 0, partition: Partition(3), last_offset };
        let (_, line) = log.codes.entry(code).or_insert((None, fresh));
        line.records += records;
        line.last_offset = last_offset;
        log.due(now)
    }

    #[test]
    fn the_first_of_each_code_is_told_at_once_and_a_flood_in_a_line_now_and_then() {
        let mut log = RefusalLog::new("requests", "dead");
        let begin = Instant::now();
        let line =
            |code, records, last_offset| RefusalLine { code, records, partition: Partition(3), last_offset };
        let (missing, empty) = (ErrorCode::MissingField, ErrorCode::EmptyRecord);
        assert_eq!(note(&mut log, missing, 1, 7, begin), [line(missing, 1, 7)]);
        for offset in 8..1008 {
            assert_eq!(note(&mut log, missing, 1, offset, begin + Duration::from_millis(offset as u64)), []);
        }
        assert_eq!(note(&mut log, empty, 2, 1009, begin), [line(empty, 2, 1009)], "another code");
        assert_eq!(log.due(begin + SPACING), [line(missing, 1000, 1007)]);
        assert_eq!(log.due(begin + SPACING * 9), [], "nothing is said of nothing");
    }
}
