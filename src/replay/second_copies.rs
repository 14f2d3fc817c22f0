//! Capacities of vLLM's pool that are modelled each by itself, where one pass cannot say what is found at them: of
//! second copies of pages, and where requests wait.
//!
//! A prompt of whole pages that is found whole computes its last page again, and an answer that was given
//! before is generated again. vLLM keeps such a page in a block of its own, alongside the one that has its
//! name. One pass counts the room of both. It cannot tell which of both is found by a prompt that goes on
//! behind the page, because that depends on the capacity. So where pages are computed again the log is read
//! once more, and the capacities that somebody acts on are modelled each by itself.
//!
//! What one pass says stays a bound. A copy that lies elsewhere than it does in a pool moves a page by one
//! place at most, so a pool finds no less than the curve says of a size smaller by all copies, and no more than
//! it says of one larger by as many.
//!
//! In a pool with less room than what is in flight requests wait, or are preempted, and hold nothing meanwhile. One
//! pass has them hold their pages all the same. Modelled by itself such a pool has them wait. A log that says what a
//! server found has the time that they waited in its durations, so there they end when the log says. Other logs of
//! requests that overlap are left to one pass, and over a tier requests take as long as the log says from their
//! look-up on.

use super::channels::Channels;
use super::per_request::PerRequest;
use super::recomputed::SecondCopies;
use super::run::ReplayRun;
use super::search::SatisfiedRequests;
use super::{BelowHits, Extras, PoolReplay, Replay, ReplayError, ReplayOptions, TraceReading};
use kvset_core::estimate::CapacityPoint;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::sizing::recommendation::RecommendationStatus;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{PageBytes, PageCount};
use kvset_formats::trace::RowOrder;
use std::collections::{BTreeMap, BTreeSet};

/// Most capacities of one reading.
const MOST_POINTS: usize = 64;

/// Most readings that look for a recommended capacity which is enough.
const MOST_READINGS: u32 = 8;

/// A capacity that is enough is told to this share of it.
const TOLD_TO: u64 = 200;

/// Models the capacities that the pools of a replay were asked for, and those recommended, with their second copies
/// and with requests that wait. Nothing is read where there are none, and nothing can be where the trace is a stream
/// or its pages are a sample.
///
/// # Errors
/// [`ReplayError`]
pub(super) fn confirm(
    options: &ReplayOptions,
    known: (RowOrder, u64),
    engines: &[PoolConfig],
    pools: &mut [Vec<PoolReplay>],
    mut per_request: Option<PerRequest<'_>>,
) -> Result<(), ReplayError> {
    let has_tiers = !options.extras.below.is_empty();
    let is_in_doubt = |pool: &PoolReplay| is_in_doubt(&pool.replay, has_tiers);
    for (at, config) in engines.iter().enumerate() {
        let is_any = pools.iter().filter_map(|engines| engines.get(at)).any(is_in_doubt);
        let is_pool = config.cache.has_copies_in_one_pass();
        if !is_any || !is_pool || options.has_stream() || config.cache.sample_rate != Ratio::ONE {
            continue;
        }
        let mut readings = PointReadings { options, known, config, pool_name: options.pool_name.clone() };
        let asked: Vec<u64> = match config.cache.capacities.is_empty() {
            true => Vec::new(),
            false => asked_pages(pools.iter().filter_map(|engines| engines.get(at))),
        };
        let mut found: BTreeMap<Option<String>, PoolPoints> = BTreeMap::new();
        for part in asked.chunks(MOST_POINTS) {
            let rows = if asked.len() <= MOST_POINTS { per_request.take() } else { None };
            for (name, points) in readings.read(part, &options.extras, rows)? {
                found.entry(name).or_default().add(points);
            }
        }
        let is_only = pools.len() == 1;
        for pool in
            pools.iter_mut().filter_map(|engines| engines.get_mut(at)).filter(|pool| is_in_doubt(pool))
        {
            if !is_only {
                readings.pool_name.clone_from(&pool.name);
            }
            let own = found.remove(&pool.name).unwrap_or_default();
            readings.confirm(pool, own)?;
        }
    }
    for pool in pools.iter_mut().flatten() {
        pool.replay.notes.extend(pool.replay.second_copies.as_ref().map(SecondCopies::note));
    }
    Ok(())
}

/// Whether one pass may be wrong at a capacity that somebody acts on, and a pool by itself is not.
fn is_in_doubt(replay: &Replay, has_tiers: bool) -> bool {
    let whole = replay.whole.as_ref();
    let has_copies = replay.second_copies.is_some();
    match whole.and_then(|whole| whole.in_flight.as_ref()).filter(|found| found.modelled && !has_tiers) {
        Some(found) => {
            let is_measured = whole.is_some_and(|whole| whole.measured.is_some());
            is_measured && (has_copies || !found.without_room.is_empty())
        }
        None => has_copies,
    }
}

