//! The traces are read once for every engine, in the order in which the requests came.
//!
//! A trace is expected to be in that order, so that nothing is held back and its lines are taken in ranges on every core.
//! Where it is not, which the reader notices at the first request that stands behind a later one, it is read again from
//! its start, with requests held back.

use super::run::Run;
use super::{Findings, ReplayError, ReplayOptions, WarmUp};
use kvset_core::pool::RangePool;
use kvset_formats::trace::{self, Order, Progress, ReadOptions, Together, TraceError, TraceItem};
use std::sync::Arc;

/// What is known of a trace before it is replayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// The order to read it in.
    pub order: Order,
    /// The number of leading requests that only warm the cache.
    pub warm_up: u64,
}

impl Known {
    /// What the options need to be known. With `once`, the trace is read once only: what comes of a reading that has to
    /// begin again cannot be taken back.
    ///
    /// # Errors
    /// A share of the requests of standard input is asked for, or the traces cannot be read.
    pub fn of(options: &ReplayOptions, once: bool) -> Result<Self, ReplayError> {
        let is_stream = options.traces.iter().any(|path| path.as_os_str() == "-");
        let share = match options.warm_up {
            WarmUp::Share(share) => Some(share).filter(|share| *share != kvset_core::ratio::Ratio::ZERO),
            WarmUp::Requests(_) => None,
        };
        let mut known = Self { order: if is_stream { Order::Arrival } else { Order::Expected }, warm_up: 0 };
        if let WarmUp::Requests(count) = options.warm_up {
            known.warm_up = count;
        }
        match share {
            Some(_) if is_stream => return Err(ReplayError::ShareOfStream),
            None if is_stream || !once => return Ok(known),
            _ => {}
        }
        let (requests, is_in_order) = survey(options)?;
        if let Some(share) = share {
            known.warm_up = share.share_of(requests);
        }
        known.order = if is_in_order { Order::Expected } else { Order::Arrival };
        Ok(known)
    }
}

/// How many requests the traces have, and whether they came in the order of the traces.
fn survey(options: &ReplayOptions) -> Result<(u64, bool), ReplayError> {
    let read = ReadOptions { order: Order::Written, ..options.read.clone() };
    let mut reader = trace::open_ahead(&options.traces, &read, options.threads, &[])?;
    let mut requests = 0;
    loop {
        let Together { items, .. } = reader.next_items()?;
        if items.is_empty() {
            return Ok((requests, reader.is_in_order()));
        }
        requests += items.iter().filter(|item| matches!(item, TraceItem::Request(_))).count() as u64;
    }
}

/// Reads the traces for the runs that `start` gives, anew where the reading has to begin again.
///
/// # Errors
/// [`ReplayError`]; nothing was printed then.
pub(super) fn read<'a>(
    options: &ReplayOptions,
    known: Known,
    mut start: impl FnMut() -> Result<Vec<Run<'a>>, ReplayError>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Run<'a>>, Findings), ReplayError> {
    let mut order = known.order;
    loop {
        let mut runs = start()?;
        match read_once(&mut runs, options, order, progress) {
            Ok(findings) => return Ok((runs, findings)),
            Err(ReplayError::Trace(TraceError::ReadAgain)) => order = Order::Arrival,
            Err(error) => return Err(error),
        }
    }
}

fn read_once(
    runs: &mut [Run<'_>],
    options: &ReplayOptions,
    order: Order,
    progress: &mut dyn FnMut(Progress),
) -> Result<Findings, ReplayError> {
    let mut pools: Vec<_> = runs.iter().map(|run| Arc::clone(run.config())).collect();
    // Requests that are held back are in no range of the trace.
    if order == Order::Arrival || pools.iter().all(|config| RangePool::new(config).is_err()) {
        pools.clear();
    }
    let read = ReadOptions { order, ..options.read.clone() };
    let mut reader = trace::open_ahead(&options.traces, &read, options.threads, &pools)?;
    loop {
        let Together { items, ranges } = reader.next_items()?;
        if items.is_empty() {
            break;
        }
        let ranges = ranges.into_iter().chain(std::iter::repeat_with(|| None));
        for (run, range) in runs.iter_mut().zip(ranges) {
            run.observe_items(&items, range)?;
        }
        progress(reader.progress());
    }
    progress(reader.progress());
    Ok(Findings { times: reader.times(), notes: reader.notes(), passed_over: reader.passed_over() })
}
