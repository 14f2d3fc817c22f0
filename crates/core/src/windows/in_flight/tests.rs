//! Overlap against a list of the requests in flight, one page at a time.

use super::*;
use crate::stack::naive::chained_requests;
use crate::units::pages::{PageIds, Scope};
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGE_TOKENS: u64 = 4;

/// Follows a request that arrives in a pool of which at most so many pages are tracked.
fn arrive(in_flight: &mut InFlight, request: &Request, max_pages: u64) -> Option<Overlap> {
    let config = CacheConfig { max_tracked_pages: PageCount(max_pages), ..CacheConfig::default() };
    in_flight.arrive(&request.event(), page_size(), &config)
}

fn page_size() -> PageSize {
    PageSize::new(PAGE_TOKENS as u32).expect("not zero")
}

/// One request of a log.
#[derive(Debug, Clone)]
struct Request {
    time: i64,
    duration: Option<u64>,
    scope: Scope,
    ids: Vec<u64>,
    /// Ids of output pages, of how many output tokens.
    outputs: (Vec<u64>, u64),
}

impl Request {
    fn event(&self) -> RequestEvent<'_> {
        RequestEvent {
            event_time: EventTime(self.time),
            scope: self.scope,
            page_ids: PageIds::from_slice(&self.ids),
            output_page_ids: PageIds::from_slice(&self.outputs.0),
            input_tokens: Some(self.ids.len() as u64 * PAGE_TOKENS + 1),
            output_tokens: Some(self.outputs.1),
            duration_ms: self.duration,
            ..RequestEvent::default()
        }
    }

    /// Every page with an id as its whole prefix, and the number of those without one.
    fn pages(&self) -> (Vec<(u64, Vec<u64>)>, u64) {
        let ids: Vec<u64> = self.ids.iter().chain(&self.outputs.0).copied().collect();
        let tokens = self.ids.len() as u64 * PAGE_TOKENS + 1 + self.outputs.1;
        let private = tokens.div_ceil(PAGE_TOKENS).saturating_sub(ids.len() as u64);
        ((1..=ids.len()).map(|end| (self.scope.value(), ids[..end].to_vec())).collect(), private)
    }
}

/// What others hold as the last of these requests arrives; the whole log is looked at anew.
fn obvious(log: &[Request]) -> Option<Overlap> {
    log.iter().find(|request| request.duration.is_some())?;
    let now = log.iter().map(|request| request.time).max()?;
    let (_, earlier) = log.split_last()?;
    let in_flight: Vec<_> = earlier
        .iter()
        .enumerate()
        .filter(|(index, request)| {
            let end = request.time + request.duration.unwrap_or(0) as i64;
            let came = log[..=*index].iter().map(|request| request.time).max();
            end > now && came.is_some_and(|came| end > came)
        })
        .map(|(_, request)| request.pages())
        .collect();
    let shared: BTreeSet<_> = in_flight.iter().flat_map(|(pages, _)| pages).collect();
    let private: u64 = in_flight.iter().map(|(_, private)| private).sum();
    Some(Overlap { requests: in_flight.len() as u64, pages: shared.len() as u64 + private, room: None })
}

fn logs() -> impl Strategy<Value = Vec<Request>> {
    let duration = prop_oneof![1 => Just(None), 4 => (0u64..60).prop_map(Some)];
    let outputs = (prop::collection::vec(0u64..3, 0..3), 0u64..20);
    let rest = (0i64..12, 0i64..20, duration, any::<bool>(), outputs);
    (chained_requests(50), prop::collection::vec(rest, 50)).prop_map(|(requests, rest)| {
        let mut now = 0;
        let draw = requests.into_iter().zip(rest);
        draw.map(|(ids, (step, back, duration, named, outputs))| {
            now += step;
            let scope = if named { Scope::named(b"tenant") } else { Scope::GLOBAL };
            Request { time: if back > 15 { now - back } else { now }, duration, scope, ids, outputs }
        })
        .collect()
    })
}

