//! The rows of a log that a census looks at: some of its whole length, and those that have what none before had.
//!
//! A field may begin in the middle of a log, or stand in one row of a hundred. So rows are scanned over its whole
//! length, all at first and one in a few later on, and one with a field that was not seen yet, or where a field of
//! few values has another, is kept.

use super::scan::{digest, items, scan};
use foldhash::fast::FixedState;
use memchr::memchr;
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// Rows that are spread over the log, at most.
const MAX_SPREAD: usize = 256;
/// Rows that are spread over a log of long ones, where they have no more than the most bytes.
const MIN_SPREAD: usize = 8;
/// Rows that are kept for what none before had, at most.
const MAX_NEW: usize = 96;
/// Bytes of rows that are spread over the log, at least and at most; the first is kept whatever its length. Of others
/// no more than the most are kept.
const BYTES: (usize, usize) = (192 << 10, 256 << 10);
/// Of a log one part in so many is kept.
const PART: u64 = 100;
/// Bytes of the longest log of which every row is scanned.
const SMALL: u64 = 2 << 20;
/// Bytes at the begin of others of which every row is scanned; of the rest, one part in so many.
const SCANNED: usize = 128 << 10;
const SCANNED_PART: usize = 6;
/// Different fields that are told apart.
const MAX_FIELDS: usize = 1 << 13;
/// A field with so many values has any.
const MAX_VALUES: u8 = 6;
/// How often a field is seen before any other value of it is new: those of a name or a number are new in every row.
const SETTLED: u8 = 12;
/// The first few values of a field are new whenever they come: a flag has two.
const FIRST_VALUES: u8 = 3;

/// Rows of a log.
#[derive(Debug, Default)]
pub struct RowSample {
    budget: usize,
    /// Bytes at the begin of which every row is scanned.
    scanned_whole: usize,
    /// Rows that were scanned.
    scanned: u64,
    scanned_bytes: usize,
    /// Bytes that are passed over before the next row is scanned.
    skip: usize,
    /// Whether rows at the begin are as few as those behind.
    is_even: bool,
    /// Rows of those that are scanned.
    spread: Vec<SpreadRow>,
    spread_bytes: usize,
    /// One of two to the power of so many is kept.
    thinned: u32,
    /// Others that have what none before had.
    new: Vec<Box<[u8]>>,
    new_bytes: usize,
    fields: HashMap<u64, SeenValues, FixedState>,
    values: HashSet<u64, FixedState>,
}

/// A row that is spread over the log.
#[derive(Debug)]
struct SpreadRow {
    /// Its number among those that are scanned.
    number: u64,
    /// Whether it has what none before had.
    is_new: bool,
    row: Box<[u8]>,
}

/// How often a field was seen, and with how many values; no more than matters.
#[derive(Debug, Default)]
struct SeenValues {
    seen: u8,
    different: u8,
}

impl RowSample {
    /// Of a log of so many bytes; of one whose size nobody knows as of a large one.
    pub fn of_log(total_bytes: Option<u64>) -> Self {
        let part = total_bytes.map_or(BYTES.1, |total| usize::try_from(total / PART).unwrap_or(usize::MAX));
        let is_small = total_bytes.is_some_and(|total| total <= SMALL);
        let scanned_whole = if is_small { usize::MAX } else { SCANNED };
        Self { budget: part.clamp(BYTES.0, BYTES.1), scanned_whole, ..Self::default() }
    }

