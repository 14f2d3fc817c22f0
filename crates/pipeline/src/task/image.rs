//! A task's state, to be kept in a snapshot and taken up again.
//!
//! The decoder, the counts for metrics and everything the configuration says are left out: the first
//! holds nothing between records, the second were reported, the last is compared by fingerprint.

use super::arrivals::{Arrivals, ArrivalsSection, WrittenArrivals};
use super::latest::LatestEstimates;
use super::{PartitionTask, TaskConfig, pool_set_config};
use crate::dead_letter_policy::{DeadLetterPolicy, DeadLetterState, UnreadRun};
use crate::facts::RecordIdentity;
use crate::gaps::OffsetGap;
use crate::resume::Resume;
use kvset_core::estimate::Estimate;
use kvset_core::pool::set::{LogState, PoolSet, PoolSetImage, PoolSetRestoreError, Timeline};
use kvset_core::pool::{PoolImage, RestoredPool};
use kvset_core::questions::observers::{
    ObserversImage, RestoredObservers, RestoredReuse, RestoredSections, ReuseImage, SectionsImage,
};
use kvset_core::request::id_scheme::IdScheme;
use kvset_formats::position::Partition;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A task's state, to be serialised into a snapshot.
#[derive(Debug, Serialize)]
pub struct TaskImage<'a> {
    log: &'a LogState,
    /// Offsets that could not be read and were passed, in order.
    gaps: &'a [OffsetGap],
    dead_letters: &'a DeadLetterState,
    /// In order of name, so that equal states have equal bytes.
    pools: Vec<(&'a str, PoolImage<'a>)>,
    /// Each pool's, in the same order.
    timelines: Vec<&'a Timeline>,
    latest: &'a BTreeMap<Box<str>, LatestEstimates>,
    /// What pools are asked alongside their estimates, of those that are asked anything, in order of name.
    observers: Vec<(&'a str, ObserversImage<'a>)>,
    /// What they are asked about time, tenants and tiers.
    reuse: Vec<(&'a str, ReuseImage<'a>)>,
    /// Records that wait for earlier arrivals; nothing is written where no pool holds any back.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrivals: Option<WrittenArrivals<'a>>,
    /// How pools' page ids are made, in order of name, behind [`SCHEMES_MARK`]; nothing is written where none is known.
    #[serde(skip_serializing_if = "has_no_scheme")]
    id_schemes: (u8, Vec<(&'a str, &'a str)>),
    /// What single questions keep; nothing is written where no pool is asked one.
    #[serde(skip_serializing_if = "SectionsImage::is_empty")]
    sections: SectionsImage<'a>,
    /// Whose records could not be read, one after another, behind [`UNREAD_MARK`]; nothing is written where the last one
    /// could be.
    #[serde(skip_serializing_if = "has_no_run")]
    unread: (u8, &'a UnreadRun),
}

/// What the schemes of page ids begin with: it tells them from the records that wait, which begin with 1.
const SCHEMES_MARK: u8 = 2;

/// What a run of records that could not be read begins with; behind those of all questions.
const UNREAD_MARK: u8 = 250;

fn has_no_run((_, run): &(u8, &UnreadRun)) -> bool {
    run.is_empty()
}

fn has_no_scheme((_, schemes): &(u8, Vec<(&str, &str)>)) -> bool {
    schemes.is_empty()
}

/// A task's state, read back from a snapshot.
#[derive(Debug, Deserialize)]
pub struct RestoredTask {
    log: LogState,
    gaps: Vec<OffsetGap>,
    dead_letters: DeadLetterState,
    pools: Vec<(Box<str>, RestoredPool)>,
    timelines: Vec<Timeline>,
    latest: BTreeMap<Box<str>, LatestEstimates>,
    observers: Vec<(Box<str>, RestoredObservers)>,
    reuse: Vec<(Box<str>, RestoredReuse)>,
    trailing: Trailing,
}

/// What may stand behind all else of a state: parts that are written only where they are there, in this order.
#[derive(Debug, Default)]
struct Trailing {
    arrivals: Option<ArrivalsSection>,
    id_schemes: Vec<(Box<str>, String)>,
    sections: BTreeMap<Box<str>, RestoredSections>,
    unread: UnreadRun,
}

impl<'de> Deserialize<'de> for Trailing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The parts, each behind its mark, and the end.
        let parts = 3 + RestoredSections::QUESTIONS;
        deserializer.deserialize_tuple(2 * parts + 1, Self::default())
    }
}

/// Fills itself: reads the mark of each part that is there, and the part.
impl<'de> Visitor<'de> for Trailing {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing, or marks of parts of the state, each with its part")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut parts: A) -> Result<Self, A::Error> {
        let mut last = 0;
        // A byte is always read, unless there is none.
        while let Ok(Some(mark)) = parts.next_element::<u8>() {
            match mark {
                1 if last < mark => self.arrivals = parts.next_element()?,
                SCHEMES_MARK if last < mark => self.id_schemes = parts.next_element()?.unwrap_or_default(),
                UNREAD_MARK if last < mark => self.unread = parts.next_element()?.unwrap_or_default(),
                _ if last < mark && RestoredSections::read(&mut self.sections, mark, &mut parts)? => {}
                _ => return Err(A::Error::custom("what follows the state is no part of it")),
            }
            last = mark;
        }
        Ok(self)
    }
}

impl RestoredTask {
    /// Offsets that could not be read and were passed, in order.
    pub fn gaps(&self) -> &[OffsetGap] {
        &self.gaps
    }
}

