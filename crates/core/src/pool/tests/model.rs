//! A pool against a recomputation of every window from the list of all requests.

use super::super::*;
use super::trends::{trends_follow_the_estimates, without_trend};
use super::{PAGE_SIZE, event, ratios};
use crate::engines::config::CacheConfig;
use crate::engines::profile::Profile;
use crate::estimate::{CoverageCapacity, Status};
use crate::sizing::tiers::{TierConfig, TierEstimate, TrendRules};
use crate::stack::Order;
use crate::stack::naive::{NaivePage, NaiveRequest, NaiveStack, chained_requests};
use crate::units::PageCount;
use crate::units::ratio::Ratio;
use crate::units::window::WindowKind;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One record of the partition.
#[derive(Debug, Clone)]
struct Record {
    time: i64,
    /// The request; none where only the watermark moves, as that of an idle pool does.
    ids: Option<Vec<u64>>,
    counted: bool,
}

/// A log: how its times run, and its records.
fn logs(in_order: bool) -> impl Strategy<Value = Vec<Record>> {
    let step = prop_oneof![6 => 0i64..5, 2 => 5i64..30, 1 => Just(1000)];
    let back = prop_oneof![3 => Just(0i64), 2 => 0i64..25];
    let steps = prop::collection::vec((step, back, prop::bool::weighted(0.15)), 60);
    (chained_requests(60), steps, 0usize..6, -40i64..40).prop_map(move |(requests, steps, warm_up, start)| {
        let mut now = start;
        let draw = requests.into_iter().zip(steps).enumerate();
        draw.map(|(index, (ids, (step, back, foreign)))| {
            now += step;
            let time = if in_order { now } else { now - back };
            let ids = (in_order || !foreign).then_some(ids);
            Record { time, ids, counted: index >= warm_up }
        })
        .collect()
    })
}

pub(super) fn configs() -> impl Strategy<Value = PoolConfig> {
    let bound = prop_oneof![Just(1u64 << 20), 4u64..40];
    let flags = (any::<bool>(), prop::bool::weighted(0.7));
    let steps = (1u64..6, prop_oneof![Just(0u64), Just(15u64)]);
    (flags, bound, 0u64..8, 0u64..12, prop_oneof![Just(0u64), Just(7u64)], 0u64..40, steps).prop_map(
        |(
            (leaf_first, planned),
            bound,
            grace_ms,
            allowed_lateness_ms,
            publish_every_ms,
            min_history_ms,
            (min_requests, step_ms),
        )| {
            PoolConfig {
                cache: CacheConfig {
                    profile: if leaf_first { Profile::LeafFirst } else { Profile::Paper },
                    page_size: PageSize::new(PAGE_SIZE),
                    kv_bytes_per_token: Some(2.5),
                    target_ratios: ratios(&["0.5", "0.99", "1"]),
                    coverages: ratios(&["0", "0.5", "0.9", "0.999", "1"]),
                    capacities: ["30B", "2p", "3p", "5p", "5p", "8p", "13p", "30p"]
                        .map(|text| text.parse().expect("a capacity"))
                        .into(),
                    max_tracked_pages: PageCount(bound),
                    ..CacheConfig::default()
                },
                windows: ["tumbling:10ms", "all", "hopping:12ms/4ms", "last:5", "last:1", "hopping:9ms/9ms"]
                    .map(|text| text.parse().expect("a window"))
                    .into(),
                grace_ms,
                allowed_lateness_ms,
                max_lateness_ms: 0,
                publish_every_ms,
                min_history_ms,
                min_requests,
                tiers: if planned { tiers() } else { Vec::new() },
                trend: TrendRules { step_ms, converged_over: 3, hold: 2, ..TrendRules::default() },
                ..PoolConfig::default()
            }
        },
    )
}

/// Units of 3, 4 and 5 pages; a page has 10 bytes.
fn tiers() -> Vec<TierConfig> {
    ["fast:0.5:3p:7", "middle:0.9:40B:2", "slow:1:5p:inclusive"]
        .map(|text| text.parse().expect("a tier"))
        .into()
}

