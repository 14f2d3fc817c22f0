//! Attribution against a list of pages, one page and one span of time at a time.

use super::*;
use crate::engines::config::CacheConfig;
use crate::engines::profile::Profile;
use crate::estimate::config::PoolConfig;
use crate::questions::accounts::{Accounts, AccountsConfig, AccountsTally, MAX_NAMES};
use crate::questions::counters::Counter;
use crate::questions::lifetimes::naive::{StackModel, TimedRequest, profiles, timed_requests};
use crate::questions::reuse::Lifetimes;
use crate::request::outcome::Outcome;
use crate::units::PageCount;
use proptest::prelude::*;
use std::collections::BTreeMap;

const CAPACITIES: [u64; 6] = [1, 3, 7, 12, 20, 1000];

type Name = Option<String>;

fn name(tenant: Option<u8>) -> Name {
    tenant.map(|tenant| format!("tenant-{tenant}"))
}

/// One tenant, obviously counted.
#[derive(Debug, Clone, PartialEq, Default)]
struct Counts {
    requests: u64,
    accesses: u64,
    reusable: u64,
    hits: [u64; 6],
    held: [u128; 6],
    required: Vec<u64>,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.accesses += other.accesses;
        self.reusable += other.reusable;
        for at in 0..CAPACITIES.len() {
            self.hits[at] += other.hits[at];
            self.held[at] += other.held[at];
        }
        self.required.extend(&other.required);
        self.required.sort_unstable();
    }
}

fn config(profile: Profile) -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            profile,
            target_ratios: vec!["1".parse().expect("a share")],
            coverages: ["0.5", "1"].map(|share| share.parse().expect("a share")).into(),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    }
}

fn rules(config: &PoolConfig) -> AccountsConfig {
    AccountsConfig {
        order: config.cache.profile.spec().order,
        capacities: CAPACITIES.into(),
        targets: config.cache.target_ratios.clone(),
    }
}

/// What lies in each capacity from one moment to the next.
fn hold(naive: &mut BTreeMap<Name, Counts>, model: &StackModel, ms: i64) {
    for (at, capacity) in CAPACITIES.iter().enumerate() {
        for held in model.list.iter().take(*capacity as usize) {
            naive.entry(name(held.tenant)).or_default().held[at] += ms as u128;
        }
    }
}

fn follow(
    requests: &[TimedRequest],
    config: &PoolConfig,
    warm_up: usize,
) -> (Lifetimes, AccountsTally, BTreeMap<Name, Counts>) {
    let mut model = StackModel::new(config.cache.profile, 1 << 20);
    let mut lifetimes = Lifetimes::new(PageCount(1 << 20), None, Some(Accounts::new(rules(config))));
    let mut naive: BTreeMap<Name, Counts> = BTreeMap::new();
    let mut tally = AccountsTally::new(rules(config).shape());
    for (number, request) in requests.iter().enumerate() {
        let (before, list) = (model.now, std::mem::take(&mut model.list));
        model.list = list.clone();
        let (event_time, outcome, looked) = model.observe(request);
        let now = model.now.expect("a request");
        // What lay there while nothing came.
        let after = std::mem::replace(&mut model.list, list);
        if number > warm_up {
            hold(&mut naive, &model, now - before.unwrap_or(now));
        }
        model.list = after;
        let counted = number >= warm_up;
        let tenant = name(request.tenant);
        lifetimes.observe(event_time, tenant.as_deref(), counted, &outcome);
        count(&mut lifetimes, &mut tally);
        if !counted {
            continue;
        }
        let counts = naive.entry(tenant).or_default();
        let needs: Vec<u64> = looked.reusable().iter().map(|(need, _)| *need).collect();
        counts.requests += 1;
        counts.accesses += looked.prompt as u64;
        counts.reusable += needs.len() as u64;
        for (hits, capacity) in counts.hits.iter_mut().zip(CAPACITIES) {
            *hits += needs.iter().filter(|need| **need <= capacity).count() as u64;
        }
        counts.required.push(needs.iter().copied().max().unwrap_or(0));
        counts.required.sort_unstable();
    }
    (lifetimes, tally, naive)
}