/// The capacities of the curves, in pages.
fn asked_pages<'a>(pools: impl Iterator<Item = &'a PoolReplay>) -> Vec<u64> {
    let points = pools.filter_map(|pool| pool.replay.whole.as_ref()).flat_map(|whole| &whole.capacities);
    let pages: BTreeSet<u64> = points.filter(|point| !point.beyond_bound).map(|point| point.pages).collect();
    pages.into_iter().filter(|pages| *pages > 0).collect()
}

/// What was found of a pool at capacities that were modelled by themselves.
#[derive(Debug, Default)]
struct PoolPoints {
    points: BTreeMap<u64, CapacityPoint>,
    satisfied: SatisfiedRequests,
    /// What tiers below found, by the capacity of the engine.
    below: BTreeMap<u64, Vec<BelowHits>>,
}

impl PoolPoints {
    fn add(&mut self, other: Self) {
        self.points.extend(other.points);
        self.below.extend(other.below);
        self.satisfied.join(other.satisfied);
    }

    /// Gives a point of the curve the hits at its capacity, where these are known.
    fn give(&self, point: &mut CapacityPoint) {
        let Some(exact) = self.points.get(&point.pages) else { return };
        *point = CapacityPoint {
            label: point.label.take(),
            optimal_page_hits: point.optimal_page_hits,
            eviction_age_ms: point.eviction_age_ms,
            ..exact.clone()
        };
    }

    /// The smallest capacity from `least` on that is enough, and the largest below it that is not.
    fn bracket(&self, wanted: &Wanted) -> (Option<u64>, Option<u64>) {
        self.satisfied.bracket_from(wanted.least, wanted.target, wanted.coverage)
    }
}

/// A recommended capacity that is to be enough.
struct Wanted {
    /// Its place among those recommended.
    place: usize,
    target: usize,
    coverage: Ratio,
    /// What one pass found enough.
    least: u64,
}

/// Readings of a trace that model capacities by themselves.
struct PointReadings<'a> {
    options: &'a ReplayOptions,
    known: (RowOrder, u64),
    config: &'a PoolConfig,
    pool_name: Option<String>,
}

impl PointReadings<'_> {
    /// What each pool finds at these capacities, and the tiers below them.
    fn read(
        &self,
        capacities: &[u64],
        extras: &Extras,
        per_request: Option<PerRequest<'_>>,
    ) -> Result<Vec<(Option<String>, PoolPoints)>, ReplayError> {
        let mut options = ReplayOptions {
            pool_name: self.pool_name.clone(),
            skip_bad_rows: true,
            extras: Extras {
                below: extras.below.clone(),
                below_rules: extras.below_rules.clone(),
                ..Extras::default()
            },
            provisioned: None,
            ..self.options.clone()
        };
        let mut config = self.config.clone();
        config.cache.second_copies = true;
        config.cache.ends_as_logged = self.options.extras.below.is_empty();
        config.cache.capacities = capacities.iter().copied().map(CapacitySpec::of_pages).collect();
        config.windows = vec![WindowKind::All];
        (config.questions, config.tiers, config.further_costs) = Default::default();
        options.pool = config.clone();
        let engines = [config];
        let start = |pool: &PoolConfig| {
            let mut run = ReplayRun::new(&options, pool, None)?;
            run.count_sufficient();
            Ok(run)
        };
        let channels = Channels { per_request, ..Channels::default() };
        let (reading, findings) =
            TraceReading::read(&options, self.known, &engines, &start, channels, &mut |_| {})?;
        let points = |(name, runs): (Option<Box<str>>, Vec<ReplayRun>)| {
            let mut found = PoolPoints::default();
            for mut run in runs {
                found.satisfied.add(capacities, &run.take_sufficient());
                let (replay, _) = run.finish(&findings)?;
                let points = replay.whole.map(|whole| whole.capacities).unwrap_or_default();
                found.below.extend(points.iter().map(|point| point.pages).zip(replay.below));
                found.points.extend(points.into_iter().map(|point| (point.pages, point)));
            }
            Ok((name.map(String::from), found))
        };
        reading.pools.into_iter().map(points).collect()
    }

    /// Gives a pool the hits that are known and those at its provisioned size, and recommends what is enough.
    fn confirm(&self, pool: &mut PoolReplay, mut found: PoolPoints) -> Result<(), ReplayError> {
        let wanted = wanted(&pool.replay);
        let provisioned = pool.replay.at_provisioned.as_ref().map(|point| point.pages);
        let mut next: BTreeSet<u64> = wanted.iter().map(|wanted| wanted.least).chain(provisioned).collect();
        next.retain(|pages| *pages > 0 && !found.points.contains_key(pages));
        let bound = self.config.cache.max_tracked_pages.0;
        for _ in 0..MOST_READINGS {
            let capacities: Vec<u64> =
                next.into_iter().filter(|pages| *pages <= bound).take(MOST_POINTS).collect();
            if capacities.is_empty() {
                break;
            }
            let points = self.read(&capacities, &Extras::default(), None)?;
            let own = points.into_iter().filter(|(name, _)| self.pool_name.is_some() || *name == pool.name);
            own.for_each(|(_, points)| found.add(points));
            next = further(&wanted, &found, bound);
        }
        give(&mut pool.replay, &wanted, &found);
        Ok(())
    }
}

