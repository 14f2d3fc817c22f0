//! From a window's counts to the published estimate: quantiles, units, rates, scaling.

use crate::estimate::config::PoolConfig;
use crate::estimate::{
    CapacityPoint, CoverageCapacity, CoverageSize, Estimate, InFlightFigures, Required, RequiredCapacity,
    RoomShortage, SCHEMA_VERSION, Status, TheoreticalHits,
};
use crate::questions::observers::{ObservationTally, Observers, QuestionAnswers};
use crate::questions::question::QuestionFigures;
use crate::questions::reuse::ReuseEstimates;
use crate::request::outcome::{BEYOND, Need};
use crate::request::sample::sampling_error;
use crate::sizing::coverage::Distribution;
use crate::sizing::curve::{Accesses, Curve, PromptTokens, share};
use crate::sizing::exact_curve::FoundCurve;
use crate::sizing::figures::thin;
use crate::sizing::recommendation::{Recommendation, RecommendationBasis, recommend, with_room};
use crate::sizing::tiers::{Evidence, Requirements, Standing, TierEstimates, publish};
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::Ratio;
use crate::units::window::WindowKind;
use crate::units::{EventTime, Offset, PageBytes, PageCount, PageSize};
use crate::windows::Window;
use crate::windows::missing::MissingRecords;
use crate::windows::tally::Tally;
use std::collections::BTreeSet;

/// The share of requests whose others in flight are shown alongside the mean and the most.
const SHOWN_IN_FLIGHT: Ratio = Ratio::per_mille(990);

/// A pool as an estimate describes it, at one moment. Page counts are of followed pages.
#[derive(Debug, Clone, Copy)]
pub struct PoolFigures<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// Its input partition.
    pub partition: i32,
    /// Fingerprint of its configuration.
    pub fingerprint: &'a str,
    /// Its configuration.
    pub config: &'a PoolConfig,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Bytes per page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// Its capacities.
    pub curve: &'a Curve,
    /// Requests it has accepted.
    pub accepted_requests: u64,
    /// Event time of its first record.
    pub first_seen: EventTime,
    /// Offset after the last record the figures follow from.
    pub next_offset: Offset,
    /// What of the log is not in its windows.
    pub missing: MissingRecords,
    /// Distinct pages ever seen.
    pub accumulated_pages: PageCount,
    /// Pages held now.
    pub tracked_pages: PageCount,
    /// Chain violations since the start.
    pub chain_violations: u64,
    /// Records refused since the start.
    pub rejected_records: u64,
    /// Outputs were cached that the log has no ids for.
    pub output_reuse_unseen: bool,
    /// Requests were followed while they were in flight.
    pub models_overlap: bool,
    /// What is followed for the questions alongside the estimates.
    pub observers: Option<&'a Observers>,
}

/// What one window requires and recommends, before trends say whether it has settled.
pub struct WindowReading {
    /// Its distribution, one entry per target ratio.
    required: Vec<RequiredCapacity>,
    in_flight: Option<InFlightFigures>,
    recommended: Vec<Recommendation>,
    /// The same as trends follow it.
    pub asked: Requirements,
    /// What it adds to what they know.
    pub evidence: Evidence,
}

