//! `kvset run` without a broker: a folder of event files is the log, and files take what comes of it.
//!
//! The poll loop, the workers and the snapshots are those of a topic; what differs is a source and a sink.
//!
//! - [`catalog`]: which files there are, whatever their names
//! - `lines`, `streams`: their whole lines, as one log in the order in which they were written
//! - `positions`: which stretch of which file stands at which offsets
//! - `journal`, [`outputs`], `newest`: what is committed, durable, and the files of lines that belong to it
//! - [`source`], [`sink`]: the member of a group of one, and where its outputs go

pub mod catalog;
mod journal;
mod lines;
mod newest;
pub mod outputs;
mod positions;
pub mod sink;
pub mod source;
mod streams;

use crate::clock::{SystemClock, TellingClock};
use crate::error::ServiceError;
use crate::estimating::estimate;
use crate::events::{Observer, ServiceEvent};
use crate::plan::{PlanError, ServicePlan};
use crate::poll_loop::summary::Summary;
use crate::shutdown::Shutdown;
use crate::snapshots::checkpoints::Checkpoints;
use journal::{FolderIdentity, FolderJournal};
use kvset_kafka::kafka::KafkaFailure;
use kvset_settings::Settings;
use outputs::with_suffix;
use sink::FolderSink;
use source::FolderSource;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use xxhash_rust::xxh3::xxh3_64;

/// What is followed, and where what comes of it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderPlan {
    /// The folder, as it is named from the root on.
    pub folder: PathBuf,
    /// The file of estimates. Dead letters and positions lie beside it.
    pub estimates: PathBuf,
    /// Bytes at which a line is cut, which is then refused.
    pub most_line: usize,
    /// Whether it ends at the end of what is there.
    pub until_end: bool,
}

impl FolderPlan {
    /// The plan that the settings name, of a folder that can be read; none without one.
    ///
    /// # Errors
    /// The folder cannot be read, or the file of estimates lies in it, or in a directory that is not there.
    pub fn make(settings: &Settings, until_end: bool) -> Result<Option<Self>, PlanError> {
        let Some(folder) = &settings.input.folder else { return Ok(None) };
        let refused = |message| PlanError::Kafka(KafkaFailure::fatal(message));
        catalog::check_folder(folder).map_err(refused)?;
        let whole = |path: &Path| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let folder = whole(folder).unwrap_or_else(|_| folder.clone());
        let estimates = settings.output.file.clone();
        let parent = estimates.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let (file, directory) = (estimates.display(), parent.display());
        // A mistyped path would make directories, and begin at the first event again.
        std::fs::metadata(parent.join(".")).map_err(|error| {
            refused(format!(
                "{file}: its directory {directory} cannot be used: {error}; make it, or correct the name (output.file, \
                 --estimates)"
            ))
        })?;
        if whole(parent).is_ok_and(|parent| parent == folder) {
            let message = format!(
                "{file} lies in the folder of events, whose files are read as events: name one elsewhere (output.file, \
                 --estimates)"
            );
            return Err(refused(message));
        }
        let most_line = usize::try_from(settings.input.max_record_bytes.0).unwrap_or(usize::MAX / 2);
        Ok(Some(Self { folder, estimates, most_line, until_end }))
    }

    /// Where dead letters go.
    pub fn dead_letters(&self) -> PathBuf {
        with_suffix(&self.estimates, ".dead-letters")
    }

    /// The directory that says how far the folder was read.
    pub fn positions(&self) -> PathBuf {
        with_suffix(&self.estimates, ".positions")
    }

    fn journal(&self) -> Result<FolderJournal, KafkaFailure> {
        // Snapshots are of one journal: whoever begins another one begins without them.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = xxh3_64(format!("{} {since}", self.folder.display()).as_bytes());
        let identity = FolderIdentity { topic: format!("folder.{name:016x}"), folder: self.folder.clone() };
        FolderJournal::open(&self.positions(), [self.estimates.clone(), self.dead_letters()], &identity)
    }
}

/// Follows a folder until asked to stop, until its end where that is planned, or until something cannot be mended.
///
/// # Errors
/// Why it could not go on. What was committed stays; the rest is done again after a restart.
pub fn follow(
    folder: &FolderPlan,
    settings: &Settings,
    shutdown: &Shutdown,
    observer: &dyn Observer,
) -> Result<Summary, ServiceError> {
    // From here on a mount that hangs shows: nothing that follows waits for long.
    let sign = || observer.on(&ServiceEvent::Waiting);
    sign();
    let journal = folder.journal()?;
    let names = [&folder.estimates, &folder.dead_letters()].map(|path| path.display().to_string());
    let plan = ServicePlan::of_folder(settings, &journal.identity.topic, names);
    let plan = plan.map_err(|error| KafkaFailure::fatal(error.to_string()))?;
    let checkpoints =
        plan.state.as_ref().map(|state| Checkpoints::open(state, &plan.task.topic)).transpose()?;
    let journal = Arc::new(Mutex::new(journal));
    let source = FolderSource::open(folder, plan.stream.start, journal, shutdown, &sign)?;
    tracing::info!("following {}: estimates go to {}", folder.folder.display(), folder.estimates.display());
    let clock = TellingClock { clock: &SystemClock, observer };
    let mut summary = Summary::default();
    estimate(
        &plan,
        &clock,
        (FolderSink::new(source.journal()), &source),
        checkpoints,
        shutdown,
        observer,
        &mut summary,
    )?;
    if folder.until_end && source.is_held() {
        let message = "the end of the folder was not reached: what keeps it from being read is said above";
        return Err(KafkaFailure::fatal(message).into());
    }
    Ok(summary)
}
