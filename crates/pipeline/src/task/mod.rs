//! One partition's task: records in, finished output records out.
//!
//! A pure function of (configuration, records in offset order). Muted, it does the same work and
//! hands nothing out: that is how state is rebuilt whose outputs were published before.

use crate::dead_letter_policy::{DeadLetterLimit, DeadLetterLimits, DeadLetterPolicy, UnreadRun};
use crate::facts::RecordIdentity;
use crate::gaps::{OffsetGap, OffsetGaps, gap_letter};
use crate::incoming::Incoming;
use crate::resume::{Origin, Resume};
use kvset_core::estimate::Estimate;
use kvset_core::pool::set::{ObserveError, PoolConfigs, PoolHistory, PoolRecord, PoolSet, PoolSetConfig};
use kvset_core::pool::{Pool, Refusal};
use kvset_core::request::event::ImpossibleNumber;
use kvset_core::stack::LOOK_AHEAD;
use kvset_core::units::Offset;
use kvset_core::units::heap::HeapBytes;
use kvset_formats::codec::{
    DeadLetter, DecodeError, DecodeLimits, Encoding, ErrorCode, EstimateDetail, EstimateEncoding,
    EstimateError, EstimateKey, LookupError, Provenance, RequestDecoder, SourceRecord, WriterSchemas,
    encode_estimate, estimate_headers,
};
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::position::{NextOffset, Partition};
use std::collections::BTreeMap;
use std::sync::Arc;

mod activity;
mod ahead;
mod arrivals;
mod bytes;
mod counts;
mod image;
mod latest;
mod rebuilt;
mod refusals;

use ahead::AheadRecord;
use arrivals::{Arrivals, Receipt};
use latest::LatestEstimates;
use refusals::{RefusalsByPool, RefusedRecord};

pub use activity::{PoolActivity, PoolTime};
pub use counts::TaskCounts;
pub use image::{RestoredTask, TaskImage, TaskRestoreError};
pub use refusals::PoolRefusals;

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
    pub pools: Arc<PoolConfigs>,
    /// Most pools of one partition; records of further ones are refused.
    pub max_pools: usize,
    /// After how much time of the log without a record a pool is idle, and its windows close as the time of the log
    /// goes on, in milliseconds; never where this is absent.
    pub idle_timeout_ms: Option<u64>,
    /// After how much time of the log without a record a pool makes room for a new one, where there are `max_pools`,
    /// in milliseconds; never where this is absent.
    pub forget_after_ms: Option<u64>,
    /// After how much time of the log without a record a pool is put aside, in milliseconds; never where this is
    /// absent. Changes no result.
    pub put_aside_after_ms: Option<u64>,
    /// Most bytes of records that are held back for earlier arrivals; beyond, the earliest are taken early.
    pub hold_back_bytes: u64,
    /// How many refusals are tolerated.
    pub dead_letters: DeadLetterLimits,
    /// Largest dead letter; larger ones go without the bytes of their record.
    pub max_letter_bytes: usize,
    /// How estimates are written.
    pub output: EstimateEncoding,
    /// How much of them is written.
    pub detail: EstimateDetail,
    /// Version of this program, for dead letters.
    pub version: String,
    /// Fingerprint of the configuration in force, for estimates and dead letters.
    pub fingerprint: String,
}

impl TaskConfig {
    /// A decoder of the topic's records.
    pub fn decoder(&self) -> RequestDecoder {
        RequestDecoder::new(self.encoding, self.limits).with_schemas(self.schemas.clone())
    }
}

/// Why a task cannot go on. The record that caused it was not processed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskError {
    /// It is not known how the record was written.
    #[error(transparent)]
    Schema(#[from] LookupError),
    /// Too many records in a row that cannot be read, and no pool of the partition is left whose can.
    #[error(transparent)]
    DeadLetters(#[from] DeadLetterLimit),
    /// A pool that was put aside cannot be taken back.
    #[error("partition {partition}: {error}")]
    Aside {
        /// The partition.
        partition: Partition,
        /// Which pool.
        error: ObserveError,
    },
    /// A record that was held back cannot be read any more.
    #[error(
        "partition {partition}: the record at offset {offset}, which was held back, has changed in memory: rebuild the \
         state from the log"
    )]
    Delayed {
        /// The partition.
        partition: Partition,
        /// The record's offset.
        offset: i64,
    },
    /// An estimate cannot be written.
    #[error("partition {partition}: {error}")]
    Estimate {
        /// The partition.
        partition: Partition,
        /// What does not fit.
        error: EstimateError,
    },
}