/// The recommended capacities of a replay.
fn wanted(replay: &Replay) -> Vec<Wanted> {
    let recommended = replay.whole.iter().flat_map(|whole| whole.recommended.iter().enumerate());
    let targets = &replay.config.cache.target_ratios;
    let of = |(place, entry): (usize, &kvset_core::sizing::recommendation::Recommendation)| {
        let target = targets.iter().position(|target| *target == entry.target_ratio)?;
        Some(Wanted {
            place,
            target,
            coverage: entry.coverage,
            least: entry.pages.filter(|pages| *pages > 0)?,
        })
    };
    recommended.filter_map(of).collect()
}

/// The capacities to try next; none where all that is wanted is told.
fn further(wanted: &[Wanted], found: &PoolPoints, bound: u64) -> BTreeSet<u64> {
    let open: Vec<(u64, Option<u64>)> = wanted
        .iter()
        .filter_map(|wanted| match found.bracket(wanted) {
            (Some(_), None) => None,
            (Some(enough), Some(below)) => Some((below, Some(enough))),
            (None, below) => Some((below.unwrap_or(wanted.least), None)),
        })
        .filter(|(below, enough)| enough.is_none_or(|enough| enough - below > (enough / TOLD_TO).max(1)))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let each = (MOST_POINTS / open.len().max(1)).clamp(1, 15) as u32;
    let tried = |(below, enough): (u64, Option<u64>)| {
        (1..=each).map(move |part| match enough {
            Some(enough) => below + ((enough - below) * u64::from(part)).div_ceil(u64::from(each) + 1),
            None => below.saturating_add((below / 64).max(1) << part.min(32)).min(bound),
        })
    };
    open.into_iter().flat_map(tried).filter(|pages| !found.points.contains_key(pages)).collect()
}

/// Puts what is known in place of what one pass said.
fn give(replay: &mut Replay, wanted: &[Wanted], found: &PoolPoints) {
    let page_bytes = replay.page_bytes;
    let Some(whole) = &mut replay.whole else { return };
    let mut moved_up = 0;
    for wanted in wanted {
        let entry = &mut whole.recommended[wanted.place];
        let (enough, _) = found.bracket(wanted);
        match enough {
            Some(pages) => {
                moved_up = moved_up.max(pages - wanted.least);
                entry.pages = Some(pages);
                entry.bytes = page_bytes.map(|page: PageBytes| PageCount(pages).bytes(page).0);
                let point = found.points.get(&pages).cloned();
                entry.take_hits(point.as_slice());
            }
            None => {
                (entry.pages, entry.bytes, entry.status) = (None, None, RecommendationStatus::BeyondBound);
                entry.why =
                    Some("no capacity tried was enough for prompts that are computed twice".to_owned());
            }
        }
    }
    whole.capacities.iter_mut().chain(&mut whole.counted).for_each(|point| found.give(point));
    let counted: BTreeSet<u64> = whole.counted.iter().map(|point| point.pages).collect();
    let recommended = whole.recommended.iter().filter_map(|entry| entry.pages);
    let missing: BTreeSet<u64> = recommended.filter(|pages| !counted.contains(pages)).collect();
    whole.counted.extend(missing.iter().filter_map(|pages| found.points.get(pages).cloned()));
    whole.counted.sort_by_key(|point| point.pages);
    replay.at_provisioned.iter_mut().for_each(|point| found.give(point));
    let own = whole.capacities.iter().map(|point| found.below.get(&point.pages));
    let below = replay.below.iter_mut().zip(own);
    below.for_each(|(tiers, own)| own.into_iter().for_each(|own| tiers.clone_from(own)));
    if let Some(copies) = &mut replay.second_copies {
        copies.exact_pages = found.points.keys().copied().collect();
        copies.moved_up_pages = moved_up;
    }
}
