//! One partition's task: records in, finished output records out.
//!
//! A pure function of (configuration, records in offset order). Muted, it does the same work and
//! hands nothing out: that is how state is rebuilt whose outputs were published before.

use crate::facts::RecordIdentity;
use crate::pools::{Deadlines, PoolConfigs};
use crate::resume::Resume;
use kvset_core::estimate::Estimate;
use kvset_core::pool::{Arrival, Moment, Pool, Refusal};
use kvset_core::pool_config::PoolConfigError;
use kvset_core::units::{EventTime, Offset};
use kvset_core::window::WindowKind;
use kvset_core::windows::Watermark;
use kvset_formats::codec::{
    DeadLetter, DeadLetterLimit, DeadLetterLimits, DeadLetterPolicy, DecodeError, DecodeLimits, Decoded,
    Encoding, ErrorCode, EstimateEncoding, EstimateError, EstimateKey, LookupError, Provenance,
    RequestDecoder, SourceRecord, WriterSchemas, encode_estimate,
};
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::position::{NextOffset, Partition};
use std::collections::BTreeMap;
use std::sync::Arc;

mod ahead;
mod history;
mod image;

use ahead::ReadRecord;
use history::History;

pub use image::{RestoredTask, TaskImage, TaskRestoreError};

/// Everything that shapes a task's output, the same for every partition.
#[derive(Debug, Clone)]
pub struct TaskConfig {
    /// The input topic.
    pub topic: String,
    /// How records are encoded.
    pub encoding: Encoding,
    /// Where writers' schemas are found; none without a registry.
    pub schemas: Option<Arc<dyn WriterSchemas>>,
    /// What one record may ask for.
    pub limits: DecodeLimits,
    /// How pools are estimated.
    pub pools: PoolConfigs,
    /// Most pools of one partition; records of further ones are refused.
    pub max_pools: usize,
    /// How many refusals are tolerated.
    pub dead_letters: DeadLetterLimits,
    /// How estimates are written.
    pub output: EstimateEncoding,
    /// Version of this program, for dead letters.
    pub version: String,
    /// Fingerprint of the configuration in force, for dead letters.
    pub fingerprint: String,
}

