//! What the core says about measured hits, against page-level caches and obvious counting.

use super::agreement::agreed;
use super::*;
use crate::engines::one_pass::{Engine, EngineConfig};
use crate::engines::profile::Profile;
use crate::questions::counters::Counter;
use crate::request::event::{CachedTokens, RequestEvent};
use crate::request::outcome::{BEYOND, Need, Outcome, Run};
use crate::stack::naive::chained_requests;
use crate::units::pages::PageIds;
use crate::units::ratio::Ratio;
use crate::units::{EventTime, PageSize};
use proptest::prelude::*;

/// A cache of `capacity` pages, one page at a time, leaf oldest.
struct PageLru {
    capacity: usize,
    /// Pages left where there is no more room.
    low: usize,
    /// Most recent first; a page is its whole prefix.
    pages: Vec<Vec<u64>>,
}

impl PageLru {
    fn new(capacity: usize) -> Self {
        Self { capacity, low: capacity, pages: Vec::new() }
    }

    /// One that evicts to 80 % where it is full.
    fn with_watermark(capacity: usize) -> Self {
        Self { low: capacity * 4 / 5, ..Self::new(capacity) }
    }

    /// Leading pages that were there.
    fn access(&mut self, ids: &[u64]) -> u64 {
        let prefixes: Vec<_> = (1..=ids.len()).map(|end| ids[..end].to_vec()).collect();
        let hits = prefixes.iter().take_while(|page| self.pages.contains(page)).count() as u64;
        for page in prefixes.iter().rev() {
            self.pages.retain(|held| held != page);
            self.pages.insert(0, page.clone());
        }
        if self.pages.len() > self.capacity {
            self.pages.truncate(self.low);
        }
        hits
    }
}

fn page_size() -> PageSize {
    PageSize::new(1).expect("not zero")
}

fn engine() -> Engine {
    Engine::new(EngineConfig { profile: Profile::LeafFirst, ..EngineConfig::default() })
}

fn observe(engine: &mut Engine, ids: &[u64]) -> Outcome {
    let event = RequestEvent { page_ids: PageIds::from_slice(ids), ..RequestEvent::default() };
    let mut outcome = Outcome::default();
    engine.observe(&event, page_size(), &mut outcome).expect("chained");
    outcome
}

/// A request that hit `hits` pages, of which the log explains those that prompts had before.
fn share(hits: u64, outcome: &Outcome, routed: Option<&Outcome>) -> MeasuredShare {
    let explanation = Explanation::by_prompts(routed.unwrap_or(outcome).reusable_prefix());
    MeasuredShare::of(CachedPages::stated(hits), outcome, routed, explanation)
}

/// The requests of one cache, and when it was emptied.
#[derive(Default)]
struct Measured {
    tally: MeasuredTally,
    restarts: Restarts,
}

impl Measured {
    /// What an estimate of all requests says, and the restarts told with it.
    fn agreed(&self) -> (Option<Agreed>, Vec<(RequestPosition, u64)>) {
        let agreed = self.agreed_of(None);
        (agreed, agreed.map(|agreed| self.restarts.found(agreed.from)).unwrap_or_default())
    }

    /// The same of a cache with so many pages provisioned.
    fn agreed_of(&self, provisioned: Option<Need>) -> Option<Agreed> {
        agreed(&self.tally.intervals(), provisioned, |each| self.restarts.explained(each, &ALWAYS))
    }

    /// How many requests a capacity explains together with the restarts told at it, less one for each; and the fewest
    /// restarts: by the definition.
    fn explains(&self, capacity: u64) -> (i64, i64) {
        let (restarts, ends) = self.restarts.explained(capacity, &ALWAYS);
        let requests = self.tally.intervals().agreeing(capacity).0 + ends.len() as u64;
        (requests as i64 - restarts as i64, -(restarts as i64))
    }

    /// Takes in a request that hit `hits` pages.
    fn take(&mut self, hits: u64, outcome: &Outcome, number: u64) {
        self.tally.add(&share(hits, outcome, None));
        let seen = RequestPosition { number, index: number, event_time: EventTime(number as i64) };
        self.restarts.observe(hits, outcome, seen);
    }
}

