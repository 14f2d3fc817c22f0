//! What `kvset watch` and `kvset dead-letters` read.

use kvset_kafka::kafka::reader::{ReadRecord, TopicReader};
use std::time::Duration;

/// Records as they are committed.
pub trait RecordLog {
    /// The next one; none where none came within `timeout`.
    ///
    /// # Errors
    /// It cannot be read.
    fn next(&mut self, timeout: Duration) -> anyhow::Result<Option<ReadRecord>>;

    /// Whether everything was read that was there when reading began.
    fn at_end(&self) -> bool;
}

impl RecordLog for TopicReader {
    fn next(&mut self, timeout: Duration) -> anyhow::Result<Option<ReadRecord>> {
        Ok(TopicReader::next(self, timeout)?)
    }

    fn at_end(&self) -> bool {
        TopicReader::at_end(self)
    }
}
