//! `cargo bench --bench long_haul`: a simulated month of agentic traffic, a billion page accesses and more,
//! through one stack under a bound. Speed and memory should be those of the beginning.
//!
//! The time of an interval is the fastest of its parts a page, so that a busy machine is not mistaken for
//! a slower engine. Generating the traffic is not timed.

use kvset::core::outcome::Outcome;
use kvset::core::pages::{PageIds, Scope};
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use kvset::workload::{Generator, Workload};
use std::time::{Duration, Instant};

const DAYS: u64 = 30;
const DAY_MS: u64 = 86_400_000;

/// Page accesses timed as one part.
const PART_PAGES: u64 = 1_000_000;

/// One interval of the month.
#[derive(Default)]
struct Interval {
    requests: u64,
    pages: u64,
    /// Pages a second of each part.
    rates: Vec<f64>,
}

impl Interval {
    /// The rate nine parts in ten do not reach: what the engine does when nobody disturbs it.
    fn rate(&mut self) -> f64 {
        self.rates.sort_by(f64::total_cmp);
        self.rates.get(self.rates.len() * 9 / 10).copied().unwrap_or_default()
    }
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

fn main() {
    let bound = 2_000_000;
    let mut stack = Stack::new(StackConfig {
        order: Order::RootFirst,
        max_tracked_pages: PageCount(bound),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    });
    let mut outcome = Outcome::default();
    let mut traffic = Generator::new(workload()).expect("parameters in range").peekable();
    println!("a month under a bound of {bound} pages");
    println!(
        "{:>6} {:>10} {:>15} {:>12} {:>10} {:>12} {:>9}",
        "day", "requests", "page accesses", "M pages/s", "of day 3", "tracked", "MiB"
    );
    let (mut first_full, mut total) = (None, 0);
    for day in 1..=DAYS {
        let end_ms = (day * DAY_MS) as i64;
        let mut interval = Interval::default();
        while traffic.peek().is_some_and(|next| next.event_time.0 < end_ms) {
            let (mut part, mut pages) = (Vec::new(), 0);
            while pages < PART_PAGES
                && let Some(request) = traffic.next_if(|next| next.event_time.0 < end_ms)
            {
                pages += request.page_ids.len() as u64;
                part.push(request.page_ids);
            }
            let elapsed = run(&mut stack, &part, &mut outcome);
            interval.requests += part.len() as u64;
            interval.pages += pages;
            interval.rates.push(pages as f64 / elapsed.as_secs_f64() / 1e6);
        }
        total += interval.pages;
        let rate = interval.rate();
        // The bound is reached on the second day; only from then on does anything have to be forgotten.
        if day == 3 {
            first_full = Some(rate);
        }
        let share = first_full.map_or("-".to_owned(), |first| format!("{:.2}", rate / first));
        println!(
            "{day:>6} {:>10} {:>15} {rate:>12.0} {share:>10} {:>12} {:>9.1}",
            interval.requests,
            interval.pages,
            stack.tracked_pages().0,
            stack.memory_bytes() as f64 / f64::from(1 << 20),
        );
    }
    println!("{total} page accesses");
}