const ALWAYS: std::ops::Range<i64> = i64::MIN..i64::MAX;

/// The requests on one cache that is made anew before some of them.
fn replayed(requests: &[Vec<u64>], restarts: &[usize], made: impl Fn() -> PageLru) -> Measured {
    let (mut lru, mut engine, mut measured) = (made(), engine(), Measured::default());
    for (number, ids) in requests.iter().enumerate() {
        if restarts.contains(&number) {
            lru = made();
        }
        let outcome = observe(&mut engine, ids);
        measured.take(lru.access(ids), &outcome, number as u64);
    }
    measured
}

/// Twelve sessions at a time, of eight turns each, that begin with the same two pages.
fn sessions(requests: u64) -> Vec<Vec<u64>> {
    let request = |number: u64| {
        let (session, turn) = (number / 96 * 12 + number * 7 % 12, number % 96 / 12);
        [1, 2].into_iter().chain((0..=2 * turn).map(|page| 1000 * (session + 1) + page)).collect()
    };
    (0..requests).map(request).collect()
}

/// How many intervals hold `capacity`, and their pages: one after the other.
fn count_at(readings: &[(MeasuredReading, u64)], capacity: u64) -> (u64, u64) {
    let holds = |reading: &MeasuredReading| match reading {
        MeasuredReading::Between { at_least, less_than } => {
            *at_least <= capacity && less_than.is_none_or(|end| capacity < end)
        }
        MeasuredReading::BeyondLog { .. } => false,
    };
    let held = readings.iter().filter(|(reading, _)| holds(reading));
    held.fold((0, 0), |(count, sum), (_, pages)| (count + 1, sum + pages))
}

fn readings() -> impl Strategy<Value = Vec<(MeasuredReading, u64)>> {
    let between = (0u64..40, prop::option::of(0u64..40));
    let between = between.prop_map(|(at_least, more)| MeasuredReading::Between {
        at_least,
        less_than: more.map(|more| at_least + more),
    });
    let reading = prop_oneof![
        8 => between,
        1 => (1u64..5).prop_map(|pages| MeasuredReading::BeyondLog { pages }),
        1 => Just(MeasuredReading::Between { at_least: BEYOND, less_than: None }),
    ];
    prop::collection::vec((reading, 0u64..20), 0..200)
}

