//! A folder as the one partition of a log that one process reads.

use super::FolderPlan;
use super::journal::FolderJournal;
use super::lines::LineRules;
use super::streams::{FolderStreams, ReplayedLines};
use crate::shutdown::Shutdown;
use kvset_core::units::Offset;
use kvset_formats::codec::SourceRecord;
use kvset_formats::position::{LogRange, NextOffset, Partition, StartFrom};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::member::{Committed, Event, Identities, InputRecord, LogEnd, Member, TopicId};
use kvset_pipeline::facts::RecordIdentity;
use kvset_pipeline::publish::FailureKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks at the folder.
const LOOK: Duration = Duration::from_millis(200);
/// The one partition.
pub(super) const ALL: Partition = Partition(0);

/// A journal that source and sink share.
pub(super) type SharedJournal = Arc<Mutex<FolderJournal>>;

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of a file as a record.
#[derive(Debug)]
pub struct FileRecord {
    topic: Arc<str>,
    offset: i64,
    value: Vec<u8>,
}

impl InputRecord for FileRecord {
    fn as_source(&self) -> SourceRecord<'_> {
        SourceRecord {
            schema_header: None,
            topic: &self.topic,
            partition: ALL.0,
            offset: self.offset,
            timestamp_ms: None,
            key: None,
            value: Some(&self.value),
        }
    }
}

/// What the poll loop was given last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastGiven {
    Nothing,
    Partition,
    Records,
    End,
}

struct FolderReading {
    streams: FolderStreams,
    /// Of what was committed before this life, what is read again.
    replayed: Option<ReplayedLines>,
    given: LastGiven,
    paused: bool,
    held: bool,
    looked: Instant,
    /// Whether the folder could be listed at the last look.
    is_there: bool,
}

/// Follows the files of a folder. A clone looks single records of the same reading up.
#[derive(Clone)]
pub struct FolderSource {
    topic: Arc<str>,
    plan: FolderPlan,
    shutdown: Shutdown,
    journal: SharedJournal,
    reading: Arc<Mutex<FolderReading>>,
}

impl FolderSource {
    /// Begins to read where the journal says. Gives a `sign` of life now and then.
    ///
    /// # Errors
    /// The folder cannot be listed, or it is not the one that was read before.
    pub(super) fn open(
        plan: &FolderPlan,
        start: StartFrom,
        journal: SharedJournal,
        shutdown: &Shutdown,
        sign: &dyn Fn(),
    ) -> Result<Self, KafkaFailure> {
        let rules = LineRules { most: plan.most_line, complete: plan.until_end };
        let mut streams = FolderStreams::new(plan.folder.clone(), rules);
        let topic = {
            let mut journal = lock(&journal);
            let knew_files = journal.positions.knows_files();
            let is_new = journal.positions.committed().is_none();
            let listed = streams.look(&mut journal.positions);
            listed.map_err(|error| {
                KafkaFailure::fatal(format!("listing {}: {error}", plan.folder.display()))
            })?;
            journal.keep_cuts()?;
            let before = journal.identity.folder.clone();
            if knew_files && before != plan.folder && !streams.knows_any(&journal.positions) {
                return Err(KafkaFailure::fatal(format!(
                    "{} has the estimates of folder {}, and {} has none of its files: name another file (output.file, \
                     --estimates) for another folder",
                    plan.estimates.display(),
                    before.display(),
                    plan.folder.display()
                )));
            }
            if is_new && start == StartFrom::Latest {
                streams.pass_all(&mut journal.positions, sign);
                journal.prepare()?;
                journal.commit(0, Default::default())?;
            }
            Arc::from(journal.identity.topic.as_str())
        };
        let reading = FolderReading {
            streams,
            replayed: None,
            given: LastGiven::Nothing,
            paused: false,
            held: false,
            looked: Instant::now(),
            is_there: true,
        };
        let (plan, shutdown) = (plan.clone(), shutdown.clone());
        Ok(Self { topic, plan, shutdown, journal, reading: Arc::new(Mutex::new(reading)) })
    }

    /// What it shares with the sink.
    pub(super) fn journal(&self) -> SharedJournal {
        Arc::clone(&self.journal)
    }

    /// Whether it cannot go on.
    pub(super) fn is_held(&self) -> bool {
        lock(&self.reading).held
    }

    fn record(&self, reading: &mut FolderReading) -> Result<Option<FileRecord>, KafkaFailure> {
        let record = |(offset, value)| FileRecord { topic: Arc::clone(&self.topic), offset, value };
        if let Some(replayed) = &mut reading.replayed {
            let again = replayed.next(&reading.streams).map_err(|error| {
                KafkaFailure::fatal(format!(
                    "{}: what was read of it before cannot be read again: {error}. Start once more, which goes on without \
                     it where state.lost_history is \"rebuild\"",
                    self.plan.folder.display()
                ))
            })?;
            if again.is_some() {
                return Ok(again.map(record));
            }
            reading.replayed = None;
        }
        let Some((file, line)) = reading.streams.next() else { return Ok(None) };
        let offset = lock(&self.journal).positions.hand_out(file, line.start, line.end);
        Ok(Some(record((offset, line.bytes))))
    }

    fn look(&self, reading: &mut FolderReading) -> Result<(), KafkaFailure> {
        reading.looked = Instant::now();
        let mut journal = lock(&self.journal);
        let looked = reading.streams.look(&mut journal.positions);
        if let (Err(error), true) = (&looked, reading.is_there) {
            tracing::warn!(
                "{} cannot be listed: {error}; waiting until it can be",
                self.plan.folder.display()
            );
        }
        reading.is_there = looked.is_ok();
        // What a full disk refuses is tried again.
        journal.keep_cuts().or_else(|failure| match failure.kind {
            FailureKind::Fatal => Err(failure),
            _ => Ok(()),
        })
    }