/// A log on its way through a pool.
struct Run {
    pool: Pool,
    /// The largest time less the allowed lateness.
    watermark: Option<EventTime>,
    allowed_lateness_ms: u64,
    next_offset: i64,
    estimates: Vec<Estimate>,
    /// Advance the watermark after every record and look at what is open, not only when it is due.
    eager: bool,
}

impl Run {
    fn new(config: &PoolConfig) -> Self {
        Self {
            pool: Pool::new("p", 3, Arc::new(config.clone())).expect("a usable configuration"),
            watermark: None,
            allowed_lateness_ms: config.allowed_lateness_ms,
            next_offset: 0,
            estimates: Vec::new(),
            eager: false,
        }
    }

    fn take(&mut self, log: &[Record]) {
        for record in log {
            let arrival = Arrival {
                offset: Offset(self.next_offset),
                counted: record.counted,
                watermark: self.watermark,
            };
            self.next_offset += 1;
            if let Some(ids) = &record.ids {
                // Ids are chained, whether their maker declares it or not.
                let ids_chained = self.next_offset % 2 == 0;
                let event = RequestEvent { ids_chained, ..event(record.time, ids) };
                self.pool.observe(&event, arrival).expect("accepted");
            }
            let moved = EventTime(record.time - self.allowed_lateness_ms as i64);
            self.watermark = self.watermark.max(Some(moved));
            self.advance();
        }
    }

    fn advance(&mut self) {
        let Some(now) = self.watermark else { return };
        let next_offset = Offset(self.next_offset);
        if self.eager || self.pool.next_deadline().is_some_and(|due| due <= now) {
            self.pool.advance_watermark(now, next_offset, &mut self.estimates);
        }
        if self.eager {
            self.pool.provisional(next_offset);
        }
    }
}

/// Runs a log through a pool; see [`Run::eager`].
fn run(config: &PoolConfig, log: &[Record], eager: bool) -> (Vec<Estimate>, Pool) {
    let mut run = Run { eager, ..Run::new(config) };
    run.take(log);
    (run.estimates, run.pool)
}

/// What is checked of an estimate, by kind of window: everything that the list of requests tells.
#[derive(Debug, Clone, PartialEq)]
struct Facts {
    kind: WindowKind,
    span: (i64, i64),
    offsets: (i64, i64),
    warm_up: bool,
    requests: (u64, u64),
    pages: (u64, u64),
    late: u64,
    /// Distinct in the window and accumulated; not told once the bound forgot pages.
    distinct: Option<(u64, u64)>,
    /// One entry per target ratio.
    required: Vec<Required>,
    /// Pages and hit rate, one entry per target ratio and coverage.
    recommended: Vec<(Option<u64>, Option<f64>)>,
    hits: Vec<Option<u64>>,
    /// By tier.
    plan: Option<Vec<Planned>>,
}

/// Required pages, units, and the hit rate with them.
type Planned = (Option<u64>, Option<u64>, Option<f64>);

/// Mean, max, and for each coverage the pages and those with reuse.
type Required = (Option<f64>, Option<u64>, Vec<[Option<u64>; 2]>);

fn facts(estimate: &Estimate, with_distinct: bool) -> Facts {
    let pair = |at: &CoverageCapacity| [at.pages, at.pages_with_reuse];
    Facts {
        kind: estimate.window,
        span: (estimate.start_ms, estimate.end_ms),
        offsets: (estimate.first_offset, estimate.next_offset),
        warm_up: estimate.warm_up,
        requests: (estimate.requests, estimate.requests_with_reuse),
        pages: (estimate.page_accesses, estimate.theoretical.prefix_hits),
        late: estimate.late_records,
        distinct: with_distinct.then_some((estimate.distinct_pages, estimate.accumulated_pages)),
        required: estimate
            .required
            .iter()
            .map(|at| (at.mean_pages, at.max_pages, at.coverage.iter().map(pair).collect()))
            .collect(),
        recommended: estimate.recommended.iter().map(|entry| (entry.pages, entry.hit_rate)).collect(),
        hits: estimate.capacities.iter().map(|point| point.prefix_hits).collect(),
        plan: estimate.plan.as_ref().map(|plan| {
            let told = |tier: &TierEstimate| (tier.required_pages, tier.planned.units, tier.planned.hit_rate);
            plan.tiers.iter().map(told).collect()
        }),
    }
}

