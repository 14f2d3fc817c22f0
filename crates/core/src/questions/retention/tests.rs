//! Retention against caches that are kept one page and one millisecond at a time.

use super::*;
use crate::engines::profile::Profile;
use crate::questions::counters::Counter;
use crate::questions::lifetimes::naive::{Looked, StackModel, TimedRequest, profiles, timed_requests};
use crate::questions::reuse::Lifetimes;
use crate::sizing::curve::PromptTokens;
use crate::sizing::figures::EvictionAge;
use crate::stack::naive::NaivePage;
use crate::units::PageCount;
use crate::units::ratio::Ratio;
use proptest::prelude::*;
use std::collections::HashMap;

const CAPACITIES: [u64; 6] = [1, 3, 7, 12, 20, 33];

fn ttls() -> Vec<Ttl> {
    ["1ms", "5ms", "12ms", "40ms", "300ms", "1h"].map(|ttl| ttl.parse().expect("a time")).into()
}

fn config() -> RetentionConfig {
    let targets = ["0.5", "0.99", "1"].map(|share| share.parse().expect("a share"));
    RetentionConfig {
        ttls: ttls(),
        capacities: CAPACITIES.into(),
        targets: targets.into(),
        most_ages: MOST_AGES,
    }
}

/// Pages with the time from which on each is kept, and what they add up to over time.
#[derive(Debug, Default)]
struct Kept {
    since: HashMap<NaivePage, i64>,
    peak: u64,
    integral: u64,
}

impl Kept {
    fn resident(&self, ttl: i64, now: i64) -> u64 {
        self.since.values().filter(|since| now - **since <= ttl).count() as u64
    }

    /// Every millisecond from one moment to another.
    fn pass(&mut self, ttl: i64, from: i64, to: i64) {
        self.integral += (from..to).map(|moment| self.resident(ttl, moment + 1)).sum::<u64>();
    }
}

/// A cache of so many pages that drops by last use, and what is older than a time to live.
struct Both {
    capacity: usize,
    ttl: i64,
    list: Vec<(NaivePage, i64)>,
    hits: u64,
}

impl Both {
    fn access(&mut self, looked: &Looked, now: i64, root_first: bool, room: usize) {
        self.list.retain(|(_, touched)| now - *touched <= self.ttl);
        let mut hits = 0;
        for (at, (page, _)) in looked.pages.iter().enumerate() {
            let place = self.list.iter().position(|(held, _)| held == page);
            let there = place.is_some_and(|place| place + room < self.capacity);
            hits += u64::from(there && at < looked.limit);
            if root_first {
                self.touch(page, now);
                self.list.truncate(self.capacity);
            }
        }
        if !root_first {
            looked.pages.iter().rev().for_each(|(page, _)| self.touch(page, now));
            self.list.truncate(self.capacity);
        }
        self.hits += hits;
    }

    fn touch(&mut self, page: &NaivePage, now: i64) {
        self.list.retain(|(held, _)| held != page);
        self.list.insert(0, (page.clone(), now));
    }
}

/// What the obvious caches say.
struct Naive {
    sliding: Vec<(Kept, u64)>,
    fixed: Vec<(Kept, u64)>,
    both: Vec<Vec<Both>>,
    honoured: Vec<Vec<u64>>,
    required: Vec<Vec<u64>>,
    /// Requests that found enough, one a time to live.
    fixed_covered: Vec<u64>,
    eviction_ages: Vec<Vec<u64>>,
    span: Option<(i64, i64)>,
}

impl Naive {
    fn new(config: &RetentionConfig) -> Self {
        let kept = || config.ttls.iter().map(|_| (Kept::default(), 0)).collect();
        let both = |ttl: &Ttl| {
            let at = |capacity: &u64| Both {
                capacity: *capacity as usize,
                ttl: ttl.ms() as i64,
                list: Vec::new(),
                hits: 0,
            };
            config.capacities.iter().map(at).collect()
        };
        Self {
            sliding: kept(),
            fixed: kept(),
            both: config.ttls.iter().map(both).collect(),
            honoured: vec![vec![0; config.capacities.len()]; config.ttls.len()],
            required: vec![Vec::new(); config.targets.len()],
            fixed_covered: vec![0; config.ttls.len()],
            eviction_ages: vec![Vec::new(); config.capacities.len()],
            span: None,
        }
    }