/// Counts the latest request, if it counts.
fn count(lifetimes: &mut Lifetimes, tally: &mut AccountsTally) {
    let (mut retention, mut share) = (None, None);
    lifetimes.hand_over(&mut retention, &mut share);
    share.iter().for_each(|share| tally.add(share));
}

fn counts_of(result: &TenantEstimate) -> (u64, u64, u64, &[u64], Vec<u128>) {
    let TenantEstimate { requests, page_hits, cold_pages, capacity_page_hits, .. } = result;
    let held = result.page_milliseconds.iter().map(|held| u128::from(*held)).collect();
    (*requests, *page_hits, page_hits + cold_pages, capacity_page_hits, held)
}

fn check(result: &TenantEstimate, naive: &Counts) -> Result<(), TestCaseError> {
    let obvious = (naive.requests, naive.reusable, naive.accesses, &naive.hits[..], naive.held.to_vec());
    prop_assert_eq!(counts_of(result), obvious);
    for found in result.required.iter().flat_map(|required| &required.coverage) {
        let rank = found.coverage.nearest_rank(naive.requests);
        prop_assert_eq!(found.pages, rank.map(|rank| naive.required[rank as usize - 1]));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_tenant_equals_counting_page_by_page(
        requests in timed_requests(60), profile in profiles(), warm_up in 0usize..10,
    ) {
        let config = config(profile);
        let (lifetimes, tally, naive) = follow(&requests, &config, warm_up);
        let results = lifetimes.by_tenant(&tally, 100, (&config.cache, None));
        for result in &results {
            prop_assert_eq!(result.tenants, None);
            let counts = naive.get(&result.tenant).cloned().unwrap_or_default();
            check(result, &counts)?;
        }
        let told = naive.values().filter(|counts| counts.requests > 0).count();
        prop_assert!(results.len() >= told);
        let ranks = results.iter().map(|result| result.page_milliseconds.last().copied());
        prop_assert!(ranks.collect::<Vec<_>>().is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn the_others_are_all_that_is_not_told(
        requests in timed_requests(60), profile in profiles(), most in 0usize..4,
    ) {
        let config = config(profile);
        let (lifetimes, tally, naive) = follow(&requests, &config, 0);
        let results = lifetimes.by_tenant(&tally, most, (&config.cache, None));
        let (told, others): (Vec<_>, Vec<_>) = results.iter().partition(|result| result.tenants.is_none());
        prop_assert!(told.len() <= most && others.len() <= 1);
        let mut left = naive.clone();
        told.iter().for_each(|result| drop(left.remove(&result.tenant)));
        let mut sum = Counts::default();
        left.values().for_each(|counts| sum.add(counts));
        prop_assert_eq!(others.is_empty(), left.is_empty());
        if let Some(others) = others.first() {
            prop_assert_eq!(others.tenants, Some(left.len() as u64));
            check(others, &sum)?;
        }
        let mut pool = Counts::default();
        naive.values().for_each(|counts| pool.add(counts));
        let held = |at: usize| results.iter().map(|result| u128::from(result.page_milliseconds[at])).sum::<u128>();
        let held: Vec<u128> = (0..CAPACITIES.len()).map(held).collect();
        prop_assert_eq!(held, pool.held.to_vec(), "sums are the pool's");
    }
}

#[test]
fn tenants_beyond_the_limit_are_accounted_together() {
    let config = config(Profile::Paper);
    let mut lifetimes = Lifetimes::new(PageCount(1 << 20), None, Some(Accounts::new(rules(&config))));
    let mut tally = AccountsTally::new(rules(&config).shape());
    for number in 0..MAX_NAMES + 9 {
        let name = format!("t{number}");
        let outcome = Outcome { page_accesses: 2, new_pages: 2, ..Outcome::default() };
        let event_time = crate::units::EventTime(number as i64);
        lifetimes.observe(event_time, Some(&name), true, &outcome);
        count(&mut lifetimes, &mut tally);
    }
    let results = lifetimes.by_tenant(&tally, usize::MAX, (&config.cache, None));
    assert_eq!(results.len(), MAX_NAMES + 1);
    let last = results.last().expect("the others");
    assert_eq!((last.tenants, last.requests, last.cold_pages), (Some(0), 9, 18));
}