/// A request as the list of all requests has it.
struct Listed {
    time: i64,
    offset: i64,
    arrival: u64,
    found: NaiveRequest,
}

/// The slow model: keeps every request and recomputes each window from them.
struct Model<'a> {
    config: &'a PoolConfig,
    stack: NaiveStack,
    /// Counted requests.
    listed: Vec<Listed>,
    /// By kind and start: the positions in `listed` of a window's requests.
    open: Vec<BTreeMap<i64, Vec<usize>>>,
    late: Vec<u64>,
    first_seen: Option<i64>,
    arrivals: u64,
    /// Watermark at the first request that was counted since `last` and `all` were published.
    unpublished_since: Option<i64>,
    /// Count distinct pages as sets of prefixes, not by their last touch.
    distinct_as_sets: bool,
}

impl<'a> Model<'a> {
    fn new(config: &'a PoolConfig, distinct_as_sets: bool) -> Self {
        let order =
            if config.cache.profile == Profile::LeafFirst { Order::LeafFirst } else { Order::RootFirst };
        Self {
            config,
            stack: NaiveStack::new(order),
            listed: Vec::new(),
            open: vec![BTreeMap::new(); config.windows.len()],
            late: vec![0; config.windows.len()],
            first_seen: None,
            arrivals: 0,
            unpublished_since: None,
            distinct_as_sets,
        }
    }

    fn run(mut self, log: &[Record]) -> (Vec<Facts>, Vec<Facts>) {
        let lateness = self.config.allowed_lateness_ms as i64;
        let mut watermark = None;
        let mut finals = Vec::new();
        for (offset, record) in log.iter().enumerate() {
            if let Some(ids) = &record.ids {
                self.observe(record, ids, offset as i64, watermark);
            }
            watermark = watermark.max(Some(record.time - lateness));
            finals.extend(self.close(watermark, offset as i64 + 1));
        }
        let last = self.close(None, log.len() as i64);
        (finals, last)
    }

    fn observe(&mut self, record: &Record, ids: &[u64], offset: i64, watermark: Option<i64>) {
        let found = self.stack.access(ids);
        self.first_seen = self.first_seen.or(Some(record.time));
        self.arrivals += 1;
        if !record.counted {
            return;
        }
        let position = self.listed.len();
        self.listed.push(Listed { time: record.time, offset, arrival: self.arrivals - 1, found });
        let now = watermark.unwrap_or(record.time - self.config.allowed_lateness_ms as i64);
        self.unpublished_since = self.unpublished_since.or(Some(now));
        for (kind, window) in self.config.windows.iter().enumerate() {
            let Some((size, advance)) = spans(*window) else { continue };
            let starts =
                (record.time - size + 1..=record.time).filter(|start| start.rem_euclid(advance) == 0);
            let closed =
                |start: &i64| watermark.is_some_and(|now| start + size + self.config.grace_ms as i64 <= now);
            let (missed, met): (Vec<i64>, Vec<i64>) = starts.partition(closed);
            self.late[kind] += u64::from(!missed.is_empty());
            met.into_iter().for_each(|start| self.open[kind].entry(start).or_default().push(position));
        }
    }