    /// Takes in a request that only fills the caches unless it counts.
    fn add(
        &mut self,
        model: &StackModel,
        looked: &Looked,
        room: usize,
        counted: bool,
        config: &RetentionConfig,
    ) {
        let now = model.now.expect("a request");
        let last = self.span.map_or(now, |(_, last)| last);
        let reusable = looked.reusable();
        for (at, ttl) in config.ttls.iter().map(|ttl| ttl.ms() as i64).enumerate() {
            let (kept, hits) = &mut self.sliding[at];
            kept.pass(ttl, last, now);
            *hits += reusable.iter().filter(|(_, touched)| now - touched <= ttl).count() as u64;
            for (page, _) in &looked.pages {
                kept.since.insert(page.clone(), now);
            }
            let resident = kept.resident(ttl, now);
            kept.peak = kept.peak.max(resident);
            for (honoured, capacity) in self.honoured[at].iter_mut().zip(&config.capacities) {
                *honoured += u64::from(resident <= *capacity);
            }
            let (kept, hits) = &mut self.fixed[at];
            kept.pass(ttl, last, now);
            let there = |page: &NaivePage| kept.since.get(page).is_some_and(|since| now - since <= ttl);
            let looked_up = looked.pages[..looked.limit].iter();
            let found = looked_up.take_while(|(page, _)| there(page)).count();
            *hits += found as u64;
            self.fixed_covered[at] +=
                u64::from(found as u64 >= config.targets[0].ceil_of(reusable.len() as u64));
            for (page, _) in &looked.pages {
                if kept.since.get(page).is_none_or(|since| now - since > ttl) {
                    kept.since.insert(page.clone(), now);
                }
            }
            kept.peak = kept.peak.max(kept.resident(ttl, now));
            let root_first = model.profile == Profile::Paper;
            self.both[at].iter_mut().for_each(|both| both.access(looked, now, root_first, room));
        }
        for (required, target) in self.required.iter_mut().zip(&config.targets) {
            let pages = target.ceil_of(reusable.len() as u64) as usize;
            required.push(pages.checked_sub(1).map_or(0, |last| (now - reusable[last].1) as u64));
        }
        for (ages, capacity) in self.eviction_ages.iter_mut().zip(&config.capacities) {
            ages.extend(model.list.get(*capacity as usize).map(|held| (now - held.touched) as u64));
        }
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        if !counted {
            self.forget_counts(now);
        }
    }

    /// Starts to count at the next request.
    fn forget_counts(&mut self, now: i64) {
        self.sliding.iter_mut().chain(&mut self.fixed).for_each(|(kept, hits)| {
            (kept.peak, kept.integral, *hits) = (0, 0, 0);
        });
        self.both.iter_mut().flatten().for_each(|both| both.hits = 0);
        self.honoured.iter_mut().flatten().chain(&mut self.fixed_covered).for_each(|count| *count = 0);
        self.required.iter_mut().chain(&mut self.eviction_ages).for_each(Vec::clear);
        self.span = Some((now, now));
    }
}

fn quantile(ages: &[u64], share: Ratio) -> Option<u64> {
    let mut sorted = ages.to_vec();
    sorted.sort_unstable();
    share.nearest_rank(sorted.len() as u64).map(|rank| sorted[rank as usize - 1])
}

