//! What so many times the traffic would need.

use super::certainty::{Sizes, recommended, required, size_at};
use super::check::check;
use super::traffic::{GrownTraffic, TrafficStatus};
use super::{FamilyLog, LogFeed, notes};
use crate::replay::{Replay, ReplayError, ReplayOptions, parallel};
use kvset_core::estimate::Estimate;
use kvset_core::estimate::config::MAX_MIN_REQUESTS;
use kvset_core::families::certainty::{Certainty, Interval};
use kvset_core::families::overlay::TrafficGrowth;
use kvset_core::sizing::recommendation::RecommendationStatus;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::{PageBytes, PageCount, PageSize};
use kvset_core::windows::tally::Tally;

/// Families below which the places of copies are tried with several seeds, and how many.
const SETTLED: usize = 300;
const SEEDS: u64 = 3;

impl FamilyLog {
    /// Whether more or less traffic can be told from this log.
    pub fn traffic_status(&self) -> TrafficStatus {
        TrafficStatus::of(self)
    }

    /// Why more or less traffic cannot be told from this log, and what helps; `None` where it can.
    pub fn traffic_refusal(&self) -> Option<String> {
        notes::refusal(self, self.traffic_status())
    }

    /// What so many times the traffic would need, at each of the factors; `plain` is the replay of the log itself.
    ///
    /// # Errors
    /// [`ReplayError`] of a replay.
    pub fn traffic(
        &self,
        options: &ReplayOptions,
        asked: &[TrafficGrowth],
        plain: &Replay,
        certainty: Option<&Certainty>,
    ) -> Result<Vec<GrownTraffic>, ReplayError> {
        let Some(first) = asked.first() else { return Ok(Vec::new()) };
        let status = TrafficStatus::of(self);
        let enough = self.unreplayed().status.is_usable();
        let check = if enough { check(self, options, first.seed, plain)? } else { None };
        let threads = (options.threads / asked.len()).max(1);
        let one = |growth: &TrafficGrowth| self.grown(options, *growth, threads, status, plain);
        let grown = parallel::map(options.threads, asked, one);
        let mut grown = grown.into_iter().collect::<Result<Vec<_>, _>>()?;
        for found in &mut grown {
            found.check = check;
            let whole = found.replay.as_mut().and_then(|replay| replay.whole.as_mut());
            if let Some((certainty, whole)) = certainty.zip(whole) {
                let sizes = (required(whole), recommended(whole));
                let needs = around(&certainty.required, &sizes.0);
                whole.take_intervals(&needs, &around(&certainty.recommended, &sizes.1));
            }
            found.notes = notes::notes(self, found, plain);
        }
        Ok(grown)
    }

    fn grown(
        &self,
        options: &ReplayOptions,
        growth: TrafficGrowth,
        threads: usize,
        status: TrafficStatus,
        plain: &Replay,
    ) -> Result<GrownTraffic, ReplayError> {
        // Copies say no more than what they are copies of.
        let mut options = options.clone();
        let least = options.pool.min_requests as f64 * growth.factor;
        options.pool.min_requests = (least.ceil() as u64).clamp(1, MAX_MIN_REQUESTS);
        let options = &options;
        let is_more = growth.factor > 1.0;
        let seeds = if is_more && self.families().count() < SETTLED { SEEDS } else { 1 };
        let replay = match status.is_answered() {
            false => None,
            true if is_more => Some(self.overlaid(options, growth, seeds, threads)?),
            true if growth.factor < 1.0 => Some(self.pooled(options, growth, threads)?),
            true => Some(plain.clone()),
        };
        let apart_ms = growth.apart_ms(self.span_ms()).round() as u64;
        Ok(GrownTraffic {
            growth,
            seeds,
            copies_apart_ms: (is_more && status.is_answered()).then_some(apart_ms),
            status,
            replay,
            check: None,
            notes: Vec::new(),
        })
    }

    /// The log with copies of its families.
    ///
    /// # Errors
    /// [`ReplayError`] of a replay.
    pub fn overlaid(
        &self,
        options: &ReplayOptions,
        growth: TrafficGrowth,
        seeds: u64,
        threads: usize,
    ) -> Result<Replay, ReplayError> {
        let options = ReplayOptions { threads: 1, ..options.clone() };
        let seeds: Vec<u64> = (0..seeds).map(|further| growth.seed.wrapping_add(further)).collect();
        let run = |seed: &u64| {
            let growth = TrafficGrowth { seed: *seed, ..growth };
            let rows = growth.overlay(&self.members, self.families(), &|_| true);
            let feed = self.feed(&options, &rows, &mut |_, _| {})?;
            let sizes = feed.estimate().map(|whole| (required(&whole), recommended(&whole)));
            // One is enough to say the rest.
            Ok((sizes, (seeds.first() == Some(seed)).then_some(feed)))
        };
        let mut found: Vec<_> =
            parallel::map(threads, &seeds, run).into_iter().collect::<Result<_, ReplayError>>()?;
        let sizes: Option<Vec<_>> = found.iter_mut().map(|(sizes, _)| sizes.take()).collect();
        let first = found.into_iter().find_map(|(_, feed)| feed);
        let Some(feed) = first else { return self.finish(LogFeed::new(&options, &options.pool)?, &options) };
        match sizes.filter(|sizes| sizes.len() > 1) {
            None => self.finish(feed, &options),
            Some(sizes) => {
                let (needs, sizes): (Vec<Sizes>, Vec<Sizes>) = sizes.into_iter().unzip();
                self.finish_at(feed, &options, &mean(&needs), &mean(&sizes))
            }
        }
    }

