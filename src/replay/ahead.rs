//! The capacities of an engine that is modelled a capacity at a time, spread over threads.
//!
//! The rows that were read together are served by every cache before the first of them is counted. A cache is on one
//! thread at a time and takes the requests in their order, so the result does not depend on the number of threads.

use super::POOL;
use kvset_core::engines::bank::Lane;
use kvset_core::pool::set::PoolSet;
use kvset_formats::trace::TraceRow;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Lets the caches of the trace's pool serve these rows before their turn, where they have served all before them.
pub(super) fn serve_ahead(pools: &mut PoolSet, rows: &[TraceRow<'_>], threads: usize) {
    if threads < 2 {
        return;
    }
    pools.serve_ahead(POOL, rows.iter().map(|row| &row.event), |lanes| spread(lanes, threads));
}

/// Serves the lanes on so many threads, this one among them. A thread takes the next lane when it is done with one; a
/// thread that the system does not give is done without.
fn spread(lanes: &mut [Lane<'_>], threads: usize) {
    let helpers = threads.min(lanes.len()).saturating_sub(1);
    let waiting = Mutex::new(lanes.iter_mut());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(lane) = next() {
            lane.serve();
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            let helper = thread::Builder::new().name("kvset-caches".to_owned());
            if helper.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}
