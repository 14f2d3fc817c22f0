//! What became of the rows of a trace.

use super::{BadRow, ReplayError};
use std::collections::BTreeMap;

/// Bad rows kept to be shown.
const SHOWN_BAD_ROWS: usize = 5;

/// What one engine made of the rows of a trace, over all pools.
#[derive(Debug, Clone, Default)]
pub struct EngineLedger {
    /// Rows met, bad ones too.
    pub rows: u64,
    /// Requests accepted.
    pub accepted: u64,
    /// Rows that were passed over, and the first of them.
    pub rejected: u64,
    pub bad_rows: Vec<BadRow>,
    /// Those rows by the reason, whose numbers are left out; of reasons beyond [`MOST_REASONS`] in one, last.
    pub reasons: BTreeMap<String, u64>,
}

/// Most reasons for refusing a row that are counted apart.
const MOST_REASONS: usize = 16;
/// What the others are counted under.
const OTHER_REASONS: &str = "other reasons";

/// A reason without its numbers: rows that are refused for one reason differ in these.
fn without_numbers(reason: &str) -> String {
    let mut text = String::with_capacity(reason.len());
    let (mut before, mut is_number) = (' ', false);
    for character in reason.chars() {
        // Digits within a word are a part of it.
        is_number = character.is_ascii_digit() && (is_number || !(before.is_alphanumeric() || before == '_'));
        match is_number {
            true if before.is_ascii_digit() => {}
            true => text.push('N'),
            false => text.push(character),
        }
        before = character;
    }
    text
}

impl EngineLedger {
    /// Counts a row that is passed over.
    pub(super) fn refuse(&mut self, place: impl FnOnce() -> String, reason: &dyn std::fmt::Display) {
        (self.rows, self.rejected) = (self.rows + 1, self.rejected + 1);
        let reason = reason.to_string();
        let kind = without_numbers(&reason);
        let is_apart = self.reasons.len() < MOST_REASONS || self.reasons.contains_key(&kind);
        let kind = if is_apart { kind } else { OTHER_REASONS.to_owned() };
        *self.reasons.entry(kind).or_default() += 1;
        if self.bad_rows.len() < SHOWN_BAD_ROWS {
            self.bad_rows.push(BadRow { place: place(), reason });
        }
    }

    /// Whether the rows can be counted on.
    ///
    /// # Errors
    /// Some were passed over, and that is not allowed.
    pub(super) fn check(&self, may_skip: bool) -> Result<(), ReplayError> {
        match self.rejected {
            0 => Ok(()),
            _ if may_skip => Ok(()),
            count => Err(ReplayError::BadRows { count, rows: self.rows, first: self.bad_rows.clone() }),
        }
    }
}
