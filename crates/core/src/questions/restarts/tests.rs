//! The tally against sums over single runs, restart by restart.

use super::*;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::{Engine, EngineConfig};
use crate::questions::costs::{PrefillCosts, Prices};
use crate::questions::counters::{Counter, Share};
use crate::questions::question::{Horizon, ProvisionedCache, Question, QuestionPool};
use crate::request::event::RequestEvent;
use crate::request::outcome::{Outcome, Run};
use crate::units::{EventTime, PageSize};
use proptest::prelude::*;

const PAGE: u64 = 16;

const SIZES: [u64; 3] = [5, 40, 300];

/// A request: milliseconds since the one before, which may be negative, and its runs by pages, need, step, and how many
/// requests back they were used last.
type Drawn = (i64, Vec<(u32, u64, u32, u64)>);

/// The same with the time that it states, and the one that counts: that of the latest request so far.
struct Arrived {
    stated_ms: i64,
    time_ms: i64,
    outcome: Outcome,
}

fn arrived(drawn: &[Drawn]) -> Vec<Arrived> {
    let (mut time_ms, mut latest, mut all) = (0_i64, i64::MIN, Vec::new());
    for (number, (step, runs)) in (0_u64..).zip(drawn) {
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
        all.push(Arrived { stated_ms: time_ms, time_ms: latest, outcome });
    }
    all
}

/// Tokens that a request loses where the cache was emptied at this time.
fn lost_by(all: &[Arrived], request: &Arrived, size: u64, emptied_ms: i64) -> u64 {
    let is_lost = |run: &&Run| all[run.last_touched_by as usize].time_ms < emptied_ms;
    request.outcome.runs.iter().filter(is_lost).map(|run| u64::from(run.hits_at(size)) * PAGE).sum()
}

/// Sums of what is lost, by minutes since the cache was emptied: the tokens, and when it is warm.
fn sums(losses: &[(i64, u64)]) -> (u64, Option<u32>) {
    let total: u64 = losses.iter().map(|(_, tokens)| tokens).sum();
    let within = |minutes: i64| -> u64 {
        losses.iter().filter(|(at, _)| *at < minutes).map(|(_, tokens)| tokens).sum()
    };
    let warm =
        (1..=MINUTES_A_DAY).find(|minutes| total > 0 && within(*minutes) * 100 >= total * WARM_PERCENT);
    (total, warm.map(|minutes| minutes as u32))
}

/// A pool that is asked, for as long as `then` takes.
fn with_pool<T>(then: impl FnOnce(QuestionPool<'_>) -> T) -> T {
    let prefill_rate = "1000".parse().expect("a rate");
    let worth = PrefillCosts { prefill_rate, prices: Prices::default() };
    let (cache, provisioned) = (CacheConfig::default(), "40p".parse().ok());
    then(QuestionPool {
        cache: ProvisionedCache { cache: &cache, provisioned: provisioned.as_ref() },
        costs: Some(&worth),
        capacities: &[SIZES[0], SIZES[2]],
        page_size: PageSize::new(PAGE as u32).expect("a page size"),
        windows: &[],
        horizon: Horizon::Endless,
    })
}

/// What each request adds, in windows of a log that goes on or of one that ends.
fn tally(all: &[Arrived], shape: (usize, Horizon), parts: usize) -> RestartsTally {
    let mut observer = with_pool(RestartsObserver::at);
    let mut tallies = vec![RestartsTally::new(shape); parts];
    for (number, request) in (0_u64..).zip(all) {
        let event = RequestEvent {
            event_time: EventTime(request.stated_ms),
            input_tokens: Some(1 << 20),
            ..RequestEvent::default()
        };
        let page_size = PageSize::new(PAGE as u32).expect("a page size");
        let share = observer.observe(&event, number, page_size, &request.outcome);
        assert!(share.is_sound(shape) && share.time_ms() == request.time_ms);
        tallies[number as usize % parts].add(&share);
    }
    let engine = Engine::new(EngineConfig::default());
    let resumed = with_pool(|pool| observer.clone().resumed(observer.clone(), pool, &engine));
    assert_eq!(resumed, Some(observer));
    assert!(tallies.iter().all(|tally| tally.is_sound(shape)));
    RestartsTally::merged(tallies.iter()).expect("one at least")
}

proptest! {
    #[test]
    fn a_cache_emptied_at_an_hour_loses_what_single_runs_say(
        drawn in prop::collection::vec(
            (-1_800_000_i64..20_000_000, prop::collection::vec((1u32..9, 1u64..60, 0u32..2, 1u64..12), 0..4)), 1..40,
        ),
        parts in 1usize..4,
    ) {
        let all = arrived(&drawn);
        let (of_window, of_log) = ((3, Horizon::Endless), (3, Horizon::Finite));
        prop_assert_eq!(tally(&all, of_window, 1), tally(&all, of_window, parts));
        let (window, log) = (tally(&all, of_window, parts), tally(&all, of_log, parts));
        prop_assert!(!window.is_sound(of_log) && !log.is_sound(of_window));
        let last = all[all.len() - 1].time_ms;
        for (place, size) in SIZES.into_iter().enumerate() {
            for hour in 0..HOURS_A_DAY {
                // Emptied every day: of each request the latest time counts.
                let loss = |request: &Arrived| {
                    let passed = (request.time_ms - hour * HOUR_MS).rem_euclid(HOURS_A_DAY * HOUR_MS);
                    (passed / MINUTE_MS, lost_by(&all, request, size, request.time_ms - passed))
                };
                let (tokens, warm) = sums(&all.iter().map(loss).collect::<Vec<_>>());
                let lost = window.lost(place, std::iter::once(hour));
                prop_assert_eq!((lost.0, lost.2), (tokens, warm));
                prop_assert_eq!(lost.1, tokens * 1_000_000);
                let days = 0..=last.div_euclid(HOURS_A_DAY * HOUR_MS) + 1;
                let each = days.map(|day| day * HOURS_A_DAY + hour);
                prop_assert_eq!(log.lost(place, each), lost, "of all restarts at the hour");
            }
            // Emptied once: of the day behind it.
            for hour in all[0].time_ms.div_euclid(HOUR_MS)..=last.div_euclid(HOUR_MS) {
                let day = |request: &&Arrived| {
                    (0..HOURS_A_DAY * HOUR_MS).contains(&(request.time_ms - hour * HOUR_MS))
                };
                let loss = |request: &Arrived| {
                    let minutes = (request.time_ms - hour * HOUR_MS) / MINUTE_MS;
                    (minutes, lost_by(&all, request, size, hour * HOUR_MS))
                };
                let expected = sums(&all.iter().filter(day).map(loss).collect::<Vec<_>>());
                let lost = log.lost(place, std::iter::once(hour));
                prop_assert_eq!((lost.0, lost.2), expected);
            }
        }
    }
}
