//! The tally against sums over single runs, restart by restart.

use super::*;
use kvset_core::questions::worth::{PrefillRate, Prices};
use kvset_core::request::outcome::{Outcome, Run};
use proptest::prelude::*;

const PAGE: u64 = 16;

const SIZES: [u64; 3] = [5, 40, 300];

/// A request: milliseconds since the one before, which may be negative, whether it counts, and its runs by pages, need, step,
/// and how many requests back they were used last.
type Drawn = (i64, bool, Vec<(u32, u64, u32, u64)>);

/// The same as the tally is given it, with the time that counts: that of the latest request so far.
struct Arrived {
    stated_ms: i64,
    time_ms: i64,
    counted: bool,
    outcome: Outcome,
}

fn arrived(drawn: &[Drawn]) -> Vec<Arrived> {
    let (mut time_ms, mut latest, mut all) = (0_i64, i64::MIN, Vec::new());
    for (number, (step, counted, runs)) in (0_u64..).zip(drawn) {
        time_ms += step;
        latest = latest.max(time_ms);
        let (mut need, mut used) = (0, number);
        let mut outcome = Outcome::default();
        for (pages, more, step, back) in runs.iter().filter(|_| number > 0) {
            (need, used) = (need + more, used.saturating_sub(*back));
            let last_touched_by = used.min(number - 1);
            outcome.runs.push(Run { pages: *pages, need, step: *step, last_touched_by });
            need += u64::from(pages * step);
        }
        all.push(Arrived { stated_ms: time_ms, time_ms: latest, counted: *counted, outcome });
    }
    all
}

/// Tokens that a restart at this time loses, with the minutes in which it does.
fn lost(all: &[Arrived], size: u64, time_ms: i64) -> Vec<(i64, u64)> {
    let later = all.iter().filter(|request| request.counted && request.time_ms >= time_ms);
    let of = |request: &Arrived| {
        let is_lost = |run: &&Run| all[run.last_touched_by as usize].time_ms < time_ms;
        let pages: u64 =
            request.outcome.runs.iter().filter(is_lost).map(|run| u64::from(run.hits_at(size))).sum();
        ((request.time_ms - time_ms) / MINUTE_MS + 1, pages * PAGE)
    };
    later.map(of).collect()
}

proptest! {
    #[test]
    fn restarts_lose_what_single_runs_say(
        drawn in prop::collection::vec(
            (-1_800_000_i64..9_000_000, any::<bool>(), prop::collection::vec((1u32..9, 1u64..60, 0u32..2, 1u64..9), 0..4)),
            1..40,
        ),
    ) {
        let all = arrived(&drawn);
        let rate: PrefillRate = "1000".parse().expect("a rate");
        let mut tally = RestartsTally::new(Some(rate), PAGE, SIZES.to_vec());
        for (number, request) in (0_u64..).zip(&all) {
            let found = FoundPages {
                arrival_ms: request.stated_ms,
                number,
                counted: request.counted,
                prompt_tokens: 1 << 20,
                outcome: &request.outcome,
            };
            tally.add(found).expect("few");
        }
        let sizes = SIZES.map(|pages| RestartsSize { pages, bytes: None, is_provisioned: false, is_recommended: false });
        let result = RestartsResult::of(tally, &sizes, HourClock::Utc, Prices::default());
        let since = all.iter().find(|request| request.counted).map(|request| request.time_ms);
        let hours = since.map_or(0..0, |since| {
            since.div_euclid(HOUR_MS) + 1..all[all.len() - 1].time_ms.div_euclid(HOUR_MS) + 1
        });
        for at in &result.sizes {
            prop_assert_eq!(at.restarts.len() as i64, hours.end - hours.start);
            for (hour, restart) in hours.clone().zip(&at.restarts) {
                let losses = lost(&all, at.pages, hour * HOUR_MS);
                let total: u64 = losses.iter().map(|(_, tokens)| tokens).sum();
                prop_assert_eq!((restart.time_ms, restart.tokens), (hour * HOUR_MS, total));
                let seconds = restart.prefill_seconds.expect("a rate");
                prop_assert!((seconds - total as f64 / 1000.0).abs() < 1e-6, "{} of {}", seconds, total);
                let mut sum = 0;
                let warm = losses.iter().find(|(_, tokens)| {
                    sum += tokens;
                    total > 0 && sum * 100 >= total * WARM_PERCENT
                });
                prop_assert_eq!(restart.warm_minutes.map(i64::from), warm.map(|(minutes, _)| *minutes));
            }
            let days: u64 = at.hours.iter().map(|hour| hour.restarts).sum();
            prop_assert_eq!(days, at.restarts.len() as u64);
        }
    }
}

#[test]
fn a_log_of_more_than_ten_years_is_refused() {
    let outcome = Outcome::default();
    let request =
        |arrival_ms| FoundPages { arrival_ms, number: 0, counted: true, prompt_tokens: 0, outcome: &outcome };
    let mut tally = RestartsTally::new(None, PAGE, SIZES.to_vec());
    tally.add(request(0)).expect("the first");
    tally.add(request(9 * 365 * 24 * HOUR_MS)).expect("nine years");
    assert_eq!(tally.add(request(i64::MAX)), Err(TooManyRestarts::Hours));
}
