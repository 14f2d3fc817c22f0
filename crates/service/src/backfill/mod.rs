//! `kvset backfill`: the service between two offsets of each partition, into an output of its own.
//!
//! A run has a name. Under it are its committed offsets, its transactional id, its output topics and
//! its snapshots, so that it disturbs nobody and goes on where it was when it is started again. What it
//! was to read is noted alongside its committed offsets: `latest` means the same after a restart.

mod bounds;
mod note;
mod place;

pub use bounds::RequestedRange;
pub use note::NoteError;
pub use place::{BackfillPlaces, BackfillWarmUp, LogPlace, RangeError};

use crate::error::ServiceError;
use crate::estimating::serve;
use crate::events::Observer;
use crate::plan::{Bounds, PlanError, ServicePlan, connection, task_config};
use crate::poll_loop::summary::Summary;
use crate::shutdown::Shutdown;
use bounds::TopicLog;
use kvset_formats::codec::EstimateDetail;
use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::topics::{FIRST_ANSWER, Topics};
use kvset_pipeline::facts::Fingerprint;
use kvset_pipeline::offset_range::OffsetRange;
use kvset_settings::{Settings, TopicName};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use xxhash_rust::xxh3::Xxh3;

/// The name of a run: part of the names of everything it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// Most characters of a name.
    pub const MAX_LENGTH: usize = 64;
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let fits = (1..=Self::MAX_LENGTH).contains(&text.len()) && text.bytes().all(legal);
        let expected = || format!("expected 1 to {} letters, digits, `_` or `-`", Self::MAX_LENGTH);
        if fits { Ok(Self(text.to_owned())) } else { Err(expected()) }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub struct BackfillOptions {
    /// The configuration of the live service.
    pub settings: Settings,
    /// The run's name.
    pub run_id: RunId,
    /// What to read.
    pub range: RequestedRange,
    /// Topic of estimates; named after the live one and the run where left out.
    pub output_topic: Option<TopicName>,
    /// Directory of snapshots; named after the live one and the run where left out.
    pub state_directory: Option<PathBuf>,
    /// Create output topics that are missing.
    pub create_topics: bool,
    /// Publish estimates in full detail, which a report needs; else in that of the live service.
    pub full_detail: bool,
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The range.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The run id was used before.
    #[error("--run-id {run}: {error}")]
    Note {
        /// The run.
        run: RunId,
        /// What does not fit.
        error: NoteError,
    },
    /// Something of the run's would not be its own.
    #[error("{0}")]
    NotItsOwn(String),
    /// The configuration, or the topics.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The brokers.
    #[error(transparent)]
    Kafka(#[from] KafkaFailure),
    /// The note cannot be written.
    #[error("noting the bounds of the run: {0}")]
    Writing(#[from] serde_json::Error),
}

/// A run that is ready to begin, or to go on.
#[derive(Debug)]
pub struct Backfill {
    /// The run's name.
    pub run_id: RunId,
    /// The service that does it; its bounds are of the partitions that are not done yet.
    pub plan: ServicePlan,
    /// What is read of each partition in all.
    pub offset_ranges: BTreeMap<Partition, OffsetRange>,
    /// How far, at least, an earlier process committed each partition; empty where this is the first.
    pub reached: BTreeMap<Partition, NextOffset>,
    /// The configuration that is in force for the run.
    pub settings: Settings,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillOutcome {
    /// What this process did.
    pub summary: Summary,
    /// How far the run has committed each partition.
    pub reached: BTreeMap<Partition, NextOffset>,
    /// Whether everything is done.
    pub complete: bool,
}

impl Backfill {
    /// Finds out what there is to do. The live group is looked at and not touched.
    ///
    /// # Errors
    /// What keeps the run from beginning, with what to do about it.
    pub fn prepare(options: &BackfillOptions) -> Result<Self, BackfillError> {
        let own = own_settings(options)?;
        let connection = connection(&own.kafka)?;
        let task = task_config(&own).map_err(PlanError::from)?;
        let retry_for = own.kafka.retry_for.as_duration();
        let topic = own.input.topic.as_str();
        let partitions = Topics::new(&connection, retry_for.min(FIRST_ANSWER))?.require(
            topic,
            "input.topic",
            "`kvset produce --create-topics`",
        )?;
        let group = options.settings.kafka.group.as_str();
        let log = TopicLog { connection: &connection, task: &task, partitions, group, retry_for };
        let digest = digest(options, &own);
        let found = log.noted(&own.kafka.group)?;
        let run = options.run_id.clone();
        let begun = note::read(digest, found).map_err(|error| BackfillError::Note { run, error })?;
        let offset_ranges: BTreeMap<_, _> = match begun.is_empty() {
            true => log.offset_ranges(&options.range)?,
            false => begun.iter().map(|(partition, (offset_range, _))| (*partition, *offset_range)).collect(),
        };
        let reached: BTreeMap<_, _> =
            begun.iter().map(|(partition, (_, next))| (*partition, *next)).collect();
        let mut plan = ServicePlan::make(&own, options.create_topics)?;
        let bounds = bounds_of(digest, &offset_ranges, &reached)?;
        plan.stream.bounds = Some(Bounds { gaps: log.gaps(group)?, ..bounds });
        if let Some(state) = &mut plan.state {
            // The same log read from elsewhere is another state.
            state.fingerprint = Fingerprint(digest);
        }
        Ok(Self { run_id: options.run_id.clone(), plan, offset_ranges, reached, settings: own })
    }

    /// Does what is left to do.
    ///
    /// # Errors
    /// Why it could not go on; started again, the run goes on from what was committed.
    pub fn run(&self, shutdown: &Shutdown, observer: &dyn Observer) -> Result<BackfillOutcome, ServiceError> {
        let summary = match self.is_complete(&self.reached) {
            true => Summary::default(),
            false => serve(&self.plan, shutdown, observer)?,
        };
        let mut reached = self.reached.clone();
        reached.extend(summary.next_offsets.iter().map(|(partition, next)| (*partition, *next)));
        let complete = self.is_complete(&reached);
        Ok(BackfillOutcome { summary, reached, complete })
    }

    /// Offsets to be read in all; gaps count too.
    pub fn offsets(&self) -> u64 {
        self.offset_ranges.values().map(OffsetRange::offsets).sum()
    }

    fn is_complete(&self, reached: &BTreeMap<Partition, NextOffset>) -> bool {
        self.offset_ranges
            .iter()
            .all(|(partition, offset_range)| reached.get(partition) >= Some(&offset_range.end))
    }
}

/// The bounds of the partitions that are not done yet.
fn bounds_of(
    run: u64,
    offset_ranges: &BTreeMap<Partition, OffsetRange>,
    reached: &BTreeMap<Partition, NextOffset>,
) -> Result<Bounds, BackfillError> {
    let (notes, gaps) = (BTreeMap::new(), BTreeMap::new());
    let mut bounds = Bounds { offset_ranges: BTreeMap::new(), notes, gaps };
    for (partition, offset_range) in offset_ranges {
        if reached.get(partition) < Some(&offset_range.end) {
            bounds.notes.insert(*partition, note::write(run, offset_range)?);
            bounds.offset_ranges.insert(*partition, *offset_range);
        }
    }
    Ok(bounds)
}

/// Tells two runs apart that must not go on from each other.
fn digest(options: &BackfillOptions, own: &Settings) -> u64 {
    let RequestedRange { from, to, warm_up } = &options.range;
    let topics = [&own.input.topic, &own.output.topic, &own.output.dead_letter_topic].map(TopicName::as_str);
    let asked = [from.to_string(), to.to_string(), warm_up.to_string(), options.run_id.to_string()];
    let mut hash = Xxh3::new();
    hash.update(&own.fingerprint().to_le_bytes());
    hash.update(&[u8::from(own.output.detail == EstimateDetail::Full)]);
    for part in topics.iter().copied().chain(asked.iter().map(String::as_str)) {
        hash.update(part.as_bytes());
        hash.update(b"\n");
    }
    hash.digest()
}

/// The live service's settings with a group, topics and a directory of the run's own.
fn own_settings(options: &BackfillOptions) -> Result<Settings, BackfillError> {
    let (live, run) = (&options.settings, &options.run_id);
    let mut own = live.clone();
    own.kafka.group = format!("{}.backfill.{run}", live.kafka.group);
    own.kafka.instance = String::new();
    if options.full_detail {
        own.output.detail = EstimateDetail::Full;
    }
    own.output.topic = match &options.output_topic {
        Some(topic) => topic.clone(),
        None => own_topic(&live.output.topic, run)?,
    };
    own.output.dead_letter_topic = own_topic(&live.output.dead_letter_topic, run)?;
    own.state.directory = match &options.state_directory {
        Some(directory) => directory.clone(),
        None => own_directory(&live.state.directory, run),
    };
    let taken = [
        ("output.topic", &live.output.topic),
        ("output.dead_letter_topic", &live.output.dead_letter_topic),
        ("input.topic", &live.input.topic),
        ("the run's topic of dead letters", &own.output.dead_letter_topic),
    ];
    if let Some((owner, topic)) = taken.into_iter().find(|(_, topic)| **topic == own.output.topic) {
        return Err(BackfillError::NotItsOwn(format!(
            "--output-topic {topic}: that is {owner}, and a backfill writes to a topic of its own; name another one"
        )));
    }
    if same_directory(&own.state.directory, &live.state.directory) {
        return Err(BackfillError::NotItsOwn(format!(
            "--state-dir {}: that is the live service's state.directory; name another one",
            own.state.directory.display()
        )));
    }
    Ok(own)
}

fn own_topic(live: &TopicName, run: &RunId) -> Result<TopicName, BackfillError> {
    let name = format!("{live}.backfill.{run}");
    TopicName::new(&name).ok_or_else(|| {
        BackfillError::NotItsOwn(format!("`{name}` is too long for a topic: choose a shorter --run-id"))
    })
}

fn own_directory(live: &Path, run: &RunId) -> PathBuf {
    let mut name = live.as_os_str().to_owned();
    name.push(".backfill");
    PathBuf::from(name).join(run.to_string())
}

fn same_directory(one: &Path, other: &Path) -> bool {
    resolved(one) == resolved(other)
}

/// The path without links where it exists, else at least without detours.
fn resolved(path: &Path) -> PathBuf {
    let detours = || {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        whole.components().fold(PathBuf::new(), |mut straight, component| {
            match component {
                Component::ParentDir => drop(straight.pop()),
                other => straight.push(other),
            }
            straight
        })
    };
    path.canonicalize().unwrap_or_else(|_| detours())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> BackfillOptions {
        BackfillOptions {
            settings: Settings::default(),
            run_id: RunId("r-1".to_owned()),
            range: RequestedRange {
                from: BackfillPlaces::Everywhere(LogPlace::Earliest),
                to: BackfillPlaces::Everywhere(LogPlace::Latest),
                warm_up: BackfillWarmUp::None,
            },
            output_topic: None,
            state_directory: None,
            create_topics: false,
            full_detail: false,
        }
    }

    #[test]
    fn everything_a_run_writes_is_its_own() {
        let options = options();
        let own = own_settings(&options).expect("usable");
        assert_eq!(own.kafka.group, "kvset.backfill.r-1");
        assert_eq!(own.output.topic.as_str(), "kvset.estimates.backfill.r-1");
        assert_eq!(own.output.dead_letter_topic.as_str(), "kvset.dead-letters.backfill.r-1");
        assert_eq!(own.state.directory, Path::new("kvset-state.backfill/r-1"));
        assert_eq!(own.output.detail, options.settings.output.detail, "byte for byte");
        assert_eq!(own.fingerprint(), options.settings.fingerprint(), "its results are the live service's");
    }

    #[test]
    fn what_belongs_to_others_is_refused() {
        let live = Settings::default();
        let (input, output) = (live.input.topic.clone(), live.output.topic.clone());
        let dead_letters = own_topic(&live.output.dead_letter_topic, &options().run_id).expect("short");
        for topic in [input, output, live.output.dead_letter_topic.clone(), dead_letters] {
            let refused = own_settings(&BackfillOptions { output_topic: Some(topic), ..options() });
            assert!(matches!(refused, Err(BackfillError::NotItsOwn(_))));
        }
        for directory in ["kvset-state", "./kvset-state", "elsewhere/../kvset-state"] {
            let state_directory = Some(PathBuf::from(directory));
            let refused = own_settings(&BackfillOptions { state_directory, ..options() });
            assert!(matches!(refused, Err(BackfillError::NotItsOwn(_))), "{directory}");
        }
    }

    #[test]
    fn names_of_runs_are_safe_as_parts_of_other_names() {
        for text in ["", ".", "..", "a/b", "a b", "a.b", "ä", &"r".repeat(65)] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        assert!("20261121-080000".parse::<RunId>().is_ok());
    }

    #[test]
    fn a_run_asked_for_otherwise_is_another_run() {
        let digest_of = |change: fn(&mut BackfillOptions)| {
            let mut options = options();
            change(&mut options);
            digest(&options, &own_settings(&options).expect("usable"))
        };
        let plain = digest_of(|_| {});
        assert_eq!(plain, digest_of(|options| options.create_topics = true));
        for other in [
            digest_of(|options| options.range.to = BackfillPlaces::Everywhere(LogPlace::Committed)),
            digest_of(|options| options.range.warm_up = BackfillWarmUp::All),
            digest_of(|options| options.output_topic = TopicName::new("elsewhere")),
            digest_of(|options| options.full_detail = true),
            digest_of(|options| options.settings.estimate.include_partial_page = true),
        ] {
            assert_ne!(plain, other);
        }
    }
}