    /// Finishes a replay with other requirements and recommendations than its own.
    fn finish_at(
        &self,
        feed: LogFeed,
        options: &ReplayOptions,
        needs: &Sizes,
        sizes: &Sizes,
    ) -> Result<Replay, ReplayError> {
        let at = feed.end();
        let sizes_once = sizes.iter().flatten().flatten().copied().map(CapacitySpec::of_pages);
        let points: Vec<_> =
            sizes_once.filter_map(|size| feed.pool()?.point_since_start(&size, at)).collect();
        let mut replay = self.finish(feed, options)?;
        if let Some(whole) = &mut replay.whole {
            put(whole, needs, sizes);
            whole.recommended.iter_mut().for_each(|entry| entry.take_hits(&points));
        }
        Ok(replay)
    }

    /// Parts of the families, each as large as the factor says, as one.
    fn pooled(
        &self,
        options: &ReplayOptions,
        growth: TrafficGrowth,
        threads: usize,
    ) -> Result<Replay, ReplayError> {
        let options = ReplayOptions { threads: 1, ..options.clone() };
        let windows: Vec<u32> = growth.windows().collect();
        let run = |window: &u32| {
            let rows = self.part(|key| growth.is_in_window(key, *window));
            self.feed(&options, &rows, &mut |_, _| {})
        };
        let feeds = parallel::map(threads, &windows, run).into_iter().collect::<Result<Vec<_>, _>>()?;
        let distinct = |feed: &LogFeed| feed.pool().map_or(0, |pool| pool.accumulated_pages().0);
        let mean = feeds.iter().map(distinct).sum::<u64>() / feeds.len().max(1) as u64;
        let tallies: Vec<&Tally> =
            feeds.iter().filter_map(|feed| feed.pool()?.counted_since_start()).collect();
        let tally = Tally::merged(tallies.iter().copied());
        let Some(largest) = (0..feeds.len()).max_by_key(|at| distinct(&feeds[*at])) else {
            return self.finish(LogFeed::new(&options, &options.pool)?, &options);
        };
        let fewer = PageCount(distinct(&feeds[largest]).saturating_sub(mean));
        let whole =
            feeds[largest].pool().and_then(|pool| pool.estimate_of(&tally, fewer, feeds[largest].end()));
        let host = feeds.into_iter().nth(largest);
        let Some(host) = host else { return self.finish(LogFeed::new(&options, &options.pool)?, &options) };
        let mut replay = self.finish(host, &options)?;
        replay.distinct_pages = PageCount(mean);
        // What else the replay found is of one part alone.
        (replay.whole, replay.at_provisioned, replay.worth) = (whole, None, None);
        replay.below.clear();
        if let Some(whole) = &mut replay.whole {
            (whole.plan, whole.routing) = (None, Vec::new());
        }
        Ok(replay)
    }
}

/// The intervals of other sizes that are as uncertain.
fn around(intervals: &[Vec<Interval>], sizes: &Sizes) -> Vec<Vec<Interval>> {
    let of_target = |(target, intervals): (usize, &Vec<Interval>)| {
        let of = |(at, interval): (usize, &Interval)| interval.around(size_at(sizes, target, at));
        intervals.iter().enumerate().map(of).collect()
    };
    intervals.iter().enumerate().map(of_target).collect()
}

/// The mean of sizes, on logarithms; `None` where one is not known.
fn mean(all: &[Sizes]) -> Sizes {
    let Some(first) = all.first() else { return Sizes::new() };
    let of = |target: usize, at: usize| {
        let sizes: Option<Vec<u64>> = all.iter().map(|sizes| size_at(sizes, target, at)).collect();
        let sizes = sizes?;
        let logs: f64 = sizes.iter().map(|pages| (*pages).max(1) as f64).map(f64::ln).sum();
        let mean = (logs / sizes.len() as f64).exp().round() as u64;
        Some(if sizes.iter().all(|pages| *pages == 0) { 0 } else { mean })
    };
    let of_target = |(target, sizes): (usize, &Vec<_>)| (0..sizes.len()).map(|at| of(target, at)).collect();
    first.iter().enumerate().map(of_target).collect()
}

/// Puts requirements and recommendations in the place of those of an estimate.
fn put(whole: &mut Estimate, needs: &Sizes, sizes: &Sizes) {
    let (page, size) = (whole.page_bytes.map(PageBytes), PageSize::new(whole.page_size));
    let bytes = |pages: Option<u64>| Some(PageCount(pages?).bytes(page?).0);
    for (required, needs) in whole.required.iter_mut().zip(needs) {
        for (found, pages) in required.coverage.iter_mut().zip(needs) {
            (found.pages, found.bytes) = (*pages, bytes(*pages));
            found.tokens = pages.zip(size).map(|(pages, size)| PageCount(pages).tokens(size));
        }
    }
    let (needs, sizes) = (needs.iter().flatten(), sizes.iter().flatten());
    for ((entry, need), pages) in whole.recommended.iter_mut().zip(needs).zip(sizes) {
        let pages = pages.filter(|_| entry.status == RecommendationStatus::Ready);
        (entry.required_pages, entry.pages, entry.bytes) = (*need, pages, bytes(pages));
    }
}