    /// Whether everything that was handed out is committed.
    fn is_committed(&self) -> bool {
        let positions = &lock(&self.journal).positions;
        positions.next() == positions.committed().unwrap_or(0)
    }

    fn event(&self, reading: &mut FolderReading) -> Option<Event<FileRecord>> {
        match reading.given {
            LastGiven::Nothing => {
                reading.given = LastGiven::Partition;
                return Some(Event::Assigned(vec![ALL]));
            }
            LastGiven::Partition => return None,
            LastGiven::Records | LastGiven::End => {}
        }
        if reading.paused || reading.held {
            return None;
        }
        let looked = if reading.looked.elapsed() >= LOOK { self.look(reading) } else { Ok(()) };
        match looked.and_then(|()| self.record(reading)) {
            Ok(Some(record)) => {
                reading.given = LastGiven::Records;
                Some(Event::Record(record))
            }
            Ok(None) if reading.given == LastGiven::Records => {
                reading.given = LastGiven::End;
                Some(Event::End(ALL))
            }
            Ok(None) => None,
            Err(failure) => {
                reading.held = true;
                Some(Event::Trouble(failure))
            }
        }
    }
}

impl Member for FolderSource {
    type Record<'r> = FileRecord;
    type Lookup = Self;

    fn poll(&self, timeout: Duration) -> Option<Event<FileRecord>> {
        let mut reading = lock(&self.reading);
        if let Some(event) = self.event(&mut reading) {
            return Some(event);
        }
        let is_over =
            reading.held || (reading.given == LastGiven::End && !reading.paused && self.is_committed());
        if self.plan.until_end && is_over {
            self.shutdown.request();
            return None;
        }
        drop(reading);
        std::thread::sleep(timeout.min(LOOK));
        None
    }

    fn committed(
        &self,
        partitions: &[Partition],
        _: Duration,
    ) -> Result<Vec<(Partition, Committed)>, KafkaFailure> {
        let next = lock(&self.journal).positions.committed().map(NextOffset);
        Ok(partitions
            .iter()
            .map(|partition| (*partition, Committed { next, ..Committed::default() }))
            .collect())
    }

    fn log_range(&self, _: Partition, _: Duration) -> Result<LogRange, KafkaFailure> {
        let (reading, journal) = (lock(&self.reading), lock(&self.journal));
        let start = journal.positions.log_start(|stretch| reading.streams.can_read(stretch));
        Ok(LogRange { start: NextOffset(start), end: NextOffset(journal.positions.committed().unwrap_or(0)) })
    }

    fn topic_id(&self, _: Duration) -> Result<Option<TopicId>, KafkaFailure> {
        Ok(None)
    }

    fn unowned(&self, _: Duration) -> Result<(Vec<Partition>, bool), KafkaFailure> {
        Ok((Vec::new(), false))
    }

    fn share_out_again(&self) {}

    fn lookup(&self) -> Result<Self, KafkaFailure> {
        Ok(self.clone())
    }

    fn assign(&self, starts: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let mut reading = lock(&self.reading);
        for (_, start) in starts {
            reading.replayed = Some(ReplayedLines::new(&lock(&self.journal).positions, start.0));
            reading.given = LastGiven::Records;
        }
        Ok(())
    }

    fn unassign(&self, _: &[Partition]) -> Result<(), KafkaFailure> {
        Ok(())
    }

    fn skip_to(&self, _: Partition, _: NextOffset) -> Result<(), KafkaFailure> {
        Ok(())
    }

    fn pause(&self, _: Partition) -> Result<(), KafkaFailure> {
        lock(&self.reading).paused = true;
        Ok(())
    }

    fn hold(&self, _: Partition) -> Result<(), KafkaFailure> {
        lock(&self.reading).held = true;
        Ok(())
    }

    fn resume(&self, _: Partition) -> Result<(), KafkaFailure> {
        lock(&self.reading).paused = false;
        Ok(())
    }

    fn log_ends(&self) -> BTreeMap<Partition, LogEnd> {
        let waiting = i64::try_from(lock(&self.reading).streams.waiting()).unwrap_or(i64::MAX);
        let next = lock(&self.journal).positions.next();
        let end = LogEnd { end: NextOffset(next.saturating_add(waiting)), read_to: NextOffset(next) };
        BTreeMap::from([(ALL, end)])
    }

    fn away_for(&self) -> Duration {
        Duration::ZERO
    }

    fn is_evicted(&self) -> bool {
        false
    }

    fn last_trouble(&self) -> Option<Duration> {
        None
    }

    fn leave(&self, _: bool) {}
}

impl Identities for FolderSource {
    fn identity(
        &self,
        _: Partition,
        offset: Offset,
        _: Duration,
    ) -> Result<Option<RecordIdentity>, KafkaFailure> {
        let mut lines = ReplayedLines::new(&lock(&self.journal).positions, offset.0);
        // What cannot be read is not there; what is another record shows by its bytes.
        let found = lines.next(&lock(&self.reading).streams).unwrap_or_default();
        let identity = |(at, value): (i64, Vec<u8>)| RecordIdentity::of(Offset(at), -1, None, Some(&value));
        Ok(found.map(identity).filter(|identity| identity.offset == offset))
    }
}