    /// Closes what the watermark has passed, or everything.
    fn close(&mut self, watermark: Option<i64>, next_offset: i64) -> Vec<Facts> {
        let mut closed = Vec::new();
        for (kind, window) in self.config.windows.iter().enumerate() {
            if let Some((size, _)) = spans(*window) {
                let due = |start: i64| {
                    watermark.is_none_or(|now| start + size + self.config.grace_ms as i64 <= now)
                };
                let starts: Vec<i64> = self.open[kind].keys().copied().filter(|start| due(*start)).collect();
                for start in starts {
                    let members = self.open[kind].remove(&start).unwrap_or_default();
                    let members: Vec<&Listed> = members.iter().map(|at| &self.listed[*at]).collect();
                    closed.push((
                        start + size,
                        kind,
                        self.facts(kind, (start, start + size), &members, next_offset),
                    ));
                }
            } else if let Some(end) = self.boundary(watermark) {
                let count = match window {
                    WindowKind::Last { requests } => *requests as usize,
                    _ => usize::MAX,
                };
                let members: Vec<&Listed> = self.listed.iter().rev().take(count).rev().collect();
                let start = members.iter().map(|listed| listed.time).min().unwrap_or(0);
                closed.push((end, kind, self.facts(kind, (start, end), &members, next_offset)));
            }
        }
        if watermark.is_some_and(|_| self.boundary(watermark).is_some()) {
            self.unpublished_since = None;
        }
        closed.sort_by_key(|(end, kind, _)| (*end, *kind));
        closed.into_iter().map(|(_, _, facts)| facts).collect()
    }

    /// Where `last` and `all` are published now, if they are.
    fn boundary(&self, watermark: Option<i64>) -> Option<i64> {
        let Some(now) = watermark else {
            return self.listed.iter().map(|listed| listed.time + 1).max();
        };
        let since = self.unpublished_since.filter(|_| self.config.publish_every_ms > 0)?;
        (since + 1..=now).rev().find(|time| time.rem_euclid(self.config.publish_every_ms as i64) == 0)
    }

    fn facts(&self, kind: usize, span: (i64, i64), members: &[&Listed], next_offset: i64) -> Facts {
        // Every request of an open window may lie behind the boundary that it is published at.
        let span = (span.0.min(span.1), span.1);
        let window = self.config.windows[kind];
        let reusing = members.iter().filter(|listed| !listed.found.needs.is_empty()).count() as u64;
        let history = if window == WindowKind::All { span.1 } else { span.0 } - self.first_seen.unwrap_or(0);
        let hits_at = |capacity: u64| self.hits_at(capacity, members);
        let is_bounded = self.stack.len() > self.bound();
        // Hopping windows share panes, which tell distinct pages exactly where times never go back.
        let shares_panes = matches!(window, WindowKind::Hopping { size_ms: 12, .. });
        let told = !is_bounded && (self.distinct_as_sets || !shares_panes);
        Facts {
            kind: window,
            span,
            offsets: (members.iter().map(|listed| listed.offset).min().unwrap_or(-1), next_offset),
            warm_up: history.max(0) < self.config.min_history_ms as i64,
            requests: (members.len() as u64, reusing),
            pages: (
                members.iter().map(|listed| listed.found.pages.len() as u64).sum(),
                members.iter().map(|listed| listed.found.needs.len() as u64).sum(),
            ),
            late: self.late[kind],
            distinct: told.then(|| (self.distinct(members), self.stack.len())),
            required: self
                .config
                .cache
                .target_ratios
                .iter()
                .map(|ratio| self.required(*ratio, members))
                .collect(),
            recommended: self.recommended(members),
            // 30 bytes are 3 pages of 10 bytes.
            hits: [2, 3, 3, 5, 5, 8, 13, 30].map(hits_at).into(),
            plan: (!self.config.tiers.is_empty()).then(|| self.plan(members)),
        }
    }

    fn hits_at(&self, capacity: u64, members: &[&Listed]) -> Option<u64> {
        let prefix =
            |listed: &&Listed| listed.found.needs.iter().take_while(|need| **need <= capacity).count() as u64;
        (capacity <= self.bound()).then(|| members.iter().map(prefix).sum())
    }

