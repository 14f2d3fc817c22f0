//! What a task hands out: finished records for the output topics.

use super::codec::DeadLetter;
use super::position::Partition;
use kvset_core::units::window::WindowKind;

/// Which of the output topics a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// Capacity estimates, or request events made of raw logs.
    Results,
    /// Refused input.
    DeadLetters,
}

/// One record for an output topic. Its bytes are a function of the input log alone.
#[derive(Clone, PartialEq, Eq)]
pub struct OutputRecord {
    /// Where it goes.
    pub destination: Destination,
    /// The input partition it came of.
    pub partition: Partition,
    /// The window that it covers, if it is an estimate.
    pub window: Option<WindowKind>,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's value; none for a dead letter that leaves its record's out.
    pub value: Option<Vec<u8>>,
    /// Header names and texts.
    pub headers: Vec<(&'static str, String)>,
    /// The pool whose records share a partition, where that is decided by another text than the key.
    pub placed_by: Option<String>,
}

impl OutputRecord {
    /// Bytes of key, value and headers: what it costs to keep until it is committed.
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>();
        let length = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        length(&self.key) + length(&self.value) + headers
    }

    /// The same without key and value, for a dead letter that its topic does not take: the size and the hash of the
    /// value stand for it.
    pub fn without_bytes(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.extend(self.value.as_deref().into_iter().flat_map(DeadLetter::stand_in));
        Self { key: None, value: None, headers, ..self.clone() }
    }
}

impl std::fmt::Debug for OutputRecord {
    /// Shows sizes in place of the bytes: a dead letter may hold what a log must not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputRecord")
            .field("destination", &self.destination)
            .field("partition", &self.partition)
            .field("window", &self.window)
            .field("key_bytes", &self.key.as_ref().map(Vec::len))
            .field("value_bytes", &self.value.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}
