//! Where snapshots are, opened as the plan says.

use crate::plan::features;
use crate::plan::{SharedPlan, StatePlan};
#[cfg(not(feature = "object-store"))]
use kvset_core::units::features::{Feature, MissingFeature};
use kvset_snapshot::directory::DirectoryStore;
use kvset_snapshot::layered::Layered;
use kvset_snapshot::store::{SnapshotStore, StoreError};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Opens the snapshot directory for this process alone, with the shared store behind it if there is one.
///
/// # Errors
/// Another process has the directory open; it cannot be made; the shared store's address is of no use.
pub(crate) fn open(plan: &StatePlan) -> Result<Arc<dyn SnapshotStore>, StoreError> {
    let local = DirectoryStore::open(&plan.directory, plan.generations)?;
    Ok(match &plan.shared {
        None => Arc::new(local),
        Some(shared) => Arc::new(Layered::new(local, open_shared(shared, plan.generations)?)),
    })
}

/// Opens the store that hosts share. Credentials are taken from the environment, under the names that
/// the clouds' own tools use.
///
/// # Errors
/// Its address is of no use, or this build has no support for it.
#[cfg(feature = "object-store")]
pub fn open_shared(
    plan: &SharedPlan,
    generations: NonZeroUsize,
) -> Result<kvset_snapshot::objects::ObjectSnapshots, StoreError> {
    check(plan)?;
    const CLOUDS: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
    let named = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| CLOUDS.iter().any(|cloud| name.starts_with(cloud)));
        Some((name?.to_ascii_lowercase(), value.into_string().ok()?))
    });
    let options: Vec<_> = named.collect();
    kvset_snapshot::objects::ObjectSnapshots::open(&plan.address, &options, &plan.group, generations)
        .map_err(|error| StoreError::Unopened { reason: error.to_string() })
}

/// As above, in a build without object stores.
#[cfg(not(feature = "object-store"))]
pub fn open_shared(plan: &SharedPlan, _: NonZeroUsize) -> Result<DirectoryStore, StoreError> {
    check(plan)?;
    Err(StoreError::Unopened { reason: MissingFeature(Feature::ObjectStore).to_string() })
}

/// This build can open a store at this address.
fn check(plan: &SharedPlan) -> Result<(), StoreError> {
    let checked = features::check_store(&plan.address);
    checked.map_err(|missing| StoreError::Unopened { reason: missing.to_string() })
}