    /// The tiers by trying one unit more until it is enough.
    fn plan(&self, members: &[&Listed]) -> Vec<Planned> {
        let accesses: u64 = members.iter().map(|listed| listed.found.pages.len() as u64).sum();
        let (ratio, mut above) = (self.config.cache.target_ratios[0], Some(0));
        let sizes = [("0.5", 3, false), ("0.9", 4, false), ("1", 5, true)];
        let plan = sizes.map(|(coverage, unit, inclusive)| {
            let needs = self.sorted_needs(ratio, members);
            let rank = ratios(&[coverage])[0].nearest_rank(needs.len() as u64);
            let required = rank.map(|rank| needs[rank as usize - 1]).filter(|need| *need <= self.bound());
            let reach = |above: u64, units: u64| match inclusive {
                true => above.max(units * unit),
                false => above + units * unit,
            };
            let units = above
                .zip(required)
                .and_then(|(above, required)| (0..).find(|units| reach(above, *units) >= required));
            above = above.zip(units).map(|(above, units)| reach(above, units));
            let hits = above.filter(|_| accesses > 0).and_then(|reach| self.hits_at(reach, members));
            (required, units, hits.map(|hits| hits as f64 / accesses as f64))
        });
        plan.into()
    }

    /// What is required of each target ratio and coverage, with its hits, where there are requests enough.
    fn recommended(&self, members: &[&Listed]) -> Vec<(Option<u64>, Option<f64>)> {
        let accesses: u64 = members.iter().map(|listed| listed.found.pages.len() as u64).sum();
        let rate = |pages: u64| self.hits_at(pages, members).map(|hits| hits as f64 / accesses.max(1) as f64);
        let is_enough = members.len() as u64 >= self.config.min_requests;
        let ratios = self.config.cache.target_ratios.iter();
        let required = ratios.flat_map(|ratio| self.required(*ratio, members).2);
        let pages = required.map(|[pages, _]| pages.filter(|_| is_enough));
        pages.map(|pages| (pages, pages.and_then(rate))).collect()
    }

    fn bound(&self) -> u64 {
        self.config.cache.max_tracked_pages.0
    }

    fn distinct(&self, members: &[&Listed]) -> u64 {
        let pages = members.iter().flat_map(|listed| &listed.found.pages);
        if self.distinct_as_sets {
            return pages.map(|(page, _)| page).collect::<BTreeSet<&NaivePage>>().len() as u64;
        }
        let first = members.iter().map(|listed| listed.arrival).min().unwrap_or(0);
        pages.filter(|(_, toucher)| toucher.is_none_or(|toucher| toucher < first)).count() as u64
    }

    fn sorted_needs(&self, ratio: Ratio, members: &[&Listed]) -> Vec<u64> {
        let need = |listed: &&Listed| {
            let count = ratio.ceil_of(listed.found.needs.len() as u64) as usize;
            listed.found.needs[..count].iter().copied().max().unwrap_or(0)
        };
        let mut needs: Vec<u64> = members.iter().map(need).collect();
        needs.sort_unstable();
        needs
    }

    fn required(&self, ratio: Ratio, members: &[&Listed]) -> Required {
        let reuses = |listed: &&Listed| !listed.found.needs.is_empty();
        let all = self.sorted_needs(ratio, members);
        let reusing = self.sorted_needs(ratio, &members.iter().copied().filter(reuses).collect::<Vec<_>>());
        let bounded = |need: u64| (need <= self.bound()).then_some(need);
        let at = |sorted: &[u64], coverage: Ratio| {
            let rank = coverage.nearest_rank(sorted.len() as u64)?;
            bounded(sorted[rank as usize - 1])
        };
        let max = all.last().copied().and_then(bounded);
        let mean = max.map(|_| all.iter().sum::<u64>() as f64 / all.len() as f64);
        let coverages = self.config.cache.coverages.iter();
        (mean, max, coverages.map(|coverage| [at(&all, *coverage), at(&reusing, *coverage)]).collect())
    }
}

