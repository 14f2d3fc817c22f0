//! `cargo bench --bench known_runs`: the time of a request of 10,000 known pages as a multiple of one of
//! 1,000, both of them one contiguous run of a large stack.
//!
//! Of ids that their maker declares to be chained, a few tell of all (`ids_chained` of a request event). A request of
//! others must be read whole to know that its pages are known, so the floor printed alongside is what reading the same
//! ids costs. Sessions take turns over more pages than any cache holds.

use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, MAX_TRACKED_PAGES, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::pages::{PageIds, Scope, mix};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Pages in the stack, each session a run of its own.
const STACK_PAGES: u64 = 16_000_000;
const ROUNDS: usize = 5;

/// The ids of a session.
fn session(number: u64, pages: u64) -> Vec<u64> {
    (0..pages).map(|page| mix((number << 20) | page)).collect()
}

fn access(stack: &mut Stack, ids: &[u64], ids_chained: bool, outcome: &mut Outcome) {
    let pages = PageIds::from_slice(ids);
    let (scope, lookup_limit) = (Scope::GLOBAL, ids.len());
    let access = Access { scope, pages, ids_chained, lookup_limit, ..Access::default() };
    stack.access(&access, outcome).expect("violations are only reported");
}

/// Time of one known request, and of only reading its ids, each the best of some rounds over all sessions.
/// A request's ids have just been written when it arrives, as a decoder leaves them.
fn time(pages: u64, ids_chained: bool) -> (Duration, Duration) {
    let mut stack = Stack::new(StackConfig {
        order: Order::RootFirst,
        max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    });
    let mut outcome = Outcome::default();
    let sessions = STACK_PAGES / pages;
    for number in 0..sessions {
        access(&mut stack, &session(number, pages), ids_chained, &mut outcome);
    }
    let (mut best, mut floor) = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        let (mut spent, mut reading) = (Duration::ZERO, Duration::ZERO);
        for turn in 0..sessions {
            // Not in the order they came, so that no next label is the neighbour of the last.
            let number = (turn * 7919 + round as u64) % sessions;
            let ids = session(number, pages);
            let started = Instant::now();
            black_box(ids.iter().fold(0, |sum: u64, id| sum ^ id));
            reading += started.elapsed();
            let started = Instant::now();
            access(&mut stack, &ids, ids_chained, &mut outcome);
            spent += started.elapsed();
            assert_eq!(outcome.reusable_prefix(), pages, "all pages are known");
        }
        best = best.min(spent / sessions as u32);
        floor = floor.min(reading / sessions as u32);
    }
    (best, floor)
}

fn main() {
    println!("known requests in a stack of {STACK_PAGES} pages, one run each");
    for (name, ids_chained) in [("ids declared chained", true), ("other ids", false)] {
        println!(
            "\n{:>8} {:>14} {:>12} {:>18}   {name}",
            "pages", "a request", "of 1,000", "reading the ids"
        );
        let mut thousand = None;
        for pages in [100, 1_000, 2_000, 5_000, 10_000] {
            let (request, floor) = time(pages, ids_chained);
            if pages == 1_000 {
                thousand = Some(request);
            }
            let ratio = thousand.map_or("-".to_owned(), |base| {
                format!("{:.2} x", request.as_secs_f64() / base.as_secs_f64())
            });
            println!(
                "{pages:>8} {:>14} {ratio:>12} {:>18}",
                format!("{request:.2?}"),
                format!("{floor:.2?}")
            );
        }
    }
}
