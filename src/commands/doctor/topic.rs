//! Records of a topic as the rows of a log.
//!
//! A request event becomes a line of JSON, with the pool that its key names. Any other record in JSON is a line as it
//! stands, so that a topic of raw requests is read as a file of them would be.

use crate::cli::Failure;
use crate::commands::first_records::{self, OneTry};
use crate::doctor::TopicFacts;
use crate::present::words::counted;
use kvset_formats::codec::{
    DecodeLimits, Encoding, RequestDecoder, RequestEncoding, SourceRecord, WriterSchemas, encode_request,
};
use kvset_formats::trace::Recording;
use kvset_service::plan::schemas::open;
use kvset_settings::Settings;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Most bytes of rows that are kept.
const MOST_BYTES: usize = 1 << 30;
/// Most reasons for which records are undecodable that are counted apart.
const MOST_REASONS: usize = 16;

/// Reads the oldest records of a topic.
pub(super) fn read(
    settings: &Settings,
    topic: &str,
    records: u64,
) -> Result<(Recording, TopicFacts), Failure> {
    let registry = open(&settings.schema_registry).map_err(|error| Failure::Usage(error.into()))?;
    let schemas = registry.map(|registry| Arc::new(OneTry(registry)) as Arc<dyn WriterSchemas>);
    let decoder = RequestDecoder::new(Encoding::Auto, DecodeLimits::default()).with_schemas(schemas);
    let mut rows = TopicRows { decoder, ..TopicRows::default() };
    first_records::of_topic(settings, topic, records, &mut |record| rows.add(&record.source))?;
    let read = format!(
        "{} from {} of topic {topic}",
        counted(rows.records, "record", "records"),
        counted(rows.partitions.len() as u64, "partition", "partitions")
    );
    let recording = Recording { name: format!("topic {topic}"), rows: Arc::from(rows.in_order()) };
    Ok((recording, TopicFacts { read, ..rows.facts }))
}

/// Rows made of records.
#[derive(Default)]
struct TopicRows {
    decoder: RequestDecoder,
    /// Lines one after another, and each with the key that it is sorted by.
    lines: Vec<u8>,
    places: Vec<(i64, Range<usize>)>,
    records: u64,
    /// The latest time stamp so far, by partition.
    partitions: BTreeMap<i32, i64>,
    facts: TopicFacts,
}

impl TopicRows {
    fn add(&mut self, record: &SourceRecord<'_>) -> Result<(), Failure> {
        self.records += 1;
        let latest = self.partitions.entry(record.partition).or_insert(i64::MIN);
        *latest = (*latest).max(record.timestamp_ms.unwrap_or(i64::MIN));
        let (key, start) = (*latest, self.lines.len());
        let payload = record.payload();
        self.decoder.look_up(payload).map_err(|error| anyhow::anyhow!("{error}"))?;
        let bytes = self.decoder.json_within(payload).to_vec();
        match self.decoder.read(payload) {
            Ok(mut message) => {
                let key =
                    record.key.and_then(|key| std::str::from_utf8(key).ok()).filter(|key| !key.is_empty());
                if message.pool.is_none() {
                    message.pool = key.map(Cow::Borrowed);
                }
                encode_request(&message, RequestEncoding::Json, &mut self.lines)
                    .map_err(anyhow::Error::from)?;
                self.lines.push(b'\n');
            }
            Err(_) if matches!(bytes.trim_ascii_start(), [b'{' | b'[', ..]) => {
                // A line end within JSON is white space.
                self.lines.extend(
                    bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }),
                );
                self.lines.push(b'\n');
            }
            Err(error) => {
                let reason = match record.value {
                    None => "a tombstone".to_owned(),
                    Some(_) => error.to_string(),
                };
                let undecodable = &mut self.facts.undecodable;
                let is_apart = undecodable.len() < MOST_REASONS || undecodable.contains_key(&reason);
                let reason = if is_apart { reason } else { "other reasons".to_owned() };
                *undecodable.entry(reason).or_default() += 1;
            }
        }
        if self.lines.len() > start {
            self.places.push((key, start..self.lines.len()));
        }
        if self.lines.len() > MOST_BYTES {
            return Err(anyhow::anyhow!(
                "the records take more than 1 GiB: read fewer of them with --records"
            )
            .into());
        }
        Ok(())
    }

    /// The lines in the order of their records' time stamps, those of a partition in its order: partitions have no
    /// common one, and are read as brokers answer.
    fn in_order(&mut self) -> Vec<u8> {
        self.places.sort_by_key(|(stamp, _)| *stamp);
        self.places.iter().flat_map(|(_, line)| &self.lines[line.clone()]).copied().collect()
    }
}
