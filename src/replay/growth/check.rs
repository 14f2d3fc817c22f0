//! Two second opinions on grown traffic: whether halves of the log, grown twofold, give the log; and the straight line
//! through half the traffic and all of it, which needs no clock.

use super::certainty::{required, size_at};
use super::{FamilyLog, requirements_only};
use crate::replay::{Replay, ReplayError, ReplayOptions, parallel};
use kvset_core::families::overlay::TrafficGrowth;
use kvset_core::sizing::recommendation::chosen;
use kvset_core::windows::tally::Tally;

/// What the second opinions come to, of the requirement to act on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// By what share halves, grown twofold, are off; absent where nothing says what came together.
    pub from_halves: Option<f64>,
    /// The requirement of the log, and of its halves.
    own: u64,
    half: u64,
}

impl Check {
    /// The requirement at a factor, by the straight line.
    pub fn straight_line(self, factor: f64) -> u64 {
        let (own, half) = (self.own as f64, self.half as f64);
        (own + 2.0 * (factor - 1.0) * (own - half)).max(0.0).round() as u64
    }
}

/// Where the requirement to act on stands: its target ratio and its coverage.
pub(super) fn place_to_act_on(replay: &Replay) -> Option<(usize, usize)> {
    let whole = replay.whole.as_ref()?;
    let coverage = chosen(&whole.recommended)?.coverage;
    let at = whole.required.first()?.coverage.iter().position(|found| found.coverage == coverage)?;
    Some((0, at))
}

/// The requirement to act on.
pub(super) fn to_act_on(replay: &Replay) -> Option<u64> {
    let (target, at) = place_to_act_on(replay)?;
    size_at(&required(replay.whole.as_ref()?), target, at)
}

/// The second opinions on a log that was replayed; `None` where nothing is required of any capacity.
pub(super) fn check(
    log: &FamilyLog,
    options: &ReplayOptions,
    seed: u64,
    plain: &Replay,
) -> Result<Option<Check>, ReplayError> {
    let Some(((target, at), own)) = place_to_act_on(plain).zip(to_act_on(plain)) else { return Ok(None) };
    let (half, twice) = (TrafficGrowth { factor: 0.5, seed }, TrafficGrowth { factor: 2.0, seed });
    let stripped = requirements_only(options);
    let mut jobs: Vec<(u32, bool)> = half.windows().map(|window| (window, false)).collect();
    if log.has_clock() {
        jobs.extend(half.windows().map(|window| (window, true)));
    }
    let run = |(window, grows): &(u32, bool)| {
        let kept = |key| half.is_in_window(key, *window);
        let rows = match grows {
            true => twice.overlay(&log.members, &log.families, &kept),
            false => log.part(kept),
        };
        log.feed(&stripped, &rows, &mut |_, _| {})
    };
    let feeds = parallel::map(options.threads, &jobs, run).into_iter().collect::<Result<Vec<_>, _>>()?;
    let grown = feeds.iter().zip(&jobs).filter(|(_, (_, grows))| *grows).map(|(feed, _)| feed.estimate());
    let grown: Option<Vec<u64>> =
        grown.map(|estimate| size_at(&required(estimate.as_ref()?), target, at)).collect();
    let errors = grown.filter(|grown| !grown.is_empty()).map(|grown| {
        let log_of = |pages: u64| (pages.max(1) as f64).ln();
        let mean = grown.iter().map(|pages| log_of(*pages)).sum::<f64>() / grown.len() as f64;
        (mean - log_of(own)).exp_m1()
    });
    let halves = feeds.iter().zip(&jobs).filter(|(_, (_, grows))| !*grows).map(|(feed, _)| feed);
    let tallies: Vec<&Tally> = halves.filter_map(|feed| feed.pool()?.counted_since_start()).collect();
    let pooled = Tally::merged(tallies.iter().copied());
    let host = feeds.first().and_then(|feed| Some((feed.pool()?, feed.end())));
    let pooled = host.and_then(|(pool, end)| pool.estimate_of(&pooled, Default::default(), end));
    let half = pooled.and_then(|pooled| size_at(&required(&pooled), target, at));
    Ok(half.map(|half| Check { from_halves: errors, own, half }))
}