fn check(
    requests: &[TimedRequest],
    profile: Profile,
    bound: u64,
    warm_up: usize,
) -> Result<(), TestCaseError> {
    let mut config = config();
    config.capacities.retain(|capacity| *capacity <= bound);
    let (mut model, mut naive) = (StackModel::new(profile, bound), Naive::new(&config));
    let mut lifetimes = Lifetimes::new(PageCount(bound), Some(Retention::new(config.clone())), None);
    let mut tally = RetentionTally::new(config.shape());
    let mut counted = 0;
    for (number, request) in requests.iter().enumerate() {
        let room = usize::from(model.partial);
        let (time, outcome, looked) = model.observe(request);
        lifetimes.observe(time, None, true, &outcome);
        // The first counted request is where the time begins that is averaged over.
        let counts = number >= warm_up;
        if counted == 0 && counts && number > 0 {
            let last = naive.span.expect("a request").1;
            naive.forget_counts(last);
        }
        let begins = counts && counted == 0;
        naive.add(&model, &looked, room, counts, &config);
        if begins {
            let now = model.now.expect("a request");
            naive.sliding.iter_mut().chain(&mut naive.fixed).for_each(|(kept, _)| kept.integral = 0);
            naive.span = Some((now, now));
        }
        if counts {
            counted += 1;
            let (mut followed, mut tenant) = (None, None);
            lifetimes.hand_over(&mut followed, &mut tenant);
            tally.add(&followed.expect("followed"));
        }
    }
    let coverages: Vec<Ratio> = ["0.3", "0.9", "1"].map(|share| share.parse().expect("a share")).into();
    let totals: Vec<_> = config.capacities.iter().copied().map(PageCount).collect();
    let figures = RetentionFigures {
        tally: &tally,
        rules: &config,
        coverages: &coverages,
        sample_rate: Ratio::ONE,
        page_bytes: None,
        page_accesses: 0,
        prompts: PromptTokens::default(),
        totals: &totals,
    };
    let span = naive.span.map_or(0, |(first, last)| last - first);
    for point in &figures.points() {
        let at = config.ttls.iter().position(|ttl| ttl.ms() == point.ttl_ms).expect("asked for");
        let (kept, hits) = match point.kind {
            RetentionKind::Sliding => &naive.sliding[at],
            RetentionKind::Fixed => &naive.fixed[at],
        };
        if point.page_hits.is_none() {
            prop_assert!(bound < 1000, "all is told where nothing is forgotten");
            continue;
        }
        prop_assert_eq!(point.page_hits, Some(*hits), "{:?}", point);
        prop_assert_eq!(point.peak_pages, Some(kept.peak), "{:?}", point);
        let mean = if span == 0 { kept.peak as f64 } else { kept.integral as f64 / span as f64 };
        prop_assert!((point.mean_pages.expect("told") - mean).abs() <= 1e-9 * mean, "{:?} {}", point, mean);
        for (index, found) in point.capacities.iter().enumerate() {
            prop_assert_eq!(found.page_hits, Some(naive.both[at][index].hits), "{:?}", point);
            let honoured = naive.honoured[at][index] as f64 / counted.max(1) as f64;
            prop_assert!(counted == 0 || found.honoured == Some(honoured), "{:?} {}", point, honoured);
        }
        if let Some(covered) = point.covered {
            let within = naive.required[0].iter().filter(|age| **age <= point.ttl_ms).count() as u64;
            let enough = if point.kind.is_fixed() { naive.fixed_covered[at] } else { within };
            prop_assert_eq!(covered, enough as f64 / counted as f64, "{:?}", point);
        }
    }
    for (required, ages) in figures.required().iter().zip(&naive.required) {
        for found in required.coverage.iter().filter(|found| bound >= 1000 || found.ttl_ms.is_some()) {
            prop_assert_eq!(found.ttl_ms, quantile(ages, found.coverage));
        }
    }
    for (found, ages) in tally.eviction_ages().iter().zip(&naive.eviction_ages) {
        let at = |thousandths| quantile(ages, Ratio::per_mille(thousandths));
        let naive = EvictionAge { p10: at(100), p50: at(500), p90: at(900) };
        prop_assert!(bound < 1000 || *found == naive, "{:?} is {:?}", found, naive);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn equals_caches_kept_page_by_page(
        requests in timed_requests(50), profile in profiles(), warm_up in 0usize..10,
    ) {
        check(&requests, profile, 1 << 20, warm_up)?;
    }

    #[test]
    fn what_is_told_of_a_bounded_stack_is_true(
        requests in timed_requests(50), profile in profiles(), bound in 5u64..40,
    ) {
        check(&requests, profile, bound, 0)?;
    }
}

#[test]
fn a_time_to_live_reads_back_as_written_and_refuses_with_a_reason() {
    for text in ["5m", "1h", "250ms"] {
        assert_eq!(text.parse::<Ttl>().expect(text).to_string(), text);
    }
    for text in ["", "5", "0s", "-1h", "1y", "400d"] {
        assert!(text.parse::<Ttl>().expect_err(text).to_string().contains("expected"), "{text}");
    }
}