proptest! {
    #[test]
    fn the_consensus_is_the_capacity_in_most_intervals(
        all in readings(), sorted in 0usize..200, provisioned in prop::option::of(0u64..80),
    ) {
        let mut consensus = Consensus::default();
        let (sorted, latest) = all.split_at(sorted.min(all.len()));
        consensus.extend(sorted);
        let consensus = consensus.intervals(latest);
        let held: Vec<_> = (0..200).map(|capacity| count_at(&all, capacity)).collect();
        // Capacities next to each other that as many intervals hold are one range.
        let alike = |one: usize, other: usize| {
            held[one.min(other)..=one.max(other)].iter().all(|count| *count == held[one])
        };
        let rank = |capacity: usize| {
            let (requests, pages) = held[capacity];
            let is_provisioned = provisioned.is_some_and(|each| alike(capacity, each as usize));
            (requests, (is_provisioned, alike(capacity, 199)), pages)
        };
        let most = (0..200).map(rank).max().unwrap_or_default();
        let found = consensus.find(provisioned);
        prop_assert_eq!(found.is_some(), most.0 > 0);
        prop_assert_eq!(consensus.requests(), all.len() as u64);
        if let Some(found) = found {
            prop_assert_eq!((found.requests, found.standing(provisioned), found.pages), most);
            prop_assert_eq!((0..200).find(|capacity| rank(*capacity) == most), Some(found.from as usize));
            let alike = (found.from..200).take_while(|to| alike(found.from as usize, *to as usize));
            prop_assert_eq!(alike.last(), Some(found.to.unwrap_or(199)), "no wider and no narrower");
        }
    }

    #[test]
    fn the_hits_of_a_page_level_lru_give_its_capacity_back(
        requests in chained_requests(60), capacity in 1usize..60,
    ) {
        let (mut lru, mut engine, mut measured) = (PageLru::new(capacity), engine(), Measured::default());
        for (number, ids) in requests.iter().enumerate() {
            let outcome = observe(&mut engine, ids);
            measured.take(lru.access(ids), &outcome, number as u64);
        }
        let tally = &measured.tally;
        prop_assert_eq!(tally.counts().requests, requests.len() as u64);
        let capacity = capacity as u64;
        prop_assert_eq!(measured.agreed().0, tally.intervals().find(None), "no restart explains more than all");
        if let Some(found) = tally.intervals().find(None) {
            prop_assert_eq!(found.requests, tally.intervals().requests(), "every request agrees");
            prop_assert_eq!(found.pages, tally.intervals().pages());
            prop_assert!(found.from <= capacity && found.to.is_none_or(|to| capacity <= to));
        } else {
            prop_assert_eq!(tally.intervals().requests(), 0, "no request can tell");
        }
        prop_assert!(measured.restarts.found(capacity).is_empty(), "a small cache is no restart");
        let ledger = tally.ledger(capacity, capacity, u64::MAX - 1);
        prop_assert_eq!(ledger.lost_in_engine(), Some(0));
        prop_assert_eq!(ledger.lost_to_routing(), Some(0));
        prop_assert_eq!(tally.ledger(capacity, capacity, capacity - 1).shared, None, "beyond the bound");
    }

    #[test]
    fn a_restart_of_a_page_level_lru_is_found_where_it_happened(
        requests in chained_requests(60), at in 0.0f64..1.0, capacity in 1usize..60,
    ) {
        let restart_at = (requests.len() as f64 * at) as usize;
        let (mut lru, mut engine, mut measured) = (PageLru::new(capacity), engine(), Measured::default());
        // Requests after the restart that come back to pages which the cache still held.
        let mut emptied = PageLru::new(capacity);
        let (mut missed, mut with_reuse, mut first_missed) = (0, 0, None);
        for (number, ids) in requests.iter().enumerate() {
            if number == restart_at {
                lru = PageLru::new(capacity);
            }
            let outcome = observe(&mut engine, ids);
            let (hits, kept) = (lru.access(ids), emptied.access(ids));
            if number >= restart_at && outcome.reusable_prefix() > 0 {
                let misses = hits < kept;
                if misses && first_missed.is_none() {
                    first_missed = Some(number as u64);
                }
                missed += u64::from(misses);
                with_reuse += u64::from(first_missed.is_some());
            }
            measured.take(hits, &outcome, number as u64);
        }
        let found = measured.restarts.found(capacity as u64);
        prop_assert_eq!(found.len(), usize::from(missed >= 2 && with_reuse >= 8));
        if let Some((first, misses)) = found.first() {
            prop_assert_eq!(Some(first.index), first_missed);
            prop_assert_eq!(*misses, missed);
        }
    }

    /// Or another capacity explains more requests, with restarts told at it or without.
    #[test]
    fn a_cache_that_hardly_evicts_keeps_its_capacity_over_a_restart(
        requests in chained_requests(60), at in 0.0f64..1.0,
    ) {
        let restart_at = (requests.len() as f64 * at) as usize;
        let capacity = requests.iter().flatten().count() as u64;
        let measured = replayed(&requests, &[restart_at], || PageLru::new(capacity as usize));
        let Some(found) = measured.agreed().0 else { return Ok(()) };
        prop_assert!(
            found.holds(capacity) || measured.explains(found.from) > measured.explains(capacity),
            "{found:?} is not {capacity}",
        );
    }

    /// Each half of a log whose cache was emptied between them, and both together.
    #[test]
    fn of_equal_explanations_the_capacity_is_one_that_no_evidence_excludes(
        requests in chained_requests(60), at in prop::collection::vec(0.0f64..1.0, 1..4), capacity in 1usize..60,
    ) {
        let mut restarts: Vec<usize> = at.iter().map(|at| (requests.len() as f64 * at) as usize).collect();
        restarts.sort_unstable();
        let parts = std::iter::once(0).chain(restarts.clone()).zip(restarts.iter().copied().chain([requests.len()]));
        let made = || PageLru::new(capacity);
        let capacity = capacity as u64;
        for (from, to) in parts {
            let alone = replayed(&requests[from..to], &[], made);
            for provisioned in [None, Some(capacity)] {
                prop_assert!(alone.agreed_of(provisioned).is_none_or(|found| found.holds(capacity)));
            }
        }
        let together = replayed(&requests, &restarts, made);
        let most = (0..200).map(|each| together.explains(each)).max().unwrap_or_default();
        let is_best = |each: u64| together.explains(each) == most;
        if let Some(found) = together.agreed_of(None) {
            prop_assert!(is_best(found.from), "{found:?} explains {:?} of {most:?}", together.explains(found.from));
            prop_assert!(found.to.is_none() || !is_best(199), "{found:?}, and so does every larger one");
        }
        if let Some(found) = together.agreed_of(Some(capacity)) {
            prop_assert!(is_best(found.from));
            prop_assert!(found.holds(capacity) || !is_best(capacity), "{found:?} is not {capacity}");
        }
    }

    #[test]
    fn the_ledger_of_routed_requests_is_that_of_page_level_caches(
        requests in chained_requests(60), replicas in 1usize..4, capacity in 1usize..40,
    ) {
        let mut shared = (engine(), PageLru::new(capacity * replicas));
        let mut routed: Vec<_> = (0..replicas).map(|_| (engine(), PageLru::new(capacity))).collect();
        let (mut tally, mut shared_hits, mut routed_hits) = (MeasuredTally::default(), 0, 0);
        for (number, ids) in requests.iter().enumerate() {
            let outcome = observe(&mut shared.0, ids);
            shared_hits += shared.1.access(ids);
            let replica = number * 7 % replicas;
            let (engine, lru) = &mut routed[replica];
            let own = observe(engine, ids);
            let hits = lru.access(ids);
            routed_hits += hits;
            tally.add(&share(hits, &outcome, Some(&own)));
        }
        let ledger = tally.ledger((capacity * replicas) as u64, capacity as u64, u64::MAX - 1);
        prop_assert_eq!((ledger.shared, ledger.routed), (Some(shared_hits), Some(routed_hits)));
        prop_assert_eq!(ledger.measured, routed_hits);
        let agreeing = tally.intervals().find(None).map_or(0, |found| found.requests);
        prop_assert_eq!(agreeing, tally.intervals().requests(), "each replica has the same capacity");
    }
}

