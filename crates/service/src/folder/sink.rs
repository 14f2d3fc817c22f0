//! Estimates and dead letters as lines of files, committed with the position in the folder.

use super::source::{ALL, FolderSource, SharedJournal, lock};
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_pipeline::publish::Sink;
use serde_json::{Map, Value};

/// Writes what is committed of a folder.
pub struct FolderSink {
    journal: SharedJournal,
    lines: [String; 2],
    next: Option<NextOffset>,
}

impl FolderSink {
    pub(super) fn new(journal: SharedJournal) -> Self {
        Self { journal, lines: Default::default(), next: None }
    }

    /// A dead letter as a line: its headers, the file and the byte where its record begins, and the record where it
    /// is kept.
    fn letter(&self, record: &OutputRecord) -> String {
        let mut letter = Map::new();
        let journal = lock(&self.journal);
        let offset = record.headers.iter().find(|(name, _)| *name == "kvset_offset");
        let place = offset.and_then(|(_, offset)| journal.positions.place(offset.parse().ok()?));
        if let Some((file, byte)) = place {
            letter.insert("file".to_owned(), file.into());
            letter.insert("byte".to_owned(), byte.into());
        }
        let header = |(name, text): &(&str, String)| ((*name).to_owned(), Value::from(text.as_str()));
        letter.extend(record.headers.iter().map(header));
        if let Some(value) = &record.value {
            letter.insert("value".to_owned(), String::from_utf8_lossy(value).into());
        }
        Value::from(letter).to_string()
    }
}

impl Sink for FolderSink {
    type Member = FolderSource;

    fn begin(&mut self) -> Result<(), KafkaFailure> {
        (self.lines, self.next) = Default::default();
        lock(&self.journal).prepare()
    }

    fn send(&mut self, record: &OutputRecord) -> Result<(), KafkaFailure> {
        let (at, line) = match record.destination {
            Destination::Results => {
                (0, String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned())
            }
            Destination::DeadLetters => (1, self.letter(record)),
        };
        if !line.is_empty() {
            self.lines[at] += &line;
            self.lines[at].push('\n');
        }
        Ok(())
    }

    fn offsets(&mut self, next: &[(Partition, NextOffset)], _: &FolderSource) -> Result<(), KafkaFailure> {
        self.next = next.iter().find(|(partition, _)| *partition == ALL).map(|(_, next)| *next);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), KafkaFailure> {
        match self.next {
            Some(next) => lock(&self.journal).commit(next.0, std::mem::take(&mut self.lines)),
            None => Ok(()),
        }
    }

    fn abort(&mut self) -> Result<(), KafkaFailure> {
        (self.lines, self.next) = Default::default();
        Ok(())
    }
}