/// One partition's state.
#[derive(Debug)]
pub struct PartitionTask {
    config: Arc<TaskConfig>,
    partition: Partition,
    decoder: RequestDecoder,
    policy: DeadLetterPolicy,
    /// Whose records those in a row were that could not be read.
    unread: UnreadRun,
    refusals: RefusalsByPool,
    pools: PoolSet,
    /// Records that wait for earlier arrivals; none where no pool holds any back.
    arrivals: Option<Arrivals>,
    /// The newest final estimates, by name of the pool.
    latest: BTreeMap<Box<str>, LatestEstimates>,
    next: NextOffset,
    publish_from: NextOffset,
    count_from: NextOffset,
    /// Where the run over the log ends; absent where it goes on for ever.
    end: Option<NextOffset>,
    last_record: Option<RecordIdentity>,
    /// Of a state that is rebuilt from the log, until that is done: the records that the log still had.
    rebuilt: Option<u64>,
    /// The offsets that it is rebuilt of.
    rebuilt_offsets: u64,
    /// Offsets that cannot be read and are to be passed.
    gaps: OffsetGaps,
    /// Those that were.
    passed_gaps: Vec<OffsetGap>,
    counts: TaskCounts,
    /// Accepted records since the counts were last taken, by index of the pool.
    active: BTreeMap<usize, PoolActivity>,
    /// Kept to reuse its memory.
    closed: Vec<Estimate>,
}

impl HeapBytes for PartitionTask {
    fn heap_bytes(&self) -> usize {
        self.pools.heap_bytes() + self.arrivals.heap_bytes() + self.latest.heap_bytes()
    }
}

impl PartitionTask {
    /// A task that has seen nothing, whose records begin at [`Resume::replay_from`].
    pub fn new(config: Arc<TaskConfig>, partition: Partition, resume: &Resume) -> Self {
        let history = if resume.warm_up { PoolHistory::Missing } else { PoolHistory::Whole };
        let pools = PoolSet::new(pool_set_config(&config, partition), history);
        let policy = DeadLetterPolicy::new(config.dead_letters);
        Self::over(config, partition, resume, pools, policy)
    }

    /// A task over pools and a dead-letter policy as they stand.
    fn over(
        config: Arc<TaskConfig>,
        partition: Partition,
        resume: &Resume,
        pools: PoolSet,
        policy: DeadLetterPolicy,
    ) -> Self {
        Self {
            arrivals: Arrivals::of(&config),
            decoder: config.decoder(),
            policy,
            unread: UnreadRun::default(),
            refusals: RefusalsByPool::new(config.dead_letters),
            config,
            partition,
            pools,
            latest: BTreeMap::new(),
            next: resume.replay_from,
            publish_from: resume.publish_from,
            count_from: resume.count_from,
            end: None,
            last_record: None,
            rebuilt_offsets: resume.publish_from.0.saturating_sub(resume.replay_from.0).max(0).unsigned_abs(),
            rebuilt: (resume.origin == Origin::Rebuild).then_some(0),
            gaps: OffsetGaps::default(),
            passed_gaps: Vec::new(),
            counts: TaskCounts::default(),
            active: BTreeMap::new(),
            closed: Vec::new(),
        }
    }

