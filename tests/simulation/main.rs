//! A seeded simulation of brokers, clock, disk and processes: whole lives of the service with crashes
//! at every step, each ending in "committed output = f(log)" (docs/design.md, section 4).
//!
//! It drives the service's own coordinator, partitions, tasks, commit protocol, checkpoints, recovery and
//! snapshot store; only what lies outside of the process is simulated. One thread lives a life, so a
//! seed gives the same life every time.
//!
//! Everything that the coverage lists happens in a full run; `.ci/run` demands one.
//!
//! ```text
//! KVSET_SEEDS=10000 cargo test --test simulation      # a full run
//! KVSET_SEEDS=100000 cargo test --test simulation     # more lives
//! KVSET_SEED=123 cargo test --test simulation         # one life, with its log
//! ```

mod broker;
mod chance;
mod coverage;
mod disk;
mod fate;
mod group;
mod input;
mod life;
mod member;
mod sink;
mod watch;
mod worker_pool;
mod world;

use input::Input;
use life::{Outcome, live};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use world::Tally;

/// Lives of a run that asks for nothing else: in them happens every failure of the list, and every crash but one.
const SEEDS: u64 = 2_000;
/// Lives in which all of it must happen, whatever else changes.
const FULL: u64 = 10_000;
/// Different logs; making one costs as much as some lives.
const INPUTS: u64 = 64;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: expected a number")))
}

/// One life; a panic in it is a broken promise.
fn outcome(seed: u64, inputs: &[Arc<Input>], traced: bool) -> Outcome {
    let input = Arc::clone(&inputs[(seed % INPUTS) as usize]);
    catch_unwind(AssertUnwindSafe(|| live(seed, input, traced))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let broken = Some(format!("panicked: {}", text.unwrap_or_default()));
        Outcome { broken, tally: Tally::new(), trace: Vec::new() }
    })
}

fn inputs() -> Vec<Arc<Input>> {
    (0..INPUTS).map(|seed| Arc::new(Input::generate(seed))).collect()
}

/// The first broken promise, by seed, and how often everything happened.
fn run(seeds: u64, inputs: &[Arc<Input>]) -> (Option<(u64, String)>, Tally) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let total = Mutex::new((None::<(u64, String)>, Tally::new()));
    std::thread::scope(|scope| {
        for first in 0..threads {
            let total = &total;
            scope.spawn(move || {
                let mut tally = Tally::new();
                for seed in (first..seeds).step_by(threads as usize) {
                    let Outcome { broken, tally: of_life, .. } = outcome(seed, inputs, false);
                    of_life.into_iter().for_each(|(kind, times)| *tally.entry(kind).or_default() += times);
                    if let Some(reason) = broken {
                        let mut total = total.lock().expect("no panic under the lock");
                        if total.0.as_ref().is_none_or(|(found, _)| seed < *found) {
                            total.0 = Some((seed, reason));
                        }
                        break;
                    }
                }
                let mut total = total.lock().expect("no panic under the lock");
                tally.into_iter().for_each(|(kind, times)| *total.1.entry(kind).or_default() += times);
            });
        }
    });
    total.into_inner().expect("no panic under the lock")
}

/// Tells a life again, with its log.
fn tell(seed: u64, inputs: &[Arc<Input>]) -> Option<String> {
    let Outcome { broken, trace, .. } = outcome(seed, inputs, true);
    println!("the life of seed {seed}:");
    trace.iter().for_each(|line| println!("{line}"));
    broken
}

#[test]
fn whatever_happens_the_committed_output_is_a_function_of_the_log() {
    let inputs = inputs();
    if let Some(seed) = number("KVSET_SEED") {
        let broken = tell(seed, &inputs);
        assert_eq!(broken, None, "seed {seed}");
        return;
    }
    let seeds = number("KVSET_SEEDS").unwrap_or(SEEDS);
    let (broken, tally) = run(seeds, &inputs);
    println!("{seeds} lives");
    coverage::print(&tally);
    if let Some((seed, reason)) = broken {
        let again = tell(seed, &inputs);
        assert_eq!(again.as_ref(), Some(&reason), "seed {seed} must give the same life every time");
        panic!("seed {seed}: {reason}\nlive it again: KVSET_SEED={seed} cargo test --test simulation");
    }
    // Fewer lives may leave something out, and a change that moves their chances would be blamed for it.
    let missing = if seeds < FULL { Vec::new() } else { coverage::missing(&tally) };
    assert!(missing.is_empty(), "never happened in {seeds} lives: {missing:?}");
}

/// The group forgets a member while its brokers are away; the client joins again by itself and then calls what it
/// held moving, not lost. What was pending had been published by another member meanwhile.
#[test]
fn a_member_that_joins_again_unnoticed_publishes_nothing_from_before() {
    let inputs = inputs();
    let rejoined: Vec<(u64, Option<String>)> = (0..500)
        .map(|seed| (seed, outcome(seed, &inputs, false)))
        .filter(|(_, Outcome { tally, .. })| tally.contains_key(&("rebalance", "joined again unnoticed")))
        .map(|(seed, Outcome { broken, .. })| (seed, broken))
        .collect();
    assert!(rejoined.len() > 10, "{} lives", rejoined.len());
    for (seed, broken) in rejoined {
        assert_eq!(broken, None, "seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_life_every_time() {
    let inputs = inputs();
    for seed in 0..50 {
        let [one, other] = [(); 2].map(|()| outcome(seed, &inputs, true));
        assert!(!one.trace.is_empty());
        assert_eq!(one.trace, other.trace, "seed {seed}");
    }
}