/// Why a task cannot go on from a snapshot: it is rebuilt from the log then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskRestoreError {
    /// What was asked alongside the estimates belongs to no pool.
    #[error(
        "what the snapshot keeps alongside its pools is of no pool in it: rebuild the state from the log"
    )]
    Beside,
    /// The records that wait are missing, too many, or not those of its pools.
    #[error(
        "the records that the snapshot holds back are not those of its pools: rebuild the state from the log"
    )]
    Arrivals,
    /// The pools' state does not fit their configuration.
    #[error(transparent)]
    PoolSet(#[from] PoolSetRestoreError),
    /// An estimate that was kept is none, or not its pool's.
    #[error(
        "the newest estimate of pool {pool} cannot be read from the snapshot: {problem}; rebuild the state from the log"
    )]
    Estimate {
        /// The pool.
        pool: Box<str>,
        /// What is wrong.
        problem: Box<str>,
    },
}

/// Gives each pool back what lies in a later part of a snapshot; both parts are in order of name.
fn rejoined<T, P>(
    pools: Vec<(Box<str>, T)>,
    parts: Vec<(Box<str>, P)>,
    join: impl Fn(T, P) -> T,
) -> Result<Vec<(Box<str>, T)>, TaskRestoreError> {
    let mut parts = parts.into_iter().peekable();
    let own = |(name, pool): (Box<str>, T)| match parts.next_if(|(of, _)| *of == name) {
        Some((_, part)) => (name, join(pool, part)),
        None => (name, pool),
    };
    let pools = pools.into_iter().map(own).collect();
    if parts.next().is_some() { Err(TaskRestoreError::Beside) } else { Ok(pools) }
}

/// The schemes that were kept.
fn read_schemes(kept: Vec<(Box<str>, String)>) -> Result<Vec<(Box<str>, IdScheme)>, TaskRestoreError> {
    let read = |(pool, name): (Box<str>, String)| Some((pool, IdScheme::new(&name)?));
    kept.into_iter().map(read).collect::<Option<_>>().ok_or(TaskRestoreError::Beside)
}

/// The estimates that were kept, pool by pool in order of name.
pub(super) fn read_latest(
    pools: &PoolSet,
    latest: &BTreeMap<Box<str>, LatestEstimates>,
) -> Result<Vec<Estimate>, TaskRestoreError> {
    let mut estimates = Vec::new();
    for (name, latest) in latest {
        let windows = pools.get(name).map_or(&[][..], |pool| &pool.config().windows[..]);
        let unreadable = |problem| TaskRestoreError::Estimate { pool: name.clone(), problem };
        estimates.extend(latest.read(name, windows).map_err(unreadable)?);
    }
    Ok(estimates)
}

impl PartitionTask {
    /// The state as it stands before [`PartitionTask::next_offset`].
    pub fn image(&self) -> TaskImage<'_> {
        let PoolSetImage { log, mut pools, timelines } = self.pools.image();
        let observers = pools.iter_mut().filter_map(|(name, pool)| Some((*name, pool.take_observers()?)));
        let mut observers: Vec<_> = observers.collect();
        let reuse =
            observers.iter_mut().filter_map(|(name, observers)| Some((*name, observers.take_reuse()?)));
        let reuse = reuse.collect();
        let sections = observers.iter_mut().map(|(name, observers)| (*name, observers.take_sections()));
        let sections = sections.collect();
        let schemes = pools.iter().filter_map(|(name, pool)| Some((*name, pool.id_scheme()?))).collect();
        TaskImage {
            log,
            gaps: &self.passed_gaps,
            dead_letters: self.policy.state(),
            pools,
            timelines,
            latest: &self.latest,
            observers,
            reuse,
            arrivals: self.arrivals.as_ref().map(Arrivals::image),
            id_schemes: (SCHEMES_MARK, schemes),
            sections,
            unread: (UNREAD_MARK, &self.unread),
        }
    }

    /// The last record in the state; `None` before the first one.
    pub fn last_record(&self) -> Option<RecordIdentity> {
        self.last_record
    }

    /// A task that goes on where another of the same configuration was when its image was taken, with
    /// records from [`Resume::replay_from`] on. `last_record` is the last one in the image.
    ///
    /// # Errors
    /// [`TaskRestoreError`] where the image is not of this configuration.
    pub fn restore(
        config: Arc<TaskConfig>,
        partition: Partition,
        resume: &Resume,
        last_record: Option<RecordIdentity>,
        image: RestoredTask,
    ) -> Result<Self, TaskRestoreError> {
        let RestoredTask { log, gaps, dead_letters, pools, timelines, latest, observers, reuse, trailing } =
            image;
        let Trailing { arrivals, id_schemes, sections, unread } = trailing;
        let observers = rejoined(observers, reuse, RestoredObservers::with_reuse)?;
        let observers =
            rejoined(observers, sections.into_iter().collect(), RestoredObservers::with_sections)?;
        let pools = rejoined(pools, observers, RestoredPool::with_observers)?;
        let pools = rejoined(pools, read_schemes(id_schemes)?, RestoredPool::with_id_scheme)?;
        let image = PoolSetImage { log, pools, timelines };
        let mut pools = PoolSet::restore(pool_set_config(&config, partition), image)?;
        if resume.warm_up {
            pools.lose_history();
        }
        read_latest(&pools, &latest)?;
        let policy = DeadLetterPolicy::resume(config.dead_letters, dead_letters);
        let task = Self::over(config, partition, resume, pools, policy);
        let arrivals = Arrivals::restore(&task.config, arrivals).ok_or(TaskRestoreError::Arrivals)?;
        Ok(Self { last_record, latest, passed_gaps: gaps, arrivals, unread, ..task })
    }
}