/// Size and advance of a window over event time.
fn spans(kind: WindowKind) -> Option<(i64, i64)> {
    match kind {
        WindowKind::Tumbling { size_ms } => Some((size_ms as i64, size_ms as i64)),
        WindowKind::Hopping { size_ms, advance_ms } => Some((size_ms as i64, advance_ms as i64)),
        WindowKind::Last { .. } | WindowKind::All => None,
    }
}

fn equals_the_list(config: &PoolConfig, log: &[Record], in_order: bool) -> Result<(), TestCaseError> {
    let (mut finals, mut pool) = run(config, log, false);
    let (expected, expected_last) = Model::new(config, in_order).run(log);
    let compare = |estimates: &[Estimate], expected: &[Facts]| {
        let told = |(estimate, facts): (&Estimate, &Facts)| self::facts(estimate, facts.distinct.is_some());
        let found: Vec<Facts> = estimates.iter().zip(expected).map(told).collect();
        prop_assert_eq!(&found, expected);
        prop_assert_eq!(estimates.len(), expected.len());
        Ok(())
    };
    compare(&finals, &expected)?;
    let mut last = Vec::new();
    pool.finish(Offset(log.len() as i64), &mut last);
    compare(&last, &expected_last)?;
    finals.extend(last);
    let accepted =
        |upto: i64| log[..upto as usize].iter().filter(|record| record.ids.is_some()).count() as u64;
    trends_follow_the_estimates(config, &finals, accepted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_window_equals_its_recomputation(config in configs(), log in logs(false)) {
        equals_the_list(&config, &log, false)?;
    }

    #[test]
    fn in_order_distinct_pages_are_exact_sets(config in configs(), log in logs(true)) {
        equals_the_list(&config, &log, true)?;
    }

    #[test]
    fn the_same_log_gives_the_same_estimates_however_it_is_looked_at(config in configs(), log in logs(false)) {
        let (lazy, mut pool) = run(&config, &log, false);
        let (eager, _) = run(&config, &log, true);
        prop_assert_eq!(&lazy, &eager);
        let next_offset = Offset(log.len() as i64);
        let mut open = pool.provisional(next_offset);
        prop_assert_eq!(&open, &pool.provisional(next_offset));
        prop_assert!(open.iter().all(|estimate| estimate.status == Status::Provisional));
        open.iter_mut().for_each(|estimate| {
            *estimate = Estimate { status: Status::Final, ..without_trend(estimate) };
        });
        let mut closed = Vec::new();
        pool.finish(next_offset, &mut closed);
        for estimate in &closed {
            let hopping = matches!(estimate.window, WindowKind::Hopping { size_ms: 12, .. });
            prop_assert!(hopping || open.contains(&without_trend(estimate)), "{} was not provisional before", estimate.window);
        }
        closed.clear();
        pool.finish(next_offset, &mut closed);
        prop_assert!(closed.iter().all(|estimate| spans(estimate.window).is_none()), "closed twice");
    }

    #[test]
    fn a_restored_pool_goes_on_as_if_nothing_had_happened(
        config in configs(),
        log in logs(false),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(log.len() + 1);
        let mut straight = Run::new(&config);
        straight.take(&log);
        let mut restored = Run::new(&config);
        restored.take(&log[..cut]);
        let image = postcard::to_allocvec(&restored.pool.image()).expect("memory");
        let read = postcard::from_bytes(&image).expect("the bytes just written");
        restored.pool = Pool::restore("p", 3, Arc::new(config), read).expect("the same configuration");
        prop_assert_eq!(&postcard::to_allocvec(&restored.pool.image()).expect("memory"), &image);
        restored.take(&log[cut..]);
        let mut ends = [Vec::new(), Vec::new()];
        straight.pool.finish(Offset(0), &mut ends[0]);
        restored.pool.finish(Offset(0), &mut ends[1]);
        prop_assert_eq!(straight.estimates, restored.estimates);
        prop_assert_eq!(&ends[0], &ends[1]);
    }
}