    /// Looks at the next lines, each but the last with its end, none longer than `limit`.
    pub(crate) fn add_lines(&mut self, text: &[u8], limit: usize) {
        let mut at = 0;
        while at < text.len() {
            if self.skip >= text.len() - at {
                self.skip -= text.len() - at;
                return;
            }
            if self.skip > 0 {
                at += std::mem::take(&mut self.skip);
                if text[..at].ends_with(b"\n") {
                    continue;
                }
                at += memchr(b'\n', &text[at..]).map_or(text.len() - at, |end| end + 1);
                continue;
            }
            let end = memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end + 1);
            let row = text[at..end].trim_ascii();
            at = end;
            if row.is_empty() || row.len() > limit {
                continue;
            }
            self.add_rows(row);
            if self.scanned_bytes > self.scanned_whole {
                self.even_out();
                // No step is the period of a log whose rows alternate.
                let step = SCANNED_PART - 2 + (self.scanned % 3) as usize;
                self.skip = row.len().saturating_mul(step);
            }
        }
    }

    /// Looks at a line: a row, or a list of rows.
    fn add_rows(&mut self, line: &[u8]) {
        match items(line) {
            Some(rows) => rows.into_iter().for_each(|row| self.add(row)),
            None => self.add(line),
        }
    }

    /// Looks at a row.
    pub fn add(&mut self, row: &[u8]) {
        let (number, is_first) = (self.scanned, self.scanned == 0);
        self.scanned += 1;
        self.scanned_bytes = self.scanned_bytes.saturating_add(row.len());
        let is_new = self.is_new(row) && !is_first;
        if is_first || (self.is_of_spread(number) && row.len() <= BYTES.1) {
            self.spread_bytes += row.len();
            self.spread.push(SpreadRow { number, is_new, row: row.into() });
            self.thin_out();
        } else if is_new {
            self.keep_new(row.into());
        }
    }

    /// Keeps a row that has what none before had, where there is room.
    fn keep_new(&mut self, row: Box<[u8]>) {
        if self.new.len() < MAX_NEW && self.new_bytes + row.len() <= BYTES.1 {
            self.new_bytes += row.len();
            self.new.push(row);
        }
    }

    /// By a digest of the number: no step is the period of a log whose rows alternate.
    fn is_of_spread(&self, number: u64) -> bool {
        xxh3_64(&number.to_le_bytes()).trailing_zeros() >= self.thinned
    }

    /// Leaves out of the rows at the begin as many as are passed over behind: a share of rows is that of the log.
    fn even_out(&mut self) {
        if !std::mem::replace(&mut self.is_even, true) {
            self.retain_spread(|number| xxh3_64(&number.to_be_bytes()).is_multiple_of(SCANNED_PART as u64));
        }
    }

    /// Leaves out half of the spread rows until they are few enough.
    fn thin_out(&mut self) {
        let is_much = |rows: usize, bytes: usize| {
            rows > MAX_SPREAD || (rows > MIN_SPREAD && bytes > self.budget) || (rows > 1 && bytes > BYTES.1)
        };
        let (mut rows, mut bytes) = (self.spread.len(), self.spread_bytes);
        while is_much(rows, bytes) {
            self.thinned += 1;
            let kept = self.spread.iter().filter(|row| row.number == 0 || self.is_of_spread(row.number));
            (rows, bytes) = kept.fold((0, 0), |(rows, bytes), kept| (rows + 1, bytes + kept.row.len()));
        }
        if rows < self.spread.len() {
            let thinned = self.thinned;
            self.retain_spread(|number| xxh3_64(&number.to_le_bytes()).trailing_zeros() >= thinned);
        }
    }

    /// Keeps the first of the spread rows and these; what others have that none before had is kept by itself.
    fn retain_spread(&mut self, is_kept: impl Fn(u64) -> bool) {
        for row in std::mem::take(&mut self.spread) {
            if row.number == 0 || is_kept(row.number) {
                self.spread.push(row);
            } else if row.is_new {
                self.keep_new(row.row);
            }
        }
        self.spread_bytes = self.spread.iter().map(|row| row.row.len()).sum();
    }

    /// Whether a row has a field that was not seen, or one of the first few values of a field.
    fn is_new(&mut self, row: &[u8]) -> bool {
        let (mut is_new, fields, values) = (false, &mut self.fields, &mut self.values);
        scan(row, &mut |path, value| {
            let is_full = fields.len() >= MAX_FIELDS;
            let field = match fields.get_mut(&path) {
                Some(field) => field,
                None if is_full => return,
                None => {
                    is_new = true;
                    fields.entry(path).or_default()
                }
            };
            if field.different < MAX_VALUES {
                let is_other = values.insert(digest(path, value));
                is_new |= is_other && (field.different < FIRST_VALUES || field.seen >= SETTLED);
                field.different += u8::from(is_other);
                field.seen = field.seen.saturating_add(1);
            }
        });
        is_new
    }

    /// The rows, in no order: those that are spread over the log first.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.spread.iter().map(|row| &*row.row).chain(self.new.iter().map(|row| &**row))
    }

    /// How many of the rows are spread over the log: a share of them is about the share of all.
    pub fn spread_rows(&self) -> usize {
        self.spread.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that are kept of a log.
    fn kept(rows: impl Iterator<Item = String>, total: u64) -> Vec<String> {
        let mut sample = RowSample::of_log(Some(total));
        let rows: Vec<_> = rows.map(|row| row + "\n").collect();
        rows.chunks(100).for_each(|rows| sample.add_lines(rows.concat().as_bytes(), 1 << 20));
        sample.rows().map(|row| String::from_utf8_lossy(row).into_owned()).collect()
    }

    #[test]
    fn rows_of_the_whole_log_are_kept() {
        let rows = kept((0..20_000).map(|number| format!("{{\"number\": {number}}}")), 400_000);
        assert!((64..=MAX_SPREAD + MAX_NEW).contains(&rows.len()), "{}", rows.len());
        for part in 0..8u64 {
            let is_of_part = |row: &&String| {
                let number = row.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>();
                number.is_ok_and(|number| number / 2_500 == part)
            };
            assert!(rows.iter().filter(is_of_part).count() >= 2, "part {part} of 8");
        }
    }

    /// A reader on several threads reads larger pieces than one alone.
    #[test]
    fn what_is_kept_hangs_on_no_size_of_the_pieces_that_are_read() {
        // A row is half of its line, so that the next one is looked for at the begin of a line, too.
        let row = |number: u64| format!("{{\"n\": \"{:0191}\"}}{:199}\n", number % 5, "");
        let rows: Vec<_> = (0..3_000).map(row).collect();
        let kept = |pieces: usize| {
            let mut sample = RowSample::of_log(Some(12_000_000));
            rows.chunks(pieces).for_each(|rows| sample.add_lines(rows.concat().as_bytes(), 1 << 20));
            sample.spread.into_iter().map(|row| (row.number, row.row.len())).collect::<Vec<_>>()
        };
        let whole = kept(rows.len());
        for pieces in [1, 2, 3, 7, 100] {
            assert_eq!(kept(pieces), whole, "pieces of {pieces} rows");
        }
    }

    #[test]
    fn a_row_with_another_field_or_value_is_kept() {
        let row = |number: u64| match number {
            701 => format!("{{\"number\": {number}, \"late\": 1}}"),
            902 => format!("{{\"number\": {number}, \"is_cached\": true}}"),
            _ => format!("{{\"number\": {number}, \"is_cached\": false}}"),
        };
        let rows = kept((0..3_000).map(row), 100_000);
        assert!(rows.iter().any(|row| row.contains("late")));
        assert!(rows.iter().any(|row| row.contains("true")));
    }

    #[test]
    fn rows_that_alternate_are_kept_of_both_kinds() {
        let long = "x".repeat(3_000);
        for period in [2, 3, 4, 8] {
            let row = |number: u64| {
                let kind = if number % period == 1 { "HIT" } else { "MISS" };
                format!("{{\"number\": {number}, \"text\": \"{long}\", \"cache\": \"{kind}\"}}")
            };
            for rows in [20, 40, 200] {
                let kept = kept((0..rows).map(row), rows * 3_000);
                let hits = kept.iter().filter(|row| row.contains("HIT")).count();
                assert!(hits >= 1 && hits < kept.len(), "{hits} of {} at {period} of {rows}", kept.len());
            }
        }
    }

    #[test]
    fn a_list_of_rows_is_looked_at_row_by_row() {
        let rows = (0..500).map(|number| format!("{{\"number\": {number}}}")).collect::<Vec<_>>().join(",");
        let rows = kept(std::iter::once(format!("[{rows}]")), 10_000);
        assert!(rows.len() > 64 && rows.iter().all(|row| row.len() < 20), "{}", rows.len());
    }

    #[test]
    fn long_rows_are_few() {
        let row = |number: u64| format!("{{\"number\": {number}, \"text\": \"{}\"}}", "x".repeat(40_000));
        assert!((2..=MIN_SPREAD).contains(&kept((0..100).map(row), 4_000_000).len()));
    }
}
