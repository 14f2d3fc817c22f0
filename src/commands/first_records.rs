//! The first records of a log: lines of a file, or records of a topic, which is read outside of any group.

use crate::cli::Failure;
use anyhow::{Context as _, anyhow};
use kvset_formats::codec::{LookupError, SchemaRef, SourceRecord, WriterSchema, WriterSchemas};
use kvset_formats::trace::{RawRecords, RowFault};
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_kafka::registry::cache::SchemaCache;
use kvset_prepare::RawRecord;
use kvset_service::plan::connection;
use kvset_settings::Settings;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the brokers may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a topic is read at most.
const READ_FOR: Duration = Duration::from_secs(30);

/// A registry that is asked once: nobody waits for a first look.
#[derive(Debug)]
pub(crate) struct OneTry(pub Arc<SchemaCache>);

impl WriterSchemas for OneTry {
    fn find(&self, schema: SchemaRef) -> Result<Option<Arc<WriterSchema>>, LookupError> {
        let found =
            self.0.client().schema(schema).map_err(|failure| LookupError::Refused(failure.to_string()))?;
        Ok(found.map(Arc::new))
    }
}

/// What names of log files end in, and those of topics do not: such a name is a file's though there is none, so that
/// nobody waits for a broker because of a typing error.
const FILE_ENDINGS: [&str; 6] = ["jsonl", "ndjson", "csv", "gz", "zst", "parquet"];

/// The topic that is meant, where it is none but a file.
pub(crate) fn topic_of(log: &Path) -> Option<&str> {
    let ending = log.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_file = log == Path::new("-")
        || log.exists()
        || log.components().count() > 1
        || FILE_ENDINGS.contains(&ending.to_ascii_lowercase().as_str());
    log.to_str().filter(|_| !is_file)
}

/// Shows the first `records` of a file: its lines, or records with their length in front of them, whose offsets are
/// their numbers from 0 on. None may be larger than `largest`.
pub(crate) fn of_file(
    file: &Path,
    records: u64,
    largest: u64,
    read: &mut dyn FnMut(RawRecord<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let limit = usize::try_from(largest).unwrap_or(usize::MAX);
    let mut reader = RawRecords::open(file, limit).map_err(anyhow::Error::from)?;
    for number in 0..records {
        let next = reader.next_record().with_context(|| file.display().to_string())?;
        let value = match next {
            None => break,
            Some(Ok(value)) => value,
            Some(Err(RowFault::LineTooLong { .. })) => {
                return Err(Failure::from(anyhow!(
                    "{}: record {} is larger than prepare.max_record_bytes",
                    file.display(),
                    number + 1
                )));
            }
            Some(Err(fault)) => {
                return Err(Failure::from(anyhow!("{}: record {}: {fault}", file.display(), number + 1)));
            }
        };
        let offset = i64::try_from(number).unwrap_or(i64::MAX);
        let source = SourceRecord {
            topic: "",
            partition: 0,
            offset,
            timestamp_ms: None,
            key: None,
            value: Some(value),
            schema_header: None,
        };
        read(RawRecord { source, headers: Vec::new() })?;
    }
    Ok(())
}

/// Shows the oldest `records` of a topic, as far as they come within half a minute.
pub(crate) fn of_topic(
    settings: &Settings,
    topic: &str,
    records: u64,
    read: &mut dyn FnMut(RawRecord<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    const MOMENT: Duration = Duration::from_millis(100);
    let neither = || format!("`{topic}` is no file here, so it is taken for a topic");
    let connection = connection(&settings.kafka).map_err(|error| Failure::Usage(error.into()))?;
    let mut reader =
        TopicReader::open(&connection, topic, From::Beginning, ANSWER_WITHIN).with_context(neither)?;
    let (begin, mut number) = (Instant::now(), 0u64);
    while number < records && !reader.at_end() && begin.elapsed() < READ_FOR {
        let Some(record) = reader.next(MOMENT).map_err(anyhow::Error::from)? else { continue };
        let source = SourceRecord {
            topic,
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            schema_header: record.payload().schema_header,
        };
        let headers = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        read(RawRecord { source, headers: headers.collect() })?;
        number += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_no_topic_where_its_name_ends_as_a_files() {
        for file in ["-", "folder/log", "requests.jsonl", "a.b.JSONL", "log.json.zst", "log.gz", "log.csv"] {
            assert_eq!(topic_of(Path::new(file)), None, "{file}");
        }
        for topic in ["kvset.requests", "requests", "raw.json", "requests.log"] {
            assert_eq!(topic_of(Path::new(topic)), Some(topic));
        }
    }
}