/// Why a task cannot go on. The record that caused it was not processed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskError {
    /// It is not known how the record was written.
    #[error(transparent)]
    Schema(#[from] LookupError),
    /// Too many refused records.
    #[error(transparent)]
    DeadLetters(#[from] DeadLetterLimit),
    /// A pool's configuration cannot be used.
    #[error("pool configuration: {0}")]
    Pool(#[from] PoolConfigError),
    /// An estimate cannot be written.
    #[error("partition {partition}: {error}")]
    Estimate {
        /// The partition.
        partition: Partition,
        /// What does not fit.
        error: EstimateError,
    },
}

/// What was done, for metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Records processed, refused ones and replayed ones included.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Prompt pages of accepted records, pool by pool in the order the pools were first seen in.
    pub pages: Vec<(String, u64)>,
    /// Records processed muted, whose outputs were published before.
    pub replayed: u64,
    /// Refused records by code, handed out as dead letters.
    pub refused: BTreeMap<ErrorCode, u64>,
    /// The newest final estimate of every pool and window that closed, muted ones too.
    pub latest: BTreeMap<(String, WindowKind), Estimate>,
    /// Memory of the pools that closed a window, in bytes.
    pub memory: BTreeMap<String, u64>,
}

/// One partition's state.
#[derive(Debug)]
pub struct PartitionTask {
    config: Arc<TaskConfig>,
    partition: Partition,
    decoder: RequestDecoder,
    policy: DeadLetterPolicy,
    watermark: Watermark,
    pools: Vec<Pool>,
    /// Index into `pools` by name.
    names: BTreeMap<Box<str>, usize>,
    deadlines: Deadlines,
    next: NextOffset,
    publish_from: NextOffset,
    count_from: NextOffset,
    last_record: Option<RecordIdentity>,
    history: History,
    counts: Counts,
    /// Prompt pages accessed since the counts were last taken, by index into `pools`.
    pages: Vec<u64>,
    /// Pools created since the last [`PartitionTask::take_new_pools`].
    new_pools: Vec<String>,
    /// Kept to reuse its memory.
    closed: Vec<Estimate>,
}

impl PartitionTask {
    /// A task that has seen nothing, to be fed from [`Resume::replay_from`] on.
    pub fn new(config: Arc<TaskConfig>, partition: Partition, resume: &Resume) -> Self {
        Self {
            decoder: decoder(&config),
            policy: DeadLetterPolicy::new(config.dead_letters),
            watermark: Watermark::new(config.pools.default_pool().allowed_lateness_ms),
            config,
            partition,
            pools: Vec::new(),
            names: BTreeMap::new(),
            deadlines: Deadlines::default(),
            next: resume.replay_from,
            publish_from: resume.publish_from,
            count_from: resume.count_from,
            last_record: None,
            history: if resume.warm_up { History::Missing } else { History::Whole },
            counts: Counts::default(),
            pages: Vec::new(),
            new_pools: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Processes one record and appends what it gives out. Offsets must increase; gaps are legal.
    ///
    /// # Errors
    /// The task must not be fed further; the record counts as not processed, and nothing was appended.
    pub fn process_record(
        &mut self,
        record: &SourceRecord<'_>,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        self.process_records([*record], out)
    }

    /// The same for one record after another. Nobody can ask for a record's identity before the run is
    /// over, so only the last one's is made: it takes a hash of the whole record.
    ///
    /// # Errors
    /// As for [`PartitionTask::process_record`], of the first record that cannot be processed; those before it were.
    pub fn process_records<'r>(
        &mut self,
        records: impl IntoIterator<Item = SourceRecord<'r>>,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        let (mut records, mut last) = (records.into_iter(), None);
        let result = loop {
            let read = self.read_ahead(&mut records);
            let is_end = read.iter().any(Option::is_none);
            let done = read.into_iter().flatten().try_for_each(|ReadRecord { record, decoded }| {
                self.process(&record, decoded, out)?;
                last = Some(record);
                Ok(())
            });
            if is_end || done.is_err() {
                break done;
            }
        };
        self.last_record = last.as_ref().map(identity).or(self.last_record);
        result
    }

    /// Processes one record, all but for its identity.
    fn process(
        &mut self,
        record: &SourceRecord<'_>,
        decoded: Option<Decoded<'_>>,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        debug_assert!(record.offset >= self.next.0, "records come in offset order");
        let muted = record.offset < self.publish_from.0;
        let accepted = self.count_in_pool(record, decoded)?;
        match accepted {
            Ok(event_time) => {
                self.policy.accept();
                self.history = self.history.after(event_time, record.offset >= self.count_from.0);
                let next = NextOffset::after(record.offset);
                self.close_windows(event_time, next, muted, out)?;
            }
            Err(error) => {
                let within = self.policy.refuse(record, error.code());
                // A muted record was passed by the life that published it, under the limits of that day: here
                // it counts towards them and stops nobody.
                if !muted {
                    within?;
                    *self.counts.refused.entry(error.code()).or_default() += 1;
                    out.push(self.dead_letter(record, &error));
                }
            }
        }
        self.next = NextOffset::after(record.offset);
        self.counts.records += 1;
        self.counts.replayed += u64::from(muted);
        self.counts.bytes += (record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len)) as u64;
        Ok(())
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// Everything before this is in the state.
    pub fn next_offset(&self) -> NextOffset {
        self.next
    }

    /// How far event time has got.
    pub fn watermark(&self) -> Option<EventTime> {
        self.watermark.time()
    }

    /// The pools, in the order they were first seen in.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// What was done since this was last asked for.
    pub fn take_counts(&mut self) -> Counts {
        let active = self.pages.iter_mut().enumerate().filter(|(_, pages)| **pages > 0);
        let named =
            |(index, pages): (usize, &mut u64)| (self.pools[index].name().to_owned(), std::mem::take(pages));
        self.counts.pages = active.map(named).collect();
        std::mem::take(&mut self.counts)
    }

    /// Names of pools created since this was last asked for.
    pub fn take_new_pools(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_pools)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> u64 {
        self.pools.iter().map(Pool::memory_bytes).sum()
    }

    /// Goes on after a while in which nobody fed it: its pools are told as new ones again.
    pub fn unpark(&mut self) {
        self.new_pools = self.pools.iter().map(|pool| pool.name().to_owned()).collect();
    }

    /// What is still open, as it stands: provisional estimates, pool by pool in order of name.
    pub fn provisional(&self) -> Vec<Estimate> {
        let mut pools: Vec<&Pool> = self.pools.iter().collect();
        pools.sort_unstable_by_key(|pool| pool.name());
        pools.iter().flat_map(|pool| pool.provisional(self.at(self.next))).collect()
    }

    /// Shows a record to its pool, decoded if it was not yet; gives its event time, or why it was refused.
    fn count_in_pool(
        &mut self,
        record: &SourceRecord<'_>,
        decoded: Option<Decoded<'_>>,
    ) -> Result<Result<EventTime, DecodeError>, TaskError> {
        let decoded = match decoded {
            Some(decoded) => decoded,
            None => {
                let value = record.value.unwrap_or_default();
                self.decoder.look_up(value)?;
                match self.decoder.decode(record.key, value) {
                    Ok(decoded) => decoded,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let event_time = decoded.event.event_time;
        if let Err(error) = self.config.limits.check_ahead(event_time, record.timestamp_ms) {
            return Ok(Err(error));
        }
        let mut book = Book {
            config: &self.config,
            partition: self.partition,
            pools: &mut self.pools,
            names: &mut self.names,
            new_pools: &mut self.new_pools,
        };
        let index = match book.find_or_create(&decoded.pool)? {
            Some(index) => index,
            None => return Ok(Err(too_many_pools(self.config.max_pools))),
        };
        let offset = Offset(record.offset);
        let counted = record.offset >= self.count_from.0;
        let arrival = Arrival { offset, counted, watermark: self.watermark.time() };
        let pool = &mut self.pools[index];
        match pool.observe(&decoded.event, arrival) {
            Ok(outcome) => {
                self.pages.resize(self.pages.len().max(index + 1), 0);
                self.pages[index] += outcome.page_accesses;
            }
            Err(refusal) => return Ok(Err(refused(&refusal))),
        }
        self.deadlines.set(index, pool.next_deadline());
        Ok(Ok(event_time))
    }

    /// Moves the watermark and hands out what it closes, in order of window end, pool and window.
    fn close_windows(
        &mut self,
        event_time: EventTime,
        next: NextOffset,
        muted: bool,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        self.watermark.observe(event_time);
        let Some(watermark) = self.watermark.time() else { return Ok(()) };
        let mut closed = std::mem::take(&mut self.closed);
        let at = self.at(next);
        while let Some(index) = self.deadlines.due(watermark) {
            let pool = &mut self.pools[index];
            pool.advance_watermark(watermark, at, &mut closed);
            self.counts.memory.insert(pool.name().to_owned(), pool.memory_bytes());
            // A deadline that stayed would be due for ever.
            self.deadlines.set(index, pool.next_deadline().filter(|deadline| *deadline > watermark));
        }
        // Stable, so that each pool's windows stay in the order they are configured in.
        closed.sort_by(|a, b| (a.end_ms, &a.pool).cmp(&(b.end_ms, &b.pool)));
        let written = if muted { Ok(()) } else { self.write(&closed, out) };
        for estimate in closed.drain(..) {
            self.counts.latest.insert((estimate.pool.clone(), estimate.window), estimate);
        }
        self.closed = closed;
        written
    }

    fn write(&mut self, closed: &[Estimate], out: &mut Vec<OutputRecord>) -> Result<(), TaskError> {
        let begin = out.len();
        for estimate in closed {
            let mut value = Vec::new();
            if let Err(error) = encode_estimate(estimate, self.config.output, &mut value) {
                out.truncate(begin);
                return Err(TaskError::Estimate { partition: self.partition, error });
            }
            out.push(OutputRecord {
                destination: Destination::Results,
                partition: self.partition,
                window: Some(estimate.window),
                key: Some(EstimateKey::of(estimate).to_bytes()),
                value: Some(value),
                headers: Vec::new(),
                placed_by: Some(estimate.pool.clone()),
            });
        }
        Ok(())
    }

    /// The point of the log the state stands at.
    fn at(&self, next: NextOffset) -> Moment {
        Moment { next_offset: Offset(next.0), missing: self.history.missing() }
    }

    fn dead_letter(&self, record: &SourceRecord<'_>, error: &DecodeError) -> OutputRecord {
        let by = Provenance { version: &self.config.version, fingerprint: &self.config.fingerprint };
        let letter = DeadLetter::new(*record, error, by);
        OutputRecord {
            destination: Destination::DeadLetters,
            partition: self.partition,
            window: None,
            key: letter.key,
            value: letter.value,
            headers: letter.headers,
            placed_by: None,
        }
    }
}

/// The task's pools, borrowed apart from its decoder, whose buffers hold the event.
struct Book<'a> {
    config: &'a TaskConfig,
    partition: Partition,
    pools: &'a mut Vec<Pool>,
    names: &'a mut BTreeMap<Box<str>, usize>,
    new_pools: &'a mut Vec<String>,
}

impl Book<'_> {
    /// The pool of this name, created on first sight; `None` when there are too many already.
    fn find_or_create(&mut self, name: &str) -> Result<Option<usize>, PoolConfigError> {
        if let Some(index) = self.names.get(name) {
            return Ok(Some(*index));
        }
        let index = self.pools.len();
        if index >= self.config.max_pools {
            return Ok(None);
        }
        self.pools.push(Pool::new(name, self.partition.0, Arc::clone(self.config.pools.of(name)))?);
        self.names.insert(name.into(), index);
        self.new_pools.push(name.to_owned());
        Ok(Some(index))
    }
}

fn decoder(config: &TaskConfig) -> RequestDecoder {
    RequestDecoder::new(config.encoding, config.limits).with_schemas(config.schemas.clone())
}

/// What tells this record from another one at its offset.
fn identity(record: &SourceRecord<'_>) -> RecordIdentity {
    let timestamp_ms = record.timestamp_ms.unwrap_or(-1);
    RecordIdentity::of(Offset(record.offset), timestamp_ms, record.key, record.value)
}

fn too_many_pools(limit: usize) -> DecodeError {
    DecodeError::new(
        ErrorCode::TooManyPools,
        format!("the partition holds max_pools = {limit} pools already"),
    )
}

fn refused(refusal: &Refusal) -> DecodeError {
    let code = match refusal {
        Refusal::UnknownPageSize | Refusal::PageSizeMismatch { .. } => ErrorCode::UnknownPageSize,
        Refusal::TooManyPages { .. } => ErrorCode::TooManyPages,
        Refusal::PageCountMismatch { .. } => ErrorCode::PageCountMismatch,
        Refusal::Chain(_) => ErrorCode::ChainViolation,
    };
    DecodeError::new(code, refusal.to_string())
}

#[cfg(test)]
mod tests;
