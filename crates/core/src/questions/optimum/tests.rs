//! The optimum against one that looks at every page and all the future, and against no cache doing better.

use super::*;
use crate::engines::profile::Profile;
use crate::questions::counters::Counter;
use crate::questions::lifetimes::naive::{Looked, StackModel, TimedRequest, profiles, timed_requests};
use crate::questions::request_runs::NumberedRequest;
use crate::request::outcome::Outcome;
use crate::stack::naive::NaivePage;
use crate::units::EventTime;
use proptest::prelude::*;
use std::collections::HashMap;

/// MIN with bypass, a page at a time: hits from the request `counted` on.
fn naive(log: &[Looked], capacity: usize, counted: usize) -> u64 {
    let mut kept: HashMap<NaivePage, (usize, usize)> = HashMap::new();
    let mut hits = 0;
    for (at, looked) in log.iter().enumerate() {
        let found = looked.pages[..looked.limit].iter().take_while(|(page, _)| kept.contains_key(page));
        hits += if at >= counted { found.count() as u64 } else { 0 };
        for (depth, (page, _)) in looked.pages.iter().enumerate() {
            kept.remove(page);
            let mut later = log.iter().enumerate().skip(at + 1);
            let next = later.find_map(|(when, later)| {
                let place = later.pages.iter().position(|(other, _)| other == page)?;
                Some((when, place < later.limit))
            });
            // What is computed anew by its next user need not be kept for it.
            if let Some((when, true)) = next {
                kept.insert(page.clone(), (when, depth));
            }
        }
        while kept.len() > capacity {
            let last = kept.iter().max_by_key(|(_, next)| **next).map(|(page, _)| page.clone());
            kept.remove(&last.expect("more than none"));
        }
    }
    hits
}

/// Adds the next request to a log.
fn push(log: &mut RunLog, number: usize, outcome: &Outcome) {
    let request = NumberedRequest { number: number as u64, at: EventTime(0), distinct: 0, new_pages: 0 };
    log.observe(request, outcome);
}

fn logged(requests: &[TimedRequest], profile: Profile) -> (ReuseLog, Vec<Looked>) {
    let (mut model, mut log) = (StackModel::new(profile, 1 << 20), RunLog::new(usize::MAX));
    let mut looked = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let (_, outcome, found) = model.observe(request);
        push(&mut log, number, &outcome);
        looked.push(found);
    }
    let log = ReuseLog::of(&log).expect("nothing is forgotten");
    assert_eq!(log.requests() as usize, 1 + looked.len());
    (log, looked)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn equals_looking_at_every_page_and_all_the_future(
        requests in timed_requests(40), profile in profiles(), counted in 0u32..10, cut in (0u32..40, 0u32..40),
    ) {
        let (log, looked) = logged(&requests, profile);
        let capacities: Vec<u64> = (0..40).collect();
        let naive_of = |looked: &[Looked], counted: u32| -> Vec<u64> {
            capacities.iter().map(|capacity| naive(looked, *capacity as usize, counted as usize)).collect()
        };
        let curve = log.within_window().curve(&capacities, 1 + counted);
        prop_assert_eq!(&curve, &naive_of(&looked, counted));
        let all = requests.len() as u32;
        let (from, to) = (cut.0.min(cut.1).min(all), cut.0.max(cut.1).min(all));
        let within = log.future(1 + from..1 + to).curve(&capacities, 1 + from);
        prop_assert_eq!(within, naive_of(&looked[from as usize..to as usize], 0), "of a window");
        let future = log.within_window();
        for hits in [0, 1, curve[5], curve[39], curve[39] + 1] {
            let least = curve.iter().position(|found| *found >= hits).map(|capacity| capacity as u64);
            let found = future.least_capacity(hits, 1 + counted);
            prop_assert!(found == least || least.is_none(), "{:?} instead of {:?}", found, least);
        }
    }

    #[test]
    fn no_lru_finds_more(requests in timed_requests(40), profile in profiles()) {
        let (log, looked) = logged(&requests, profile);
        for capacity in 0..30 {
            let needs = looked.iter().flat_map(Looked::reusable);
            let lru = needs.filter(|(need, _)| *need <= capacity).count() as u64;
            prop_assert!(log.within_window().hits_at(capacity, 0) >= lru);
        }
    }
}

#[test]
fn what_the_stack_forgot_leaves_the_log_incomplete() {
    let mut log = RunLog::new(usize::MAX);
    let run =
        |need, last_touched_by| crate::request::outcome::Run { pages: 1, need, step: 0, last_touched_by };
    let outcome = |run| Outcome { runs: vec![run], page_accesses: 1, ..Outcome::default() };
    push(&mut log, 0, &Outcome { page_accesses: 1, new_pages: 1, ..Outcome::default() });
    push(&mut log, 1, &outcome(run(1, 0)));
    assert!(ReuseLog::of(&log).is_some());
    push(&mut log, 2, &outcome(run(crate::request::outcome::BEYOND, 0)));
    assert!(ReuseLog::of(&log).is_none());
}