    /// Processes one record and appends what it gives out. Offsets must increase; gaps are legal.
    ///
    /// # Errors
    /// The task must not go on; the record counts as not processed, and nothing was appended.
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
        records: impl IntoIterator<Item = impl Into<Incoming<'r>>>,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        // An event is some hundred bytes: it stays where it was read.
        let (mut read, mut last) = (Vec::with_capacity(LOOK_AHEAD), None);
        let mut records = records.into_iter().map(Into::into);
        let result = loop {
            let goes_on = self.read_ahead(&mut records, &mut read);
            let done = read.iter().try_for_each(|read| {
                self.process(read, out)?;
                last = Some(read.record);
                Ok(())
            });
            if !goes_on || done.is_err() {
                break done;
            }
        };
        self.last_record = last.as_ref().map(identity).or(self.last_record);
        result
    }

    /// Processes one record, all but for its identity.
    fn process(&mut self, read: &AheadRecord<'_>, out: &mut Vec<OutputRecord>) -> Result<(), TaskError> {
        let record = &read.record;
        debug_assert!(record.offset >= self.next.0, "records come in offset order");
        let muted = record.offset < self.publish_from.0;
        let begin = out.len();
        self.pass_gaps(record, out);
        self.note_rebuilt(muted);
        match record.value {
            None => self.counts.tombstones += u64::from(!muted),
            // Of a record that was not processed, nothing that it made others give out is published.
            Some(_) => {
                self.process_value(read, out).inspect_err(|_| out.truncate(begin))?;
            }
        }
        let next = NextOffset::after(record.offset);
        if self.end.is_some_and(|end| next >= end) {
            self.release_all(next, out).inspect_err(|_| out.truncate(begin))?;
        }
        self.next = next;
        self.counts.records += 1;
        self.counts.replayed += u64::from(muted);
        self.counts.bytes += (record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len)) as u64;
        Ok(())
    }

    /// Processes a record that has a value, and those that waited until it came.
    fn process_value(
        &mut self,
        read: &AheadRecord<'_>,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        let at = NextOffset::after(read.record.offset);
        match self.receive(read)? {
            Receipt::Waits => {}
            Receipt::Taken(observed) => self.settle(&read.record, observed, at, out)?,
        }
        self.release_due(at, out)
    }

    /// Does what follows from a record that its pool took or that was refused. `at` is where the log has been read to.
    fn settle(
        &mut self,
        record: &SourceRecord<'_>,
        observed: Result<(), RefusedRecord>,
        at: NextOffset,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        let muted = at <= self.publish_from;
        match observed {
            Ok(()) => {
                self.policy.accept();
                self.unread.end();
            }
            Err(RefusedRecord { error, is_read, pool }) => {
                let within = self.note_refused(record, error.code(), is_read, pool.as_deref());
                // A muted record was passed by the life that published it, under the limits of that day: here
                // it counts towards them and stops nobody.
                if !muted {
                    within?;
                    *self.counts.refused.entry(error.code()).or_default() += 1;
                    self.counts.refused_at.insert(error.code(), record.offset);
                    out.push(self.dead_letter(record, &error));
                }
            }
        }
        // A refused record may have told, too, that time goes on.
        self.publish_closed(muted, out)
    }

    /// Notes that offsets before this record could not be read: no pool's history is whole from there on, and a dead
    /// letter says which records are missing.
    fn pass_gaps(&mut self, record: &SourceRecord<'_>, out: &mut Vec<OutputRecord>) {
        if self.gaps.is_empty() {
            return;
        }
        let passed: Vec<_> = self.gaps.passed(self.next.0, record.offset).collect();
        for gap in passed {
            self.pools.lose_history();
            self.passed_gaps.push(gap);
            if record.offset >= self.publish_from.0 {
                *self.counts.refused.entry(ErrorCode::Unreadable).or_default() += 1;
                self.counts.refused_at.insert(ErrorCode::Unreadable, gap.start);
                out.push(gap_letter(record.topic, self.partition, gap, self.provenance()));
            }
        }
    }

    /// Counts what was done for pools that were forgotten.
    fn take_leave_of_forgotten(&mut self) {
        for (index, name) in self.pools.take_forgotten() {
            if let Some(activity) = self.active.remove(&index) {
                self.counts.pools.push((name.to_string(), activity));
            }
            self.latest.remove(&name);
            self.refusals.forget(&name);
            self.arrivals.iter_mut().for_each(|arrivals| arrivals.forget(&name));
            self.counts.forgotten.push(name.into());
        }
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// Everything before this is in the state.
    pub fn next_offset(&self) -> NextOffset {
        self.next
    }

    /// How far event time has got in each pool that has had a record accepted.
    pub fn times(&self) -> impl Iterator<Item = (&str, PoolTime)> {
        let pools = self.pools.pools().iter().zip(self.pools.timelines());
        pools.filter_map(|(pool, timeline)| Some((pool.name(), PoolTime::of(pool, timeline)?)))
    }

    /// The same in one, for all pools.
    pub fn time(&self) -> Option<PoolTime> {
        PoolTime::of_all(self.times().map(|(_, time)| time))
    }

    /// The pools, in the order they were first seen in.
    pub fn pools(&self) -> &[Pool] {
        self.pools.pools()
    }

    /// Offsets that cannot be read, which are to be passed where the log goes on behind them.
    pub fn pass(&mut self, gaps: OffsetGaps) {
        self.gaps = gaps;
    }

    /// Sets where the run over the log ends: with the record before, all that wait are taken.
    pub fn end_at(&mut self, end: NextOffset) {
        self.end = Some(end);
    }

    /// What was done since this was last requested.
    pub fn take_counts(&mut self) -> TaskCounts {
        let (pools, timelines) = (self.pools.pools(), self.pools.timelines());
        for (index, activity) in std::mem::take(&mut self.active) {
            let (pool, timeline) = (&pools[index], &timelines[index]);
            let activity = PoolActivity { time: PoolTime::of(pool, timeline), ..activity };
            self.counts.pools.push((pool.name().to_owned(), activity));
        }
        self.counts.waiting = self.waiting();
        self.counts.refused_pools = self.refusals.take_news();
        std::mem::take(&mut self.counts)
    }

    /// Records that wait for earlier arrivals.
    pub fn waiting(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, |arrivals| arrivals.records() as u64)
    }

    /// Names of pools created since this was last requested.
    pub fn take_new_pools(&mut self) -> Vec<String> {
        let created = self.pools.take_created();
        created.into_iter().map(|index| self.pools.pools()[index].name().to_owned()).collect()
    }

    /// The newest final estimate of every pool and kind of window, pool by pool in order of name. They
    /// are part of the state: all of them precede [`PartitionTask::next_offset`].
    ///
    /// # Errors
    /// One that was kept cannot be read, which [`PartitionTask::restore`] rules out.
    pub fn latest(&self) -> Result<Vec<Estimate>, TaskRestoreError> {
        let mut latest = image::read_latest(&self.pools, &self.latest)?;
        latest.iter_mut().for_each(|estimate| self.sign(estimate));
        Ok(latest)
    }

    /// Goes on after a while without records: its pools are reported as new ones again.
    pub fn unpark(&mut self) {
        self.pools.announce_all();
    }

    /// What is still open, as it stands: provisional estimates, pool by pool in order of name.
    pub fn provisional(&self) -> Vec<Estimate> {
        let mut open = self.pools.provisional(Offset(self.next.0));
        open.iter_mut().for_each(|estimate| {
            self.shorten(estimate);
            self.sign(estimate);
        });
        open
    }

    /// Names the configuration in force, by the fingerprint that all of this program's results have.
    fn sign(&self, estimate: &mut Estimate) {
        estimate.fingerprint.clone_from(&self.config.fingerprint);
    }

    /// Makes an estimate as large as what it says: there is one per pool and window, and there may be many pools.
    fn shorten(&self, estimate: &mut Estimate) {
        if self.config.pools.of(&estimate.pool).chooses_capacities() {
            estimate.thin_curve();
        }
    }

    /// Gives a record that was decoded to its pool; what it closes is in `closed` then. Inside, why it was refused.
    fn observe(
        &mut self,
        record: PoolRecord<'_>,
        out_of_order_by_ms: Option<u64>,
        is_early: bool,
    ) -> Result<Result<(), RefusedRecord>, TaskError> {
        let pool = record.pool;
        let observed = self.pools.observe(record, &mut self.closed);
        self.take_leave_of_forgotten();
        match observed {
            Ok(observed) => {
                self.active.entry(observed.pool).or_default().add(&observed, out_of_order_by_ms, is_early);
                self.refusals.accept(pool);
                Ok(Ok(()))
            }
            Err(ObserveError::Refused(refusal)) => Ok(Err(RefusedRecord::of(pool, refused(&refusal)))),
            Err(error @ ObserveError::TooManyPools { .. }) => {
                self.arrivals.iter_mut().for_each(|arrivals| arrivals.forget(pool));
                let error = DecodeError::new(ErrorCode::TooManyPools, error.to_string());
                Ok(Err(RefusedRecord::of(pool, error)))
            }
            Err(error @ ObserveError::Aside { .. }) => {
                Err(TaskError::Aside { partition: self.partition, error })
            }
        }
    }

    /// Whether the record at this offset counts in windows, or only warms the state up.
    fn counts_in_windows(&self, offset: i64) -> bool {
        offset >= self.count_from.0
    }

    /// Hands out the windows that the last record closed.
    fn publish_closed(&mut self, muted: bool, out: &mut Vec<OutputRecord>) -> Result<(), TaskError> {
        let mut closed = std::mem::take(&mut self.closed);
        closed.iter_mut().for_each(|estimate| self.shorten(estimate));
        let kept = self.keep(&closed);
        closed.iter_mut().for_each(|estimate| self.sign(estimate));
        let written = kept.and_then(|()| if muted { Ok(()) } else { self.write(&closed, out) });
        for estimate in closed.drain(..) {
            if let Some(pool) = self.pools.get(&estimate.pool) {
                self.counts
                    .memory
                    .insert(estimate.pool.clone(), (size_of::<Pool>() + pool.heap_bytes()) as u64);
                self.counts.tracked_requests.insert(estimate.pool.clone(), pool.tracked_requests());
            }
            self.counts.latest.insert((estimate.pool.clone(), estimate.window), estimate);
        }
        self.closed = closed;
        written
    }

    fn write(&mut self, closed: &[Estimate], out: &mut Vec<OutputRecord>) -> Result<(), TaskError> {
        let begin = out.len();
        for estimate in closed {
            let mut value = Vec::new();
            let record = self.config.detail.of(estimate);
            if let Err(error) = encode_estimate(&record, self.config.output, &mut value) {
                out.truncate(begin);
                return Err(TaskError::Estimate { partition: self.partition, error });
            }
            out.push(OutputRecord {
                destination: Destination::Results,
                partition: self.partition,
                window: Some(estimate.window),
                key: Some(EstimateKey::of(estimate).to_bytes()),
                value: Some(value),
                headers: estimate_headers(estimate, self.config.output),
                placed_by: Some(estimate.pool.clone()),
            });
        }
        Ok(())
    }

    /// Makes the estimates part of the state, muted or not: it says what was published, by whichever life.
    fn keep(&mut self, closed: &[Estimate]) -> Result<(), TaskError> {
        for estimate in closed {
            if !self.latest.contains_key(estimate.pool.as_str()) {
                self.latest.insert(estimate.pool.as_str().into(), LatestEstimates::default());
            }
            let kept =
                self.latest.get_mut(estimate.pool.as_str()).map_or(Ok(()), |latest| latest.keep(estimate));
            kept.map_err(|error| TaskError::Estimate { partition: self.partition, error })?;
        }
        Ok(())
    }

    fn provenance(&self) -> Provenance<'_> {
        Provenance { version: &self.config.version, fingerprint: &self.config.fingerprint }
    }

    fn dead_letter(&self, record: &SourceRecord<'_>, error: &DecodeError) -> OutputRecord {
        let letter = DeadLetter::within(self.config.max_letter_bytes, *record, error, self.provenance());
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

fn pool_set_config(config: &TaskConfig, partition: Partition) -> PoolSetConfig {
    PoolSetConfig {
        pools: Arc::clone(&config.pools),
        partition: partition.0,
        max_pools: config.max_pools,
        idle_timeout_ms: config.idle_timeout_ms,
        forget_after_ms: config.forget_after_ms,
        put_aside_after_ms: config.put_aside_after_ms,
    }
}

/// What tells this record from another one at its offset.
fn identity(record: &SourceRecord<'_>) -> RecordIdentity {
    let timestamp_ms = record.timestamp_ms.unwrap_or(-1);
    RecordIdentity::of(Offset(record.offset), timestamp_ms, record.key, record.value)
}

fn refused(refusal: &Refusal) -> DecodeError {
    let code = match refusal {
        Refusal::UnknownPageSize | Refusal::PageSizeMismatch { .. } => ErrorCode::UnknownPageSize,
        Refusal::IdSchemeMismatch { .. } | Refusal::InvalidIdScheme => ErrorCode::IdSchemeMismatch,
        Refusal::UnfitPage(_) => ErrorCode::InvalidPageSize,
        Refusal::TooManyPages { .. } => ErrorCode::TooManyPages,
        Refusal::Number(ImpossibleNumber::OutOfBounds { .. }) => ErrorCode::InvalidNumber,
        Refusal::Number(ImpossibleNumber::CachedTokens { .. }) => ErrorCode::InvalidCachedTokens,
        Refusal::PageCountMismatch { .. } => ErrorCode::PageCountMismatch,
        Refusal::Chain(_) => ErrorCode::ChainViolation,
    };
    DecodeError::new(code, refusal.to_string())
}

#[cfg(test)]
mod tests;