impl PoolFigures<'_> {
    /// What one window of this pool requires.
    pub fn reading(&self, kind: WindowKind, window: &Window<'_>) -> WindowReading {
        let required = self.required(&window.tally);
        let pages = |found: &CoverageCapacity| found.pages.map(PageCount);
        let covering = required.iter().flat_map(|required| required.coverage.iter().map(pages)).collect();
        let tiers = self.required_by_tiers(&window.tally);
        let pinned = match self.models_overlap {
            true => self.room_beyond(&window.tally, tiers.first().copied().flatten()),
            false => pinned(&window.tally),
        };
        let in_flight = self.in_flight(&window.tally, &required);
        let act_on = self.config.window_to_act_on() == Some(kind);
        let recommended = self.recommended(&window.tally, &required, in_flight.as_ref(), act_on);
        let to_act_on = recommended.iter().find(|entry| entry.act_on).and_then(|entry| entry.pages);
        let asked = Requirements { covering, tiers, pinned, to_act_on: to_act_on.map(PageCount) };
        let evidence = Evidence {
            requests: window.tally.requests,
            accepted_requests: self.accepted_requests,
            start_ms: window.start_ms,
            end_ms: window.end_ms,
            warm_up: self.is_warming_up(kind, window),
            is_timed: true,
        };
        WindowReading { required, in_flight, recommended, asked, evidence }
    }

    /// The estimate for one window of this pool, with what it requires and where the trends stand then.
    pub fn estimate(
        &self,
        kind: WindowKind,
        window: &Window<'_>,
        status: Status,
        mut reading: WindowReading,
        standing: &Standing,
    ) -> Estimate {
        reading.judge(standing, self.page_bytes);
        let WindowReading { required, in_flight, mut recommended, asked, evidence } = reading;
        let tally = &window.tally;
        let plan = self.plan(tally, &asked, standing);
        let accumulated = PageCount(self.whole(self.accumulated_pages.0));
        let act_on = self.config.window_to_act_on() == Some(kind);
        let sample_error = self.largest_error(&required);
        let counted = self.counted(tally, accumulated, &recommended);
        recommended.iter_mut().for_each(|entry| entry.take_hits(&counted));
        let capacities = self.capacities(tally, accumulated);
        let mut answers = self.answers(window, plan.as_ref(), (&required, &recommended), &capacities);
        let reuse = std::mem::take(&mut answers.reuse);
        let capacities = reuse.with_points(capacities);
        let ReuseEstimates { retention, retention_required, traffic, tenants, .. } = reuse;
        let mut estimate = Estimate {
            schema_version: SCHEMA_VERSION,
            pool: self.pool.to_owned(),
            window: kind,
            act_on,
            start_ms: window.start_ms,
            end_ms: window.end_ms,
            status,
            warm_up: evidence.warm_up,
            recommended,
            engine: self.config.cache.profile,
            outputs: self.config.cache.outputs,
            sample_rate: self.config.cache.sample_rate.as_f64(),
            sample_error,
            fingerprint: self.fingerprint.to_owned(),
            partition: self.partition,
            first_offset: window.first_offset.0,
            next_offset: self.next_offset.0,
            page_size: self.page_size.get(),
            page_bytes: self.page_bytes.map(|page| page.0),
            requests: tally.requests,
            requests_with_reuse: tally.requests_with_reuse,
            page_accesses: self.whole(tally.page_accesses),
            prompt_tokens: self.prompts(tally).all,
            distinct_pages: self.whole(tally.distinct_pages),
            accumulated_pages: accumulated.0,
            accumulated_bytes: self.page_bytes.map(|page| accumulated.bytes(page).0),
            tracked_pages: self.whole(self.tracked_pages.0),
            theoretical: self.theoretical(tally),
            in_flight,
            required,
            capacities,
            counted,
            late_records: window.late_records,
            chain_violations: self.chain_violations,
            rejected_records: self.rejected_records,
            output_reuse_unseen: self.output_reuse_unseen,
            recomputed_pages: match self.config.cache.has_copies_in_one_pass() {
                true => self.whole(tally.recomputed_pages),
                false => 0,
            },
            trend_windows: standing.covering.first().map_or(0, |verdict| verdict.steps),
            plan,
            retention,
            retention_required,
            traffic,
            tenants,
            ..Estimate::of_answers(answers)
        };
        if let Some(found) = estimate.certainty.take() {
            estimate.take_certainty(found);
        }
        estimate
    }

    fn recommended(
        &self,
        tally: &Tally,
        required: &[RequiredCapacity],
        in_flight: Option<&InFlightFigures>,
        act_on: bool,
    ) -> Vec<Recommendation> {
        let room = self.room_by_coverage(tally);
        let basis = RecommendationBasis {
            in_flight,
            room: &room,
            page_bytes: self.page_bytes,
            requests: tally.requests,
            min_requests: self.config.min_requests,
            bound: PageCount(self.whole(self.config.cache.max_tracked_pages.0)),
            act_on,
        };
        recommend(required, &basis)
    }

    /// The curve at the recommended capacities and, where those of the curve are few, on a grid.
    fn counted(
        &self,
        tally: &Tally,
        accumulated: PageCount,
        recommended: &[Recommendation],
    ) -> Vec<CapacityPoint> {
        let at =
            |pages: &BTreeSet<u64>| -> Vec<_> { pages.iter().copied().map(CapacitySpec::of_pages).collect() };
        let mut points = self.points_at(&self.config.further_capacities(), tally, Some(accumulated));
        thin(&mut points);
        let needed: BTreeSet<u64> = recommended.iter().filter_map(|entry| entry.pages).collect();
        points.retain(|point| !needed.contains(&point.pages));
        points.extend(self.points_at(&at(&needed), tally, None));
        points.sort_by_key(|point| point.pages);
        points
    }

    /// The curve at these capacities; up to where there is nothing more to say, where so many pages are distinct.
    pub fn points_at(
        &self,
        capacities: &[CapacitySpec],
        tally: &Tally,
        distinct: Option<PageCount>,
    ) -> Vec<CapacityPoint> {
        let Some(found) = tally.found.as_ref().filter(|_| !capacities.is_empty()) else { return Vec::new() };
        let (bound, sample_rate) = (self.config.cache.max_tracked_pages, self.config.cache.sample_rate);
        let curve = Curve::new(capacities, self.page_bytes, bound, sample_rate);
        let hits = found.hits_by_threshold(curve.thresholds());
        let told = distinct.map_or(curve.len(), |distinct| curve.telling_points(&hits, distinct));
        curve.points(&hits, self.accesses(tally), told)
    }

    /// The curve; the capacities that nobody requested end where there is nothing more to say.
    fn capacities(&self, tally: &Tally, accumulated: PageCount) -> Vec<CapacityPoint> {
        let hits = tally.hits.as_slice();
        let told = if self.config.cache.capacities.is_empty() {
            self.curve.telling_points(hits, accumulated)
        } else {
            self.curve.len()
        };
        self.curve.points(hits, self.accesses(tally), told)
    }

    /// What is answered alongside the estimate, where anything is.
    fn answers(
        &self,
        window: &Window<'_>,
        plan: Option<&TierEstimates>,
        (required, recommended): (&[RequiredCapacity], &[Recommendation]),
        capacities: &[CapacityPoint],
    ) -> QuestionAnswers {
        let tally = window.tally.observation.as_deref().map(ObservationTally::consolidated);
        let Some((observers, tally)) = self.observers.zip(tally) else { return QuestionAnswers::default() };
        let totals: Vec<_> = self.curve.capacities().collect();
        let figures = QuestionFigures {
            config: self.config.observed().provisioned(),
            page_size: self.page_size,
            page_bytes: self.page_bytes,
            totals: &totals,
            page_accesses: self.whole(window.tally.page_accesses),
            prompts: self.prompts(&window.tally),
            tiers: plan.map(|plan| plan.tiers.as_slice()),
            required,
            capacities,
            recommended,
            below_a_day: 0.0,
            room: window.tally.overlaps.room(),
            during: window.start_ms..window.end_ms,
        };
        observers.answers(&tally, &figures)
    }

    /// The standard error of the smallest required capacity, which errs most; where nothing is required,
    /// that of the pool's footprint.
    fn largest_error(&self, required: &[RequiredCapacity]) -> f64 {
        let found = required.iter().flat_map(|required| &required.coverage);
        let smallest = found.filter_map(|found| found.pages).filter(|pages| *pages > 0).min();
        let footprint = self.tracked_pages.0 as f64;
        let followed = smallest.map_or(footprint, |pages| pages as f64 * self.held_share());
        sampling_error(self.config.cache.sample_rate.as_f64(), followed)
    }

    /// The capacity each tier's coverage requires at the first target ratio.
    fn required_by_tiers(&self, tally: &Tally) -> Vec<Option<PageCount>> {
        let Some(needs) = tally.needs.first() else { return Vec::new() };
        let distribution = Distribution::new(needs, tally.requests);
        let need = |coverage| distribution.quantile(coverage).and_then(|need| self.pages(need));
        self.config.tiers.iter().map(|tier| need(tier.coverage).map(PageCount)).collect()
    }

    fn plan(&self, tally: &Tally, asked: &Requirements, standing: &Standing) -> Option<TierEstimates> {
        let curve = FoundCurve {
            found: tally.found.as_ref()?,
            page_accesses: tally.page_accesses,
            prompts: self.prompts(tally),
            sample_rate: self.config.cache.sample_rate,
            bound: self.config.cache.max_tracked_pages,
        };
        let target_ratio = *self.config.cache.target_ratios.first()?;
        publish(&self.config.tiers, self.page_bytes, target_ratio, asked, standing, &curve)
    }

    /// History is what lies before the window; `all` has none before it, so there it is its own length.
    fn is_warming_up(&self, kind: WindowKind, window: &Window<'_>) -> bool {
        let upto = if kind == WindowKind::All { window.end_ms } else { window.start_ms };
        let history = upto.saturating_sub(self.first_seen.0).max(0);
        let (min_history_ms, requests) = (self.config.min_history_ms, window.tally.requests);
        history.unsigned_abs() < min_history_ms
            || self.missing.touches(kind, window.start_ms, requests, min_history_ms)
    }

    /// Followed pages scaled up to all pages.
    fn whole(&self, followed: u64) -> u64 {
        self.config.cache.sample_rate.whole_of(followed)
    }

    fn theoretical(&self, tally: &Tally) -> TheoreticalHits {
        let (hits, rate) = (self.whole(tally.reusable), share(tally.reusable, tally.page_accesses));
        TheoreticalHits {
            page_hits: hits,
            prefix_hits: hits,
            page_hit_rate: rate,
            prefix_hit_rate: rate,
            hit_rate_tokens: Some(self.prompts(tally).hit_rate(hits)),
        }
    }

    /// The prompts by their tokens.
    fn prompts(&self, tally: &Tally) -> PromptTokens {
        PromptTokens::of(self.whole(tally.page_accesses), tally.rest_tokens, self.page_size)
    }

    /// What hits are shares of.
    fn accesses(&self, tally: &Tally) -> Accesses {
        Accesses { all: tally.page_accesses, reusable: tally.reusable, prompts: self.prompts(tally) }
    }

    fn required(&self, tally: &Tally) -> Vec<RequiredCapacity> {
        let distribution = |needs| Distribution::new(needs, tally.requests);
        let targets = self.config.cache.measured_ratios().iter().zip(tally.needs.iter().map(distribution));
        targets.map(|(ratio, distribution)| self.required_at(*ratio, &distribution)).collect()
    }

    fn required_at(&self, target_ratio: Ratio, distribution: &Distribution<'_>) -> RequiredCapacity {
        let coverage = |coverage: &Ratio| self.covering(*coverage, distribution);
        RequiredCapacity {
            target_ratio,
            mean_pages: distribution.mean().map(|mean| mean / self.held_share()),
            max_pages: distribution.max().and_then(|need| self.pages(need)),
            coverage: self.config.cache.coverages.iter().map(coverage).collect(),
        }
    }

    fn covering(&self, coverage: Ratio, distribution: &Distribution<'_>) -> CoverageCapacity {
        let need = distribution.quantile(coverage);
        let pages = need.and_then(|need| self.pages(need));
        let with_reuse = distribution.quantile_with_reuse(coverage);
        CoverageCapacity {
            bytes: self.bytes(pages),
            tokens: pages.map(|pages| PageCount(pages).tokens(self.page_size)),
            pages_with_reuse: with_reuse.and_then(|need| self.pages(need)),
            beyond_bound: need == Some(BEYOND),
            ..CoverageCapacity::of(coverage, pages)
        }
    }

    fn in_flight(&self, tally: &Tally, required: &[RequiredCapacity]) -> Option<InFlightFigures> {
        let requests = Distribution::new(tally.overlaps.requests(), 0);
        let pages = Distribution::new(tally.overlaps.pages(), 0);
        let max_pages = pinned(tally).map(|pages| pages.0);
        let with_room = |found: &CoverageCapacity| {
            let pages = with_room(found.pages, max_pages);
            CoverageSize { coverage: found.coverage, pages, bytes: self.bytes(pages) }
        };
        let at_ratio = |required: &RequiredCapacity| Required {
            target_ratio: required.target_ratio,
            coverage: required.coverage.iter().map(with_room).collect(),
        };
        Some(InFlightFigures {
            modelled: self.models_overlap,
            max_requests: requests.max()?,
            max_pages,
            max_bytes: self.bytes(max_pages),
            mean_pages: pages.mean(),
            p99_pages: pages.quantile(SHOWN_IN_FLIGHT).filter(|pages| *pages != BEYOND),
            required: if self.models_overlap { Vec::new() } else { required.iter().map(at_ratio).collect() },
            without_room: self.without_room(tally),
        })
    }

    /// The room that requests in flight want as a share of the requests arrive; none where that is not modelled.
    fn room_by_coverage(&self, tally: &Tally) -> Vec<(Ratio, Option<u64>)> {
        let room = Distribution::new(tally.overlaps.room(), 0);
        let pages = |coverage: Ratio| Some((coverage, room.quantile(coverage)?));
        let found = self.config.cache.coverages.iter().filter_map(|coverage| pages(*coverage));
        found.map(|(coverage, pages)| (coverage, (pages != BEYOND).then_some(pages))).collect()
    }

    /// The room that they want in the first tier beyond what hits require of it; `None` beyond the tracked bound.
    fn room_beyond(&self, tally: &Tally, required: Option<PageCount>) -> Option<PageCount> {
        let Some(first) = self.config.tiers.first() else { return Some(PageCount(0)) };
        let room = Distribution::new(tally.overlaps.room(), 0).quantile(first.coverage).unwrap_or(0);
        let required = required.map_or(0, |required| required.0);
        (room != BEYOND).then(|| PageCount(room.saturating_sub(required)))
    }

    /// Capacities that were named, and what is provisioned, where more was in flight at times.
    fn without_room(&self, tally: &Tally) -> Vec<RoomShortage> {
        let room = Distribution::new(tally.overlaps.room(), 0);
        let cache = &self.config.cache;
        let named = cache.capacities.iter().filter_map(|named| named.pages(self.page_bytes));
        let provisioned = self.config.observed().provisioned().total(self.page_bytes);
        let pages: BTreeSet<u64> = named.chain(provisioned).map(|pages| pages.0).collect();
        let shortage = |pages: u64| {
            let requests = room.above(pages);
            RoomShortage { pages, requests, share: share(requests, room.requests()) }
        };
        pages.into_iter().map(shortage).filter(|found| found.requests > 0).collect()
    }

    /// So many pages in bytes, where a cost per token is configured.
    fn bytes(&self, pages: Option<u64>) -> Option<u64> {
        pages.zip(self.page_bytes).map(|(pages, page)| PageCount(pages).bytes(page).0)
    }

    /// The followed pages that a page of nominal capacity stands for.
    fn held_share(&self) -> f64 {
        self.config.cache.sample_rate.as_f64()
    }

    /// The nominal capacity for a need; `None` beyond the bound.
    fn pages(&self, need: Need) -> Option<u64> {
        (need != BEYOND).then(|| self.config.cache.nominal_pages(need))
    }
}

/// Most pages that other requests in flight held: zero where nothing was measured, `None` beyond the
/// bound.
fn pinned(tally: &Tally) -> Option<PageCount> {
    let most = Distribution::new(tally.overlaps.pages(), 0).max().unwrap_or(0);
    (most != BEYOND).then_some(PageCount(most))
}

impl WindowReading {
    /// Takes in where the trends stand.
    fn judge(&mut self, standing: &Standing, page_bytes: Option<PageBytes>) {
        let entries = self.required.iter_mut().flat_map(|required| &mut required.coverage);
        for ((entry, own), verdict) in entries.zip(&mut self.recommended).zip(&standing.covering) {
            (entry.convergence, entry.growth_per_window) = (verdict.status, verdict.growth_per_window);
            (own.convergence, own.growth_per_window) = (verdict.status, verdict.growth_per_window);
        }
        if let Some(to_act_on) = self.recommended.iter_mut().find(|entry| entry.act_on) {
            // A window that is still open may ask for more already.
            let held = standing.held.map(|held| held.max(PageCount(to_act_on.pages.unwrap_or(0))));
            to_act_on.hold(held, page_bytes);
        }
    }
}
