//! Records that wait for earlier arrivals.

use super::*;
use kvset_core::engines::profile::OverlapMode;
use kvset_core::engines::rules::EngineRules;

const BOUND: i64 = 1000;

/// Pool "a" is modelled with requests that overlap; all others take records as they come.
fn held(hold_back_ms: i64) -> TaskConfig {
    let general = config();
    let plain = general.pools.default_pool().clone();
    let overlapping = PoolConfig {
        cache: CacheConfig {
            profile: Profile::Vllm,
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() },
            ..plain.cache.clone()
        },
        hold_back_ms: hold_back_ms as u64,
        ..plain.clone()
    };
    let pools = PoolConfigs::new(plain, [("a".to_owned(), overlapping)]).expect("usable").into();
    let loose = DeadLetterLimits { max_consecutive: 1000, ..general.dead_letters };
    TaskConfig { pools, dead_letters: loose, ..general }
}

fn task_of(config: &Arc<TaskConfig>, publish_from: i64) -> PartitionTask {
    PartitionTask::new(Arc::clone(config), Partition(5), &resume(0, publish_from, false))
}

fn timed(pool: &'static str, arrival: i64, duration: i64, pages: &[u64]) -> Request {
    (pool, format!(r#"{{"event_time":{arrival},"duration_ms":{duration},"page_ids":{pages:?}}}"#))
}

/// What the pool's window since the start says, but for where in the log it stands.
fn since_start(task: &PartitionTask) -> Option<Estimate> {
    let all = task.provisional().into_iter().find(|one| one.pool == "a" && one.window == WindowKind::All)?;
    Some(Estimate { next_offset: 0, first_offset: 0, ..of_its_window_alone(all) })
}

/// Requests of one pool by arrival, with how long they took: no longer than the bound.
fn requests() -> impl Strategy<Value = Vec<(i64, i64, Vec<u64>)>> {
    let one = (0i64..6000, 0..=BOUND, prop::collection::vec(0u64..4, 1..6));
    prop::collection::vec(one, 1..60)
}

/// Logs of two pools in the order of finishes, some of whose requests took longer than the bound, and some of whose
/// records are broken, of another page size than their pool, or, as all of "b", without a duration.
fn finished_logs() -> impl Strategy<Value = Vec<Request>> {
    let one = (0usize..3, 0i64..6000, 0..=2 * BOUND, prop::collection::vec(0u64..4, 1..6), 0u8..20);
    prop::collection::vec(one, 1..60).prop_map(|mut requests| {
        requests.sort_by_key(|(_, arrival, duration, ..)| arrival + duration);
        let record = |(pool, arrival, duration, pages, kind): (usize, i64, i64, Vec<u64>, u8)| {
            let pool = ["a", "a", "b"][pool];
            match kind {
                0 => (pool, "broken".to_owned()),
                1 => (pool, format!(r#"{{"event_time":{arrival},"page_size":8,"page_ids":{pages:?}}}"#)),
                3 | 4 => {
                    let scheme = if kind == 3 { "vllm:sha256_cbor:16" } else { "kvset:xxh3:16" };
                    let value =
                        format!(r#"{{"event_time":{arrival},"page_ids":{pages:?},"id_scheme":"{scheme}"}}"#);
                    (pool, value)
                }
                _ if kind == 2 || pool == "b" => request(pool, arrival, &pages),
                _ => timed(pool, arrival, duration, &pages),
            }
        };
        requests.into_iter().map(record).collect()
    })
}

fn bytes(task: &PartitionTask) -> Vec<u8> {
    postcard::to_allocvec(&task.image()).expect("serialises")
}

#[test]
fn a_waiting_record_that_its_pool_refuses_is_a_dead_letter_of_the_record_that_let_it_come() {
    let unfit = ("a", r#"{"event_time":60,"page_size":8,"page_ids":[1]}"#.to_owned());
    let log = [timed("a", 100, 50, &[1]), unfit, timed("a", 50, 200, &[2]), timed("a", 1100, 1, &[1])];
    let config = Arc::new(held(BOUND));
    let mut task = task_of(&config, 0);
    assert!(process(&mut task, &log[..3]).expect("within limits").is_empty(), "all wait");
    assert_eq!(task.take_counts().waiting, 3);
    let outputs = process(&mut task, &log).expect("within limits");
    let letter = outputs.iter().find(|output| output.destination == Destination::DeadLetters);
    let letter = letter.expect("page sizes differ");
    assert_eq!(letter.value.as_deref(), Some(log[1].1.as_bytes()), "as it came");
    assert!(letter.headers.contains(&("kvset_offset", "1".to_owned())), "{:?}", letter.headers);
    assert!(process(&mut task_of(&config, 4), &log).expect("within limits").is_empty(), "published before");
    let counts = task.take_counts();
    assert_eq!((counts.pools[0].1.requests, counts.waiting), (2, 1));
}

#[test]
fn requests_that_took_longer_than_the_bound_are_counted_with_how_far_they_are_behind() {
    let log = [timed("a", 1000, 1, &[1]), timed("a", 2500, 1, &[1]), timed("a", 300, 2300, &[1])];
    let mut task = task_of(&Arc::new(held(BOUND)), 0);
    process(&mut task, &log).expect("within limits");
    let counts = task.take_counts();
    let (_, activity) = &counts.pools[0];
    assert_eq!((activity.requests, activity.out_of_order, activity.out_of_order_by_ms), (2, 1, 700));
}

#[test]
fn more_than_fits_is_taken_early_and_counted() {
    let config = Arc::new(TaskConfig { hold_back_bytes: 1, ..held(BOUND) });
    let mut task = task_of(&config, 0);
    let log: Vec<_> = (0..5).map(|i| timed("a", 10 * i, 1, &[1])).collect();
    process(&mut task, &log).expect("within limits");
    let counts = task.take_counts();
    assert_eq!((counts.pools[0].1.early, counts.waiting), (5, 0));
}

#[test]
fn the_end_of_a_run_lets_all_records_come() {
    let config = Arc::new(held(BOUND));
    let log: Vec<_> = (0..8).map(|i| timed("a", 300 * (8 - i), 300 * i, &[1, 2])).collect();
    let mut task = task_of(&config, 0);
    let mut outputs = process(&mut task, &log).expect("within limits");
    assert!(outputs.is_empty());
    task.finish(NextOffset(11), &mut outputs).expect("within limits");
    assert_eq!((task.next_offset(), task.take_counts().pools[0].1.requests), (NextOffset(11), 8));
    let closed = estimates(&outputs);
    assert!(!closed.is_empty() && closed.iter().all(|estimate| estimate.next_offset == 11));
    task.finish(NextOffset(11), &mut outputs).expect("again changes nothing");
    assert_eq!(estimates(&outputs), closed);
    // Where the last record is the last before the end, a commit of it covers them all.
    let mut bounded = task_of(&config, 0);
    bounded.end_at(NextOffset(8));
    let outputs = process(&mut bounded, &log).expect("within limits");
    let at_8 = |estimate: Estimate| Estimate { next_offset: 8, ..estimate };
    assert_eq!(estimates(&outputs), closed.into_iter().map(at_8).collect::<Vec<_>>());
    assert_eq!((bounded.next_offset(), bounded.waiting()), (NextOffset(8), 0));
}

/// A pool whose clock stands far ahead of the others', which has fallen silent with records that wait.
#[test]
fn windows_of_a_silent_pool_close_though_its_records_waited() {
    let config = Arc::new(held(BOUND));
    let mut log = vec![timed("a", 90_100, 10, &[1]), timed("a", 90_000, 200, &[1, 2])];
    log.extend((0..120).map(|step| request("b", 100 * step, &[1])));
    let outputs = process(&mut task_of(&config, 0), &log).expect("within limits");
    let of_silent: Vec<_> = estimates(&outputs).into_iter().filter(|one| one.pool == "a").collect();
    assert_eq!(of_silent.first().map(|one| (one.end_ms, one.requests)), Some((91_000, 2)), "{of_silent:?}");
}

#[test]
fn where_nothing_waits_a_snapshot_is_what_it_was() {
    let log: Vec<_> = (0..20).map(|i| timed("b", 300 * i, 100, &[1, i as u64])).collect();
    let mut plain = task_of(&Arc::new(config()), 0);
    process(&mut plain, &log).expect("within limits");
    let restored: RestoredTask = postcard::from_bytes(&bytes(&plain)).expect("without a section");
    let point = resume(20, 20, false);
    let restore = |config: TaskConfig, image| {
        PartitionTask::restore(Arc::new(config), Partition(5), &point, None, image)
    };
    assert_eq!(bytes(&restore(config(), restored).expect("the same")), bytes(&plain));
    let mut holding = task_of(&Arc::new(held(BOUND)), 0);
    process(&mut holding, &log).expect("within limits");
    let image = || postcard::from_bytes(&bytes(&holding)).expect("with one");
    assert_eq!(restore(config(), image()).err(), Some(TaskRestoreError::Arrivals));
    assert!(restore(held(BOUND), image()).is_ok());
    let image = postcard::from_bytes(&bytes(&plain)).expect("without a section");
    assert_eq!(restore(held(BOUND), image).err(), Some(TaskRestoreError::Arrivals));
}

/// What a pool's ids are made by is kept by a snapshot, alone and behind records that wait.
#[test]
fn a_restored_pool_refuses_what_it_refused() {
    let of_scheme = |pool, scheme: &str, duration: &str| -> Request {
        (pool, format!(r#"{{"event_time":100,{duration}"page_ids":[1],"id_scheme":"{scheme}"}}"#))
    };
    for (config, pool, duration) in
        [(config(), "b", ""), (held(BOUND), "b", ""), (held(0), "a", r#""duration_ms":5,"#)]
    {
        let config = Arc::new(config);
        let mut task = task_of(&config, 0);
        process(&mut task, &[of_scheme(pool, "one", duration)]).expect("within limits");
        let image = postcard::from_bytes(&bytes(&task)).expect("what was written");
        let mut restored =
            PartitionTask::restore(Arc::clone(&config), Partition(5), &resume(1, 1, false), None, image)
                .expect("the same configuration");
        assert_eq!(bytes(&restored), bytes(&task));
        let log = [
            of_scheme(pool, "one", duration),
            of_scheme(pool, "other", duration),
            of_scheme(pool, "one", duration),
        ];
        let outputs = process(&mut restored, &log).expect("within limits");
        let letters: Vec<_> =
            outputs.iter().filter(|output| output.destination == Destination::DeadLetters).collect();
        let code = ("kvset_error_code", "id_scheme_mismatch".to_owned());
        assert!(letters.len() == 1 && letters[0].headers.contains(&code), "{letters:?}");
    }
}

proptest! {
    /// A log in the order of finishes gives what the same requests give in the order of arrivals.
    #[test]
    fn a_log_of_finishes_gives_what_one_of_arrivals_gives(requests in requests()) {
        let log = |mut requests: Vec<(i64, i64, Vec<u64>)>, by_end: bool| -> Vec<Request> {
            requests.sort_by_key(|(arrival, duration, _)| arrival + if by_end { *duration } else { 0 });
            requests.iter().map(|(arrival, duration, pages)| timed("a", *arrival, *duration, pages)).collect()
        };
        let finished = log(requests, true);
        // Of two that arrive in one millisecond the first of the log goes first in both.
        let arrived: Vec<(i64, i64, Vec<u64>)> = finished.iter().map(|(_, value)| {
            let value: serde_json::Value = serde_json::from_str(value).expect("JSON");
            let number = |name: &str| value[name].as_i64().expect("a number");
            let pages = value["page_ids"].as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id"));
            (number("event_time"), number("duration_ms"), pages.collect())
        }).collect();
        let mut waiting = task_of(&Arc::new(held(BOUND)), 0);
        process(&mut waiting, &finished).expect("within limits");
        prop_assert!(waiting.take_counts().pools.iter().all(|(_, activity)| activity.out_of_order == 0));
        waiting.finish(NextOffset(finished.len() as i64), &mut Vec::new()).expect("within limits");
        let mut sorted = task_of(&Arc::new(held(0)), 0);
        process(&mut sorted, &log(arrived, false)).expect("within limits");
        prop_assert_eq!(since_start(&waiting), since_start(&sorted));
    }

    /// Recovery with records that wait: from any point on, a muted replay publishes exactly the rest, and so does a
    /// task that is restored there, byte for byte; whoever reads records ahead changes nothing.
    #[test]
    fn from_any_point_on_a_restart_with_records_that_wait_publishes_exactly_the_rest(
        log in finished_logs(), at in any::<prop::sample::Index>(), room in prop_oneof![Just(1u64 << 20), 1u64..4000],
    ) {
        let config = Arc::new(TaskConfig { hold_back_bytes: room, ..held(BOUND) });
        let at = at.index(log.len() + 1);
        let end = NextOffset(log.len() as i64 + 1);
        let finished = |mut task: PartitionTask, mut outputs: Vec<OutputRecord>| {
            task.finish(end, &mut outputs).expect("within limits");
            (outputs, bytes(&task))
        };
        let mut task = task_of(&config, 0);
        let outputs = process(&mut task, &log).expect("within limits");
        let whole = finished(task, outputs);
        let mut before = task_of(&config, 0);
        let published = process(&mut before, &log[..at]).expect("within limits");
        let mut muted = task_of(&config, at as i64);
        let rest = process(&mut muted, &log).expect("within limits");
        prop_assert_eq!(&finished(muted, [published.clone(), rest].concat()), &whole);

        let image = postcard::from_bytes(&bytes(&before)).expect("what was written");
        let point = resume(at as i64, at as i64, false);
        let mut restored = PartitionTask::restore(Arc::clone(&config), Partition(5), &point, None, image)
            .expect("the same configuration");
        prop_assert_eq!(bytes(&restored), bytes(&before));
        let mut repacker = Repacker::new(Encoding::Auto, DecodeLimits::default());
        let mut outputs = published;
        for record in records(&log, NextOffset(at as i64)) {
            let mut repacked = Vec::new();
            let is_repacked = record.offset % 2 == 0 && repacker.repack(record.payload(), &mut repacked);
            let incoming = Incoming { record, repacked: is_repacked.then_some(&repacked[..]) };
            restored.process_records([incoming], &mut outputs).expect("within limits");
        }
        prop_assert_eq!(&finished(restored, outputs), &whole);
    }
}