proptest! {
    #[test]
    fn overlap_equals_a_count_over_the_list_of_requests_before_and_after_a_snapshot(
        log in logs(),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(log.len());
        let mut in_flight = InFlight::default();
        for (index, request) in log.iter().enumerate() {
            if index == cut {
                let bytes = postcard::to_allocvec(&in_flight).expect("bytes");
                in_flight = postcard::from_bytes(&bytes).expect("the same bytes");
                prop_assert!(in_flight.is_sound(PageCount(1 << 20)));
            }
            let found = arrive(&mut in_flight, request, 1 << 20);
            prop_assert_eq!(found, obvious(&log[..=index]), "request {}", index);
        }
        let end = Request { time: i64::MAX, ..log[0].clone() };
        let last = arrive(&mut in_flight, &end, 1 << 20);
        prop_assert_eq!(last.map_or(0, |overlap| overlap.pages), 0, "all have ended");
        prop_assert_eq!(in_flight.pages.count() + in_flight.private_pages, 0);
    }

    #[test]
    fn arrivals_told_in_advance_change_no_measurement(
        log in logs(),
        sizes in prop::collection::vec(1usize..12, 1..8),
        limit in prop_oneof![0u64..30, Just(1 << 20)],
    ) {
        let (mut told, mut untold) = (InFlight::default(), InFlight::default());
        let mut rest = &log[..];
        for size in sizes.iter().cycle() {
            let (range, later) = rest.split_at((*size).min(rest.len()));
            rest = later;
            told.expect(range.iter().map(|request| EventTime(request.time)).collect());
            for request in range {
                let expected = arrive(&mut untold, request, limit);
                prop_assert_eq!(arrive(&mut told, request, limit), expected);
            }
            prop_assert_eq!((told.pages.count(), told.by_end.len()), (untold.pages.count(), untold.by_end.len()));
            if rest.is_empty() {
                break;
            }
        }
    }

    #[test]
    fn what_the_limit_turns_away_is_told_until_it_ends_and_never_guessed(log in logs(), limit in 0u64..30) {
        let mut in_flight = InFlight::default();
        for (index, request) in log.iter().enumerate() {
            let found = arrive(&mut in_flight, request, limit);
            let (held, all) = (in_flight.pages.count() + in_flight.private_pages, obvious(&log[..=index]));
            prop_assert!(held <= limit, "{} held", held);
            match (found, all) {
                (Some(found), Some(all)) if found.pages != BEYOND => prop_assert_eq!(found.pages, all.pages),
                (Some(_), Some(_)) => {}
                (found, all) => prop_assert_eq!(found, all),
            }
        }
    }
}

fn request(time: i64, duration: u64, ids: &[u64]) -> Request {
    let (scope, outputs) = (Scope::GLOBAL, (Vec::new(), 0));
    Request { time, duration: Some(duration), scope, ids: ids.to_vec(), outputs }
}

#[test]
fn shared_pages_count_once_and_end_with_their_last_holder() {
    let mut in_flight = InFlight::default();
    let mut arrive = |request: &Request| {
        let found = arrive(&mut in_flight, request, 99).expect("timed");
        (found.requests, found.pages)
    };
    assert_eq!(arrive(&request(0, 10, &[1, 2, 3])), (0, 0), "nobody else is there");
    assert_eq!(arrive(&request(1, 20, &[1, 2, 4])), (1, 4), "three pages and a partial one");
    assert_eq!(arrive(&request(9, 1, &[])), (2, 6), "two shared, two own, two partial ones");
    assert_eq!(arrive(&request(10, 0, &[5])), (1, 4), "the first has ended at 10");
    assert_eq!(arrive(&request(21, 0, &[5])), (0, 0));
}

#[test]
fn a_log_without_durations_measures_nothing() {
    let mut in_flight = InFlight::default();
    let untimed = Request { duration: None, ..request(0, 0, &[1]) };
    assert_eq!(arrive(&mut in_flight, &untimed, 99), None);
    assert!(arrive(&mut in_flight, &request(0, 5, &[1]), 99).is_some());
    assert!(arrive(&mut in_flight, &untimed, 99).is_some_and(|overlap| overlap.requests == 1));
}

#[test]
fn hostile_durations_and_lengths_move_no_bound() {
    let mut in_flight = InFlight::default();
    let mut arrive = |request: &Request| arrive(&mut in_flight, request, 99).expect("timed");
    arrive(&Request { outputs: (Vec::new(), u64::MAX), ..request(0, 5, &[1]) });
    assert_eq!(arrive(&request(1, 0, &[1])).pages, BEYOND, "too large to be followed");
    assert_eq!(arrive(&request(5, u64::MAX, &[1])).pages, 0, "until it ended");
    assert_eq!(arrive(&request(i64::MAX - 1, 0, &[1])).requests, 1);
}

#[test]
fn a_sample_of_the_pages_stands_for_all_of_them() {
    let ids: Vec<u64> = (0..4000).map(crate::units::pages::mix).collect();
    let sampled = CacheConfig { sample_rate: Ratio::per_mille(100), ..CacheConfig::default() };
    let mut in_flight = InFlight::default();
    in_flight.arrive(&request(0, 10, &ids).event(), page_size(), &sampled);
    let found = in_flight.arrive(&request(1, 10, &[]).event(), page_size(), &sampled).expect("timed").pages;
    assert!((3400..4600).contains(&found), "{found} of 4001");
    assert!(in_flight.pages.count() < 500, "only followed ids are kept");
}

#[test]
fn a_damaged_snapshot_is_noticed() {
    let mut in_flight = InFlight::default();
    arrive(&mut in_flight, &request(0, 50, &[1, 2, 3]), 99);
    arrive(&mut in_flight, &request(1, 50, &[1, 2, 4]), 99);
    let bytes = postcard::to_allocvec(&in_flight).expect("bytes");
    let mut refused = 0;
    for at in 0..bytes.len() {
        let mut rotten = bytes.clone();
        rotten[at] ^= 1;
        if let Ok(read) = postcard::from_bytes::<InFlight>(&rotten)
            && read.is_sound(PageCount(99))
        {
            let mut read = read;
            arrive(&mut read, &request(100, 5, &[1, 2]), 99);
        } else {
            refused += 1;
        }
    }
    assert!(refused > 0, "something was noticed, and nothing panicked");
}
