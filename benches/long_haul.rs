//! `cargo bench --bench long_haul`: a simulated month of agentic traffic, a billion page accesses and more,
//! through one stack under a bound. Speed and memory should be those of the beginning.
//!
//! What the old stack does, one that began two days before does too, by turns in parts of a million pages:
//! it is as the old one was at the beginning, and meets the same requests on the same machine in the same
//! second. The share is the median of the parts' ratios. Generating the traffic is not timed.

use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::workload::{Generator, Workload};
use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::{Duration, Instant};

const DAYS: u64 = 30;
const DAY_MS: u64 = 86_400_000;

/// Pages that a stack answers for.
const BOUND: u64 = 2_000_000;

/// Page accesses timed as one part.
const PART_PAGES: u64 = 1_000_000;

/// Days a stack takes to reach its bound, from which on it has to forget.
const GROWING_DAYS: usize = 2;

/// One day of the month.
#[derive(Default)]
struct Day {
    requests: usize,
    pages: u64,
    /// What the old stack took for each part, and the young one, if there is one that is full.
    parts: Vec<(Duration, Option<Duration>)>,
}

impl Day {
    /// Pages a second of the old stack, in millions.
    fn rate(&self) -> f64 {
        let elapsed: Duration = self.parts.iter().map(|part| part.0).sum();
        self.pages as f64 / elapsed.as_secs_f64() / 1e6
    }

    /// The old stack's speed as a share of the young one's.
    fn share(&self) -> Option<f64> {
        let ratio =
            |&(old, young): &(Duration, Option<Duration>)| Some(young?.as_secs_f64() / old.as_secs_f64());
        median(self.parts.iter().filter_map(ratio).collect())
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The month's traffic: enough sessions for a billion page accesses.
fn workload() -> Workload {
    Workload { sessions_per_day: 1_800, max_sessions: 4_000, ..Workload::default() }
}

/// Times a part of the traffic held in memory.
fn run(stack: &mut Stack, requests: &[Vec<u64>], outcome: &mut Outcome) -> Duration {
    let started = Instant::now();
    for ids in requests {
        let pages = PageIds::from_slice(ids);
        let access = Access { scope: Scope::GLOBAL, pages, lookup_limit: ids.len(), ..Access::default() };
        stack.access(&access, outcome).expect("violations are only reported");
    }
    started.elapsed()
}

fn stack() -> Stack {
    Stack::new(StackConfig {
        order: Order::RootFirst,
        max_tracked_pages: PageCount(BOUND),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    })
}

/// The stack that lives for the whole month, and those that began in the last days.
struct Stacks {
    old: Stack,
    /// From the youngest to the one that is full.
    young: VecDeque<Stack>,
    outcome: Outcome,
}

impl Stacks {
    fn begin_day(&mut self) {
        self.young.push_front(stack());
        self.young.truncate(GROWING_DAYS + 1);
    }

    /// Has all stacks meet these requests; returns what the old one took, and the full young one.
    fn run(&mut self, requests: &[Vec<u64>], old_first: bool) -> (Duration, Option<Duration>) {
        let Self { old, young, outcome } = self;
        let young = young.make_contiguous();
        let (growing, full) = young.split_at_mut(GROWING_DAYS.min(young.len()));
        for stack in growing {
            run(stack, requests, outcome);
        }
        let before = old_first.then(|| run(old, requests, outcome));
        let compared = full.first_mut().map(|stack| run(stack, requests, outcome));
        (before.unwrap_or_else(|| run(old, requests, outcome)), compared)
    }
}

/// Runs a day's traffic through all stacks, a part at a time.
fn run_day(traffic: &mut Peekable<Generator>, end_ms: i64, stacks: &mut Stacks) -> Day {
    let mut day = Day::default();
    while traffic.peek().is_some_and(|next| next.event_time.0 < end_ms) {
        let (mut part, mut pages) = (Vec::new(), 0);
        while pages < PART_PAGES
            && let Some(request) = traffic.next_if(|next| next.event_time.0 < end_ms)
        {
            pages += request.page_ids.len() as u64;
            part.push(request.page_ids);
        }
        day.requests += part.len();
        day.pages += pages;
        let old_first = day.parts.len().is_multiple_of(2);
        day.parts.push(stacks.run(&part, old_first));
    }
    day
}

fn main() {
    let mut stacks = Stacks { old: stack(), young: VecDeque::new(), outcome: Outcome::default() };
    let mut traffic = Generator::new(workload()).expect("parameters in range").peekable();
    println!("a month under a bound of {BOUND} pages");
    println!(
        "{:>4} {:>10} {:>15} {:>12} {:>20} {:>12} {:>9}",
        "day", "requests", "page accesses", "M pages/s", "of a young stack's", "tracked", "MiB"
    );
    let (mut total, mut shares) = (0, Vec::new());
    for number in 1..=DAYS {
        stacks.begin_day();
        let day = run_day(&mut traffic, (number * DAY_MS) as i64, &mut stacks);
        total += day.pages;
        shares.extend(day.share());
        println!(
            "{number:>4} {:>10} {:>15} {:>12.0} {:>20} {:>12} {:>9.1}",
            day.requests,
            day.pages,
            day.rate(),
            day.share().map_or("-".to_owned(), |share| format!("{share:.2}")),
            stacks.old.tracked_pages().0,
            stacks.old.heap_bytes() as f64 / f64::from(1 << 20),
        );
    }
    let last = shares.split_off(shares.len().saturating_sub(7));
    let share = median(last).unwrap_or_default();
    println!("{total} page accesses; in the last week {share:.2} of a young stack's speed");
}