#[test]
fn more_hits_than_the_log_shows_are_no_interval() {
    let run = Run { pages: 2, need: 5, step: 1, last_touched_by: 0 };
    let outcome = Outcome { runs: vec![run], page_accesses: 4, ..Outcome::default() };
    assert_eq!(MeasuredReading::of(3, &outcome), MeasuredReading::BeyondLog { pages: 1 });
    assert_eq!(MeasuredReading::of(2, &outcome), MeasuredReading::Between { at_least: 6, less_than: None });
    assert_eq!(
        MeasuredReading::of(1, &outcome),
        MeasuredReading::Between { at_least: 5, less_than: Some(6) }
    );
    assert_eq!(
        MeasuredReading::of(0, &outcome),
        MeasuredReading::Between { at_least: 0, less_than: Some(5) }
    );
}

#[test]
fn cached_tokens_count_their_full_pages() {
    let size = PageSize::new(4).expect("not zero");
    let pages = |cached, input, partial| {
        let event = RequestEvent {
            cached_tokens: CachedTokens::from(cached),
            input_tokens: Some(input),
            ..RequestEvent::default()
        };
        CachedPages::of(&event, size, partial, Ratio::ONE).map(|pages| pages.all)
    };
    assert_eq!(pages(None, 9, false), None);
    assert_eq!(pages(Some(9), 9, false), Some(2));
    assert_eq!(pages(Some(9), 9, true), Some(3), "the partial last page was cached too");
    assert_eq!(pages(Some(7), 9, true), Some(1));
}

#[test]
fn a_sample_counts_the_followed_pages_among_those_cached() {
    let ids: Vec<u64> = (0..4000).collect();
    let event = RequestEvent {
        page_ids: PageIds::from_slice(&ids),
        cached_tokens: CachedTokens::Stated(3000),
        ..RequestEvent::default()
    };
    let pages = CachedPages::of(&event, page_size(), false, Ratio::per_mille(250)).expect("said");
    assert_eq!(pages.all, 3000);
    assert!((650..850).contains(&pages.followed), "{} of 3000 at a quarter", pages.followed);
}

