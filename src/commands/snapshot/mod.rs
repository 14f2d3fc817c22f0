//! `kvset snapshot`: list, inspect and verify what a service left on disk.

pub mod inventory;

use crate::cli::Failure;
use crate::cli::args::{SnapshotCommand, SnapshotPlace};
use inventory::{Inventory, InventoryDepth};
use kvset_formats::position::NextOffset;
use kvset_pipeline::facts::Fingerprint;
use kvset_pipeline::gaps::OffsetGap;
use kvset_pipeline::task::RestoredTask;
use kvset_service::plan::shared_plan;
use kvset_service::snapshots::stores::open_shared;
use kvset_settings::Settings;
use kvset_snapshot::directory::DirectoryStore;
use kvset_snapshot::store::SnapshotStore;
use kvset_snapshot::stream::{ReadError, Verified};
use serde::Serialize;
use std::fmt::Display;
use std::io::Write as _;
use std::num::NonZeroUsize;

/// Runs `kvset snapshot`.
pub fn run(command: &SnapshotCommand) -> Result<(), Failure> {
    match command {
        SnapshotCommand::List { partition, place } => {
            let found = inventory::list(&*open(place)?, partition.as_ref()).map_err(anyhow::Error::new)?;
            tell_all(&found, place)
        }
        SnapshotCommand::Verify { partition, place } => {
            let own = own_fingerprint(place)?;
            let check_body = |verified| decode_own(verified, own);
            let found = inventory::verify(&*open(place)?, partition.as_ref(), &check_body);
            tell_all(&found.map_err(anyhow::Error::new)?, place)
        }
        SnapshotCommand::Inspect { partition, at, place } => {
            let own = own_fingerprint(place)?;
            let check_body = |verified| decode_own(verified, own);
            let found = inventory::inspect(&*open(place)?, partition, at.map(NextOffset), &check_body);
            let found = found.map_err(anyhow::Error::new)?.ok_or_else(|| {
                anyhow::anyhow!("no such snapshot of {partition}: `kvset snapshot list` shows what there is")
            })?;
            tell(&found, place)?;
            verdict(usize::from(found.problem.is_some()))
        }
    }
}

/// The configuration whose states this program decodes.
fn own_fingerprint(place: &SnapshotPlace) -> Result<Fingerprint, Failure> {
    Ok(Fingerprint(Settings::load(place.config.file())?.fingerprint()))
}

/// Decodes a state of this configuration. One of another may be another program's: of that the checksums
/// say all there is to say.
fn decode_own(verified: Verified, own: Fingerprint) -> Result<(InventoryDepth, Vec<OffsetGap>), ReadError> {
    match verified.header().require_fingerprint(own) {
        Ok(()) => {
            let task: RestoredTask = verified.restore()?;
            Ok((InventoryDepth::State, task.gaps().to_vec()))
        }
        Err(_) => verified.check().map(|()| (InventoryDepth::Checksums, Vec::new())),
    }
}

fn open(place: &SnapshotPlace) -> Result<Box<dyn SnapshotStore>, Failure> {
    if place.shared {
        let settings = Settings::load(place.config.file())?;
        let plan = shared_plan(&settings).ok_or_else(|| {
            Failure::usage("state.shared is empty: set it to the store's address".to_owned())
        })?;
        let store = open_shared(&plan, NonZeroUsize::MAX).map_err(|error| Failure::Usage(error.into()))?;
        return Ok(Box::new(store));
    }
    let directory = match &place.directory {
        Some(directory) => directory.clone(),
        None => Settings::load(place.config.file())?.state.directory,
    };
    if !directory.is_dir() {
        let message = format!("{} is no directory: name one with --directory", directory.display());
        return Err(Failure::usage(message));
    }
    Ok(Box::new(DirectoryStore::read_only(&directory)))
}

fn tell_all(found: &Inventory, place: &SnapshotPlace) -> Result<(), Failure> {
    tell(found, place)?;
    verdict(found.snapshots.iter().filter(|snapshot| snapshot.problem.is_some()).count())
}

fn tell<T: Serialize + Display>(found: &T, place: &SnapshotPlace) -> Result<(), Failure> {
    let text = match place.json {
        true => format!("{}\n", serde_json::to_string_pretty(found).map_err(anyhow::Error::new)?),
        false => found.to_string(),
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

fn verdict(unsound: usize) -> Result<(), Failure> {
    match unsound {
        0 => Ok(()),
        _ => Err(Failure::Runtime(anyhow::anyhow!("{unsound} unsound, as listed"))),
    }
}
