//! What an emptied cache costs, compared with caches that are emptied daily, page by page.

use super::*;

/// A cache of so many pages kept page by page, and emptied every day at an hour, where one is given: tokens that each
/// request finds, by its time and ids.
pub(super) fn found_page_by_page(
    requests: &[(i64, Vec<u64>)],
    capacity: usize,
    emptied_at: Option<i64>,
) -> Vec<u64> {
    let (mut held, mut emptied): (Vec<u64>, _) = (Vec::new(), i64::MIN);
    let find = |(time, ids): &(i64, Vec<u64>)| {
        let day = emptied_at.map_or(i64::MIN, |hour| (time - hour * HOUR_MS).div_euclid(24 * HOUR_MS));
        if day > emptied {
            held.clear();
        }
        emptied = day;
        let mut hits = 0;
        for (place, id) in ids.iter().enumerate() {
            match held.iter().position(|own| own == id) {
                Some(at) => {
                    held.remove(at);
                    hits += u64::from(hits == place as u64);
                }
                None => held.truncate(capacity - 1),
            }
            held.insert(0, *id);
        }
        hits * u64::from(PAGE.get())
    };
    requests.iter().map(find).collect()
}

proptest! {
    #[test]
    fn every_window_says_what_a_cache_emptied_daily_page_by_page_loses(
        requests in chained_requests(50), gaps in prop::collection::vec(0..3 * HOUR_MS, 50),
        cut in any::<prop::sample::Index>(), provisioned in prop::option::of(2u64..30),
    ) {
        let config = PoolConfig { cache: CacheConfig { profile: Profile::Paper, ..config(None, Ratio::ONE).cache }, windows: ["tumbling:3h", "hopping:30h/6h", "last:7", "all"]
                .map(|text| text.parse().expect("a window"))
                .to_vec(), questions: Questions {
                provisioned: provisioned.map(|pages| format!("{pages}p").parse().expect("pages")),
                worth: Some(worth()),
                restarts: true,
                ..Questions::default()
            }, publish_every_ms: HOUR_MS as u64, ..config(None, Ratio::ONE) };
        let lives = PoolSetConfig { idle_timeout_ms: None, put_aside_after_ms: None, ..set_config(&config) };
        let mut set = PoolSet::new(lives, PoolHistory::Whole);
        let times = gaps.iter().scan(1_000_000_000_000_i64, |now, gap| { *now += gap; Some(*now) });
        let log: Vec<(i64, Vec<u64>)> = times.zip(requests).collect();
        let cut = cut.index(log.len());
        let mut closed = Vec::new();
        for (index, (time, ids)) in log.iter().enumerate() {
            if index == cut {
                set = restore(&config, &bytes(&set)).expect("the same configuration");
            }
            let event = RequestEvent {
                event_time: EventTime(*time),
                page_ids: PageIds::from_slice(ids),
                ..RequestEvent::default()
            };
            let record = PoolRecord::in_order("pool", &event, Offset(index as i64), true);
            let mut shown = Vec::new();
            set.observe(record, &mut shown).expect("accepted");
            closed.extend(shown.into_iter().map(|estimate| (index + 1, estimate)));
        }
        let mut shown = Vec::new();
        set.finish(Offset(99), &mut shown);
        closed.extend(shown.into_iter().map(|estimate| (log.len(), estimate)));
        for (seen, estimate) in closed {
            let restarts = estimate.restarts.as_ref().expect("asked");
            prop_assert_eq!(restarts.sizes.is_empty(), false);
            prop_assert_eq!(restarts.sizes[0].provisioned, provisioned.is_some());
            let is_in = |(place, time): (usize, i64)| match estimate.window {
                WindowKind::Last { requests } => place < seen && place + requests as usize >= seen,
                WindowKind::All => place < seen,
                _ => (estimate.start_ms..estimate.end_ms).contains(&time),
            };
            for at in &restarts.sizes {
                let whole = found_page_by_page(&log, at.pages as usize, None);
                for hour in 0..24 {
                    let emptied = found_page_by_page(&log, at.pages as usize, Some(hour));
                    let of_window = (0..log.len()).filter(|place| is_in((*place, log[*place].0)));
                    let lost: u64 = of_window.map(|place| whole[place] - emptied[place]).sum();
                    let told = at.hours.iter().find(|found| i64::from(found.hour) == hour);
                    let tokens = told.map_or(0, |found| found.tokens);
                    prop_assert_eq!(tokens, lost, "{} at {} of {:?}", estimate.window, hour, at.pages);
                    let seconds = told.and_then(|found| found.prefill_seconds).unwrap_or(0.0);
                    prop_assert!((seconds - lost as f64 / 1000.0).abs() < 1e-9);
                    let is_whole = told.is_none_or(|found| {
                        let money = found.money == Some(seconds * 3.0 / 3600.0);
                        found.tokens > 0 && found.warm_minutes.is_some() && money
                    });
                    prop_assert!(is_whole, "all of it: {:?}", told);
                }
            }
        }
    }
}