#[test]
fn each_loss_has_its_verdict() {
    let ledger = |unlimited: Need, shared: Need, routed: Need, measured: Need| Ledger {
        page_accesses: 1000,
        unlimited,
        shared: Some(shared),
        routed: Some(routed),
        measured,
    };
    let verdict = |ledger| Verdict::of(&ledger, 1.0, 0, 0);
    assert_eq!(verdict(ledger(900, 700, 690, 690)), Verdict::Capacity);
    assert_eq!(verdict(ledger(900, 890, 690, 690)), Verdict::Routing);
    assert_eq!(verdict(ledger(900, 890, 880, 690)), Verdict::Engine);
    assert_eq!(verdict(ledger(900, 899, 899, 898)), Verdict::Healthy);
    assert_eq!(verdict(ledger(200, 199, 199, 198)), Verdict::Workload);
    assert_eq!(verdict(ledger(900, 700, 690, 720)), Verdict::MoreCaches);
    assert_eq!(verdict(ledger(900, 700, 690, 720)).unless_crowded(0.02), Verdict::InFlight);
    assert_eq!(verdict(ledger(900, 700, 690, 720)).unless_crowded(0.001), Verdict::MoreCaches);
    assert_eq!(Verdict::IdScope.unless_crowded(0.5), Verdict::IdScope);
    assert_eq!(Verdict::Routing.unless_crowded(0.5), Verdict::Routing);
    assert_eq!(Verdict::of(&ledger(900, 890, 880, 690), 1.0, 0, 1), Verdict::Restarts);
    assert_eq!(Verdict::of(&ledger(900, 890, 880, 890), 1.0, 10, 0), Verdict::IdScope);
    assert_eq!(Verdict::of(&ledger(900, 890, 880, 690), 0.4, 0, 0), Verdict::NoCapacity);
    // Where routing loses most, caches of no common capacity are no news, and a log that names them need not do so.
    assert_eq!(Verdict::of(&ledger(900, 890, 500, 490), 0.4, 0, 0), Verdict::Routing);
    assert_eq!(Verdict::NoCapacity.advice(1).len(), Verdict::NoCapacity.advice(4).len() + 1);
}

/// Two requests show that it holds hundreds of pages, and twenty that came back after the restart seem to deny it.
#[test]
fn a_cache_that_hardly_evicts_and_was_restarted_is_not_told_too_small() {
    let session = |number: u64| -> Vec<u64> {
        [1, 2].into_iter().chain((0..8).map(|page| 100 * number + page)).collect()
    };
    let requests: Vec<_> = (1..=50).chain([1, 2]).chain(30..=49).chain(40..=49).map(session).collect();
    let restart_at = 52;
    let measured = replayed(&requests, &[restart_at], || PageLru::new(4000));
    let plain = measured.tally.intervals().find(None).expect("requests that can tell");
    assert!(plain.to.is_some_and(|to| to < 200), "the intervals alone say {plain:?}");
    let (found, told) = measured.agreed();
    let found = found.expect("requests that can tell");
    assert_eq!((found.from, found.to), (402, None), "all but system prompt and the page itself");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0.index, told[0].1), (restart_at as u64, 20));
    assert_eq!(
        found.requests,
        measured.tally.intervals().requests() - 20,
        "who does not agree is not counted"
    );
}

/// All but the first request after it find the two pages that all sessions begin with.
#[test]
fn a_restart_of_a_cache_with_a_watermark_is_told_with_all_its_misses() {
    let (requests, restart_at) = (sessions(500), 345);
    let made = || PageLru::with_watermark(150);
    let measured = replayed(&requests, &[restart_at], made);
    let undisturbed = replayed(&requests, &[], made);
    assert_eq!(undisturbed.agreed().1, [], "a watermark is no restart");
    let (found, told) = measured.agreed();
    let found = found.expect("requests that can tell");
    assert!((120..=150).contains(&found.from), "between watermark and capacity: {found:?}");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0.index, restart_at as u64);
    assert_eq!(told[0].1, 12, "one a session");
}
