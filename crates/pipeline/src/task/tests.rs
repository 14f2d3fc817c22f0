mod arrivals;
mod poison;

use super::*;
use crate::resume::Origin;
use kvset_core::engines::config::CacheConfig;
use kvset_core::engines::profile::Profile;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::set::PoolSetRestoreError;
use kvset_core::sizing::tiers::{Settled, TrendRules};
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{EventTime, PageCount, PageSize};
use kvset_formats::codec::{Repacker, decode_estimate};
use proptest::prelude::*;

const TOPIC: &str = "requests";

fn config() -> TaskConfig {
    let pool = PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(4),
            capacities: ["4p", "16p"].map(|text| text.parse().expect("a capacity")).to_vec(),
            max_tracked_pages: PageCount(1 << 16),
            ..CacheConfig::default()
        },
        windows: ["tumbling:1s", "last:3", "all"].map(|text| text.parse().expect("a window")).to_vec(),
        publish_every_ms: 1000,
        allowed_lateness_ms: 0,
        max_lateness_ms: 0,
        tiers: ["hbm:0.5:3p:2", "dram:1:4p"].map(|text| text.parse().expect("a tier")).to_vec(),
        trend: TrendRules { converged_over: 2, hold: 2, ..TrendRules::default() },
        ..PoolConfig::default()
    };
    TaskConfig {
        topic: TOPIC.to_owned(),
        encoding: Encoding::Auto,
        schemas: None,
        limits: DecodeLimits::default(),
        pools: PoolConfigs::new(pool, []).expect("usable").into(),
        max_pools: 3,
        idle_timeout_ms: Some(2_000),
        forget_after_ms: None,
        put_aside_after_ms: Some(700),
        hold_back_bytes: 1 << 20,
        max_letter_bytes: 1 << 20,
        dead_letters: DeadLetterLimits { max_consecutive: 2, max_share: Ratio::ONE, share_window: 100 },
        output: EstimateEncoding::Json,
        detail: EstimateDetail::Full,
        version: "1".to_owned(),
        fingerprint: "f".to_owned(),
    }
}

fn resume(replay_from: i64, publish_from: i64, warm_up: bool) -> Resume {
    Resume {
        origin: Origin::Rebuild,
        replay_from: NextOffset(replay_from),
        publish_from: NextOffset(publish_from),
        count_from: NextOffset(0),
        warm_up,
        set_aside: vec![],
        explanation: String::new(),
    }
}

fn task(publish_from: i64) -> PartitionTask {
    PartitionTask::new(Arc::new(config()), Partition(5), &resume(0, publish_from, false))
}

/// A request as it lies in the log: its pool and its value.
type Request = (&'static str, String);

fn request(pool: &'static str, time_ms: i64, pages: &[u64]) -> Request {
    (pool, format!(r#"{{"event_time":{time_ms},"page_ids":{pages:?}}}"#))
}

/// The records of a log from an offset on.
fn records(log: &[Request], from: NextOffset) -> impl Iterator<Item = SourceRecord<'_>> {
    log.iter().enumerate().skip(from.0 as usize).map(|(offset, (pool, value))| SourceRecord {
        schema_header: None,
        topic: TOPIC,
        partition: 5,
        offset: offset as i64,
        timestamp_ms: Some(7),
        key: Some(pool.as_bytes()),
        value: Some(value.as_bytes()),
    })
}

fn process(task: &mut PartitionTask, log: &[Request]) -> Result<Vec<OutputRecord>, TaskError> {
    let mut out = Vec::new();
    records(log, task.next_offset()).try_for_each(|record| task.process_record(&record, &mut out))?;
    Ok(out)
}

fn estimates(outputs: &[OutputRecord]) -> Vec<Estimate> {
    let estimates = outputs.iter().filter(|output| output.destination == Destination::Results);
    estimates
        .map(|output| decode_estimate(output.value.as_deref().unwrap_or_default()).expect("ours"))
        .collect()
}

#[test]
fn a_late_watermark_publishes_in_order_of_end_pool_and_window() {
    // Pool b is idle by the time that a comes to 5000: the others tell that time passes.
    let mut log = vec![request("b", 100, &[1, 2]), request("a", 200, &[1, 3])];
    log.extend((1..=24).map(|step| request("c", 200 * step, &[1])));
    log.push(request("a", 5000, &[1, 3]));
    let outputs = process(&mut task(0), &log).expect("within limits");
    let order: Vec<_> = estimates(&outputs)
        .into_iter()
        .map(|estimate| (estimate.next_offset, estimate.end_ms, estimate.pool, estimate.window.to_string()))
        .collect();
    let of_b: Vec<_> = order.iter().filter(|(_, _, pool, _)| pool == "b").collect();
    let expected = ["tumbling:1s", "last:3", "all"].map(|window| (1000, window));
    let found: Vec<_> = of_b.iter().map(|(_, end, _, window)| (*end, window.as_str())).collect();
    assert_eq!(found, expected, "windows in the order they are configured in");
    assert!(order.is_sorted_by_key(|(next, end, pool, _)| (*next, *end, pool.clone())), "{order:?}");
}

#[test]
fn refused_records_become_dead_letters_and_change_nothing_else() {
    let mut log = vec![request("a", 100, &[1]), request("a", 200, &[1, 2])];
    let clean =
        process(&mut task(0), &[log.clone(), vec![request("a", 3000, &[1])]].concat()).expect("clean");
    log.push(("a", "nonsense".to_owned()));
    log.push(request("a", 3000, &[1]));
    let mut task = task(0);
    let outputs = process(&mut task, &log).expect("within limits");
    assert_eq!(outputs[0].destination, Destination::DeadLetters);
    assert_eq!(outputs[0].value.as_deref(), Some(&b"nonsense"[..]));
    assert_eq!(estimates(&outputs).len(), estimates(&clean).len());
    let counts = task.take_counts();
    assert_eq!((counts.records, counts.refused[&ErrorCode::UnknownEncoding]), (4, 1));
    let (pool, activity) = &counts.pools[0];
    assert_eq!((pool.as_str(), activity.requests, activity.pages), ("a", 3, 4));
    assert_eq!(counts.time(), task.time());
    assert_eq!(task.take_counts(), TaskCounts::default(), "counted once");
}

/// Of a small pool it was the largest part, and half of it was empty.
#[test]
fn what_is_kept_of_the_newest_estimates_has_no_room_to_grow() {
    let log: Vec<_> = (0..40).map(|step| request("a", 200 * step, &[1, 2])).collect();
    let mut task = task(0);
    process(&mut task, &log).expect("within limits");
    let kept: usize = task.latest.values().map(HeapBytes::heap_bytes).sum();
    let newest = task.latest().expect("readable");
    let written = |estimate: &Estimate| {
        let mut record = Vec::new();
        encode_estimate(estimate, EstimateEncoding::Avro, &mut record).expect("representable");
        record.len()
    };
    let written: usize = newest.iter().map(written).sum();
    assert!(newest.len() == 3 && kept <= written + 64 * newest.len(), "{kept} for {written} bytes");
}

#[test]
fn pools_are_bounded_and_those_there_are_go_on() {
    let log: Vec<_> = ["a", "b", "c", "d", "a"].iter().map(|pool| request(pool, 100, &[1])).collect();
    let mut task = task(0);
    let outputs = process(&mut task, &log).expect("within limits");
    let code = outputs[0].headers.iter().find(|(name, _)| *name == "kvset_error_code");
    assert_eq!(code.map(|(_, code)| code.as_str()), Some("too_many_pools"));
    assert_eq!((outputs.len(), task.pools().len()), (1, 3));
    assert_eq!(task.take_new_pools(), ["a", "b", "c"], "in the order they came");
}

#[test]
fn too_many_refusals_stop_before_the_record_that_passes_the_limit() {
    let log: Vec<Request> = (0..5).map(|_| ("a", "nonsense".to_owned())).collect();
    let mut task = task(0);
    assert!(matches!(process(&mut task, &log), Err(TaskError::DeadLetters(_))));
    assert_eq!(task.next_offset(), NextOffset(2), "the third in a row is not consumed");
    let mut restarted = PartitionTask::new(Arc::new(config()), Partition(5), &resume(0, 2, false));
    assert!(process(&mut restarted, &log).is_err(), "a restart stops there again");
    assert_eq!(restarted.next_offset(), NextOffset(2));
}

#[test]
fn an_event_time_far_ahead_of_its_records_time_stamp_is_refused_and_closes_nothing() {
    let limits = DecodeLimits { max_event_time_ahead_ms: Some(993), ..DecodeLimits::default() };
    let guarded = Arc::new(TaskConfig { limits, ..config() });
    // The records' time stamp is 7.
    let log = [
        request("a", 100, &[1]),
        request("a", 1000, &[1]),
        request("b", 1001, &[1]),
        request("b", 4_000_000_000_000, &[1]),
        request("a", 200, &[1]),
    ];
    let mut task = PartitionTask::new(Arc::clone(&guarded), Partition(5), &resume(0, 0, false));
    let outputs = process(&mut task, &log).expect("within limits");
    let refused: Vec<_> =
        outputs.iter().filter(|output| output.destination == Destination::DeadLetters).collect();
    let code = ("kvset_error_code", "event_time_ahead".to_owned());
    assert!(refused.len() == 2 && refused.iter().all(|output| output.headers.contains(&code)), "{refused:?}");
    assert_eq!(task.time().map(|time| time.watermark), Some(EventTime(1000)));
    assert_eq!(task.take_new_pools(), ["a"], "a refused record makes no pool");

    let unstamped = SourceRecord {
        schema_header: None,
        topic: TOPIC,
        partition: 5,
        offset: 5,
        timestamp_ms: None,
        key: Some(b"a"),
        value: Some(log[3].1.as_bytes()),
    };
    let mut outputs = Vec::new();
    task.process_record(&unstamped, &mut outputs).expect("within limits");
    assert!(!outputs.is_empty(), "nothing to compare with: taken");
}

#[test]
fn a_snapshot_of_another_configuration_is_not_taken_up() {
    let log = [request("b", 100, &[1]), request("a", 200, &[1])];
    let mut source = task(0);
    process(&mut source, &log).expect("within limits");
    let bytes = postcard::to_allocvec(&source.image()).expect("serialises");
    let restore = |config: TaskConfig| {
        let image = postcard::from_bytes(&bytes).expect("what was written");
        PartitionTask::restore(Arc::new(config), Partition(5), &resume(2, 2, false), None, image)
    };
    let mut restored = restore(config()).expect("the same configuration");
    assert_eq!(restored.take_new_pools(), ["a", "b"], "told to whom it may concern");
    let few = TaskConfig { max_pools: 1, ..config() };
    assert_eq!(restore(few).err(), Some(TaskRestoreError::PoolSet(PoolSetRestoreError::Pools)));
    let pool = PoolConfig {
        cache: CacheConfig { page_size: PageSize::new(8), ..config().pools.default_pool().cache.clone() },
        ..config().pools.default_pool().clone()
    };
    let other = TaskConfig { pools: PoolConfigs::new(pool, []).expect("usable").into(), ..config() };
    assert!(matches!(restore(other), Err(TaskRestoreError::PoolSet(PoolSetRestoreError::Pool(_)))));
}

#[test]
fn records_missing_after_a_snapshot_mark_what_comes_next() {
    let log: Vec<_> = (0..8).map(|i| request("a", 700 * i, &[1, i as u64 + 2])).collect();
    let mut source = task(0);
    process(&mut source, &log[..2]).expect("within limits");
    let bytes = postcard::to_allocvec(&source.image()).expect("serialises");
    let image = postcard::from_bytes(&bytes).expect("what was written");
    let gap = resume(4, 4, true);
    let mut restored =
        PartitionTask::restore(Arc::new(config()), Partition(5), &gap, None, image).expect("the same");
    let published = estimates(&process(&mut restored, &log).expect("within limits"));
    let (early, late): (Vec<_>, Vec<_>) = published.iter().partition(|estimate| estimate.start_ms <= 2800);
    assert!(!early.is_empty() && early.iter().all(|estimate| estimate.warm_up));
    assert!(!late.is_empty() && late.iter().all(|estimate| !estimate.warm_up));
}

fn logs() -> impl Strategy<Value = Vec<Request>> {
    let one = (0usize..4, 0i64..400, prop::collection::vec(0u64..4, 0..5), 0u8..20)
        .prop_map(|(pool, gap, pages, broken)| (["a", "b", "c", "d"][pool], gap, pages, broken == 0));
    prop::collection::vec(one, 0..60).prop_map(|steps| {
        let mut time = 0;
        let row = |(pool, gap, pages, broken): (&'static str, i64, Vec<u64>, bool)| {
            time += gap - 50;
            if broken { (pool, "broken".to_owned()) } else { request(pool, time.max(0), &pages) }
        };
        steps.into_iter().map(row).collect()
    })
}

/// The estimate without what follows from windows before it.
fn of_its_window_alone(estimate: Estimate) -> Estimate {
    let mut estimate = Estimate { late_records: 0, trend_windows: 0, plan: None, ..estimate };
    for entry in estimate.required.iter_mut().flat_map(|required| &mut required.coverage) {
        (entry.convergence, entry.growth_per_window) = (Settled::default(), None);
    }
    estimate
}

proptest! {
    /// The heart of recovery: a muted replay up to C and going on from there gives what was missing.
    #[test]
    fn from_any_point_on_a_restart_publishes_exactly_the_rest(log in logs(), at in 0usize..60) {
        let at = at.min(log.len());
        let mut loose = config();
        loose.dead_letters.max_consecutive = 100;
        let loose = Arc::new(loose);
        let new = |publish_from| {
            PartitionTask::new(Arc::clone(&loose), Partition(5), &resume(0, publish_from, false))
        };
        let whole = process(&mut new(0), &log).expect("within limits");
        let before = process(&mut new(0), &log[..at]).expect("within limits");
        let after = process(&mut new(at as i64), &log).expect("within limits");
        prop_assert_eq!([before, after].concat(), whole);
    }

    /// However records are cut into runs, and also where one of them ends early.
    #[test]
    fn after_a_run_the_last_record_is_the_last_one_processed(log in logs(), run in 1usize..9) {
        let (mut single, mut cut) = (task(0), task(0));
        let mut outputs = [Vec::new(), Vec::new()];
        for begin in (0..log.len()).step_by(run) {
            let end = log.len().min(begin + run);
            let one_by_one = records(&log[..end], NextOffset(begin as i64))
                .try_for_each(|record| single.process_record(&record, &mut outputs[0]));
            let at_once = cut.process_records(records(&log[..end], NextOffset(begin as i64)), &mut outputs[1]);
            prop_assert_eq!(&at_once, &one_by_one);
            let processed = records(&log[..cut.next_offset().0 as usize], NextOffset(0)).last();
            prop_assert_eq!(cut.last_record(), processed.as_ref().map(identity));
            prop_assert_eq!(single.last_record(), cut.last_record());
            prop_assert_eq!(&outputs[0], &outputs[1]);
            if at_once.is_err() {
                break;
            }
        }
    }

    /// Whoever reads records ahead changes nothing but the time it takes.
    #[test]
    fn records_that_were_repacked_give_what_they_give_as_they_are(
        log in logs(), repacked in prop::collection::vec(any::<bool>(), 60), run in 1usize..9,
    ) {
        let mut repacker = Repacker::new(Encoding::Auto, DecodeLimits::default());
        let written: Vec<Option<Vec<u8>>> = log.iter().zip(repacked).map(|((_, value), repacked)| {
            let mut out = Vec::new();
            (repacked && repacker.repack(value.as_bytes(), &mut out)).then_some(out)
        }).collect();
        let (mut plain, mut ahead) = (task(0), task(0));
        let mut outputs = [Vec::new(), Vec::new()];
        let all: Vec<SourceRecord<'_>> = records(&log, NextOffset(0)).collect();
        let told = plain.process_records(all.iter().copied(), &mut outputs[0]);
        let incoming = all.iter().zip(&written);
        let incoming: Vec<Incoming<'_>> =
            incoming.map(|(record, out)| Incoming { record: *record, repacked: out.as_deref() }).collect();
        let told_ahead =
            incoming.chunks(run).try_for_each(|run| ahead.process_records(run.iter().copied(), &mut outputs[1]));
        prop_assert_eq!(told, told_ahead);
        prop_assert_eq!(&outputs[0], &outputs[1]);
        prop_assert_eq!(plain.last_record(), ahead.last_record());
    }

    /// A snapshot is a cache: what goes on from it cannot be distinguished from what never stopped, and equal
    /// states have equal bytes however they were come by.
    #[test]
    fn from_any_point_on_a_restored_task_gives_the_same_bytes(
        log in logs(), at in 0usize..60, warm_up: bool,
    ) {
        let at = at.min(log.len());
        let mut loose = config();
        loose.dead_letters.max_consecutive = 100;
        let loose = Arc::new(loose);
        let mut whole = PartitionTask::new(Arc::clone(&loose), Partition(5), &resume(0, 0, warm_up));
        process(&mut whole, &log[..at]).expect("within limits");
        let bytes = postcard::to_allocvec(&whole.image()).expect("serialises");
        let image = postcard::from_bytes(&bytes).expect("what was written");
        let point = resume(whole.next_offset().0, whole.next_offset().0, false);
        let last = whole.last_record();
        let mut restored =
            PartitionTask::restore(loose, Partition(5), &point, last, image).expect("the same configuration");
        prop_assert_eq!(postcard::to_allocvec(&restored.image()).expect("serialises"), bytes);
        prop_assert_eq!(process(&mut restored, &log), process(&mut whole, &log));
        prop_assert_eq!(restored.provisional(), whole.provisional());
        prop_assert_eq!(restored.last_record(), whole.last_record());
        let images = [&restored, &whole].map(|task| postcard::to_allocvec(&task.image()).expect("serialises"));
        prop_assert_eq!(&images[0], &images[1]);
    }

    /// Checksums keep rot out, not forgery: what they would let in must not panic, now or later.
    #[test]
    fn a_forged_state_is_refused_or_goes_on_without_a_panic(
        log in logs(),
        at in 0usize..60,
        forged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        profile in prop::sample::select(vec![Profile::Paper, Profile::Vllm, Profile::Sglang]),
    ) {
        let at = at.min(log.len());
        let mut loose = config();
        loose.dead_letters.max_consecutive = 100;
        // A bound that is passed, so that there are forgotten pages to forge.
        let max_tracked_pages = PageCount(if profile == Profile::Sglang { 1 << 16 } else { 6 });
        let tiers = if profile == Profile::Sglang { vec![] } else { loose.pools.default_pool().tiers.clone() };
        let pool = loose.pools.default_pool().clone();
        let pool = PoolConfig { cache: CacheConfig { profile, max_tracked_pages, ..pool.cache }, tiers, ..pool };
        loose.pools = PoolConfigs::new(pool, []).expect("usable").into();
        let loose = Arc::new(loose);
        let told = |(pool, value): &Request| {
            (*pool, value.replace('}', r#","output_tokens":9,"duration_ms":900}"#))
        };
        let log: Vec<Request> = log.iter().map(told).collect();
        let mut source = PartitionTask::new(Arc::clone(&loose), Partition(5), &resume(0, 0, false));
        process(&mut source, &log[..at]).expect("within limits");
        prop_assert_eq!(source.pools().is_empty(), log[..at].iter().all(|(_, value)| value == "broken"));
        let mut bytes = postcard::to_allocvec(&source.image()).expect("serialises");
        for (place, value) in forged {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(image) = postcard::from_bytes(&bytes) {
            let point = resume(at as i64, at as i64, false);
            if let Ok(mut task) = PartitionTask::restore(loose, Partition(5), &point, None, image) {
                let _ = process(&mut task, &log);
                task.provisional();
            }
        }
    }

    /// Refused records of the muted range count as they did in the life that published them, so the
    /// limits stop every life at the same record, with the same outputs before it.
    #[test]
    fn a_life_with_restarts_is_stopped_by_the_limits_where_an_undisturbed_one_is(
        log in prop::collection::vec(prop::bool::weighted(0.5), 1..40),
        (snapshot, committed) in (0usize..40, 0usize..40),
        (max_consecutive, share) in (1u32..6, prop::sample::select(vec!["0.4", "0.6", "1"])),
    ) {
        let log: Vec<Request> = log.into_iter().zip(0..).map(|(refused, i)| match refused {
            true => ("a", "broken".to_owned()),
            false => request("a", 400 * i, &[1]),
        }).collect();
        let limits = DeadLetterLimits { max_consecutive, max_share: share.parse().expect("a share"), share_window: 7 };
        let strict = Arc::new(TaskConfig { dead_letters: limits, ..config() });
        let new = |publish_from| {
            PartitionTask::new(Arc::clone(&strict), Partition(5), &resume(0, publish_from, false))
        };
        // Feeds one by one: what was given out before a stop counts.
        let live = |task: &mut PartitionTask, log: &[Request]| {
            let mut outputs = Vec::new();
            for end in 1..=log.len() {
                match process(task, &log[..end]) {
                    Ok(more) => outputs.extend(more.into_iter().map(|output| (end, output))),
                    Err(error) => return (outputs, Some((task.next_offset(), error))),
                }
            }
            (outputs, None)
        };
        let (outputs, stop) = live(&mut new(0), &log);
        // The commit lies before the stop, the snapshot before the commit.
        let committed = committed.min(stop.as_ref().map_or(log.len(), |(at, _)| at.0 as usize));
        let snapshot = snapshot.min(committed);
        let mut before = new(0);
        process(&mut before, &log[..snapshot]).expect("within limits");
        let bytes = postcard::to_allocvec(&before.image()).expect("serialises");
        let at = resume(snapshot as i64, committed as i64, false);
        let image = postcard::from_bytes(&bytes).expect("what was written");
        let mut restored = PartitionTask::restore(Arc::clone(&strict), Partition(5), &at, before.last_record(), image)
            .expect("the same configuration");
        let rest: Vec<_> = outputs.into_iter().filter(|(end, _)| *end > committed).collect();
        prop_assert_eq!(live(&mut restored, &log), (rest.clone(), stop.clone()));
        prop_assert_eq!(live(&mut new(committed as i64), &log), (rest, stop));
    }

    /// No clock, no randomness, no order of a hash map enters the bytes.
    #[test]
    fn the_same_log_gives_the_same_bytes(log in logs()) {
        let mut loose = config();
        loose.dead_letters.max_consecutive = 100;
        let run = || {
            let mut task = PartitionTask::new(Arc::new(loose.clone()), Partition(5), &resume(0, 0, false));
            process(&mut task, &log)
        };
        prop_assert_eq!(run(), run());
    }
}

/// Two instances that each have a part of one pool.
#[test]
fn a_pool_in_two_partitions_publishes_under_two_keys_and_one_fingerprint() {
    let log: Vec<_> = (0..12).map(|i| request("a", 400 * i, &[1, 2])).collect();
    let published = [5, 6].map(|partition| {
        let mut task = PartitionTask::new(Arc::new(config()), Partition(partition), &resume(0, 0, false));
        let published = process(&mut task, &log).expect("within limits");
        let told = [estimates(&published), task.provisional(), task.latest().expect("readable")].concat();
        assert!(
            told.iter().all(|estimate| estimate.fingerprint == config().fingerprint),
            "that of the settings"
        );
        published.into_iter().map(|output| output.key.expect("a key")).collect::<Vec<_>>()
    });
    assert_eq!(published[0].len(), published[1].len());
    assert!(!published[0].is_empty() && published[0].iter().all(|key| !published[1].contains(key)));
}

/// A run that counts from `count_from` on, warmed up by the records from `begin` on.
fn warmed_up(begin: i64, count_from: i64) -> Resume {
    let count_from = NextOffset(count_from);
    Resume { count_from, publish_from: count_from, ..resume(begin, begin, begin > 0) }
}

#[test]
fn records_that_warm_up_fill_the_cache_and_count_nowhere() {
    let log: Vec<_> = (0..12).map(|i| request("a", 400 * i, &[1, 2])).collect();
    let mut task = PartitionTask::new(Arc::new(config()), Partition(5), &warmed_up(2, 6));
    let published = estimates(&process(&mut task, &log).expect("within limits"));
    let first = published.first().expect("windows closed");
    assert_eq!((first.window.to_string().as_str(), first.start_ms, first.requests), ("tumbling:1s", 2000, 2));
    assert_eq!(first.theoretical.page_hits, 4, "a warm cache");
    assert!(published.iter().all(|estimate| estimate.first_offset >= 6));
    // The record at 2000 ms, the last one that did not count, lies in the first window.
    let marked = |estimate: &Estimate| match estimate.window {
        WindowKind::All => true,
        WindowKind::Last { requests } => estimate.requests < u64::from(requests),
        _ => estimate.start_ms <= 2000,
    };
    assert!(published.iter().all(|estimate| estimate.warm_up == marked(estimate)), "{published:#?}");
    assert!(published.iter().any(|estimate| !estimate.warm_up), "some are whole");
}

proptest! {
    /// With everything before as warm-up, what is not marked is what a run over the whole log publishes,
    /// apart from what follows from windows before: late records, and trends.
    #[test]
    fn whole_windows_of_a_run_from_the_middle_are_those_of_the_whole_run(
        log in logs(), count_from in 0i64..60, cut in 0usize..60,
    ) {
        let loose = Arc::new(TaskConfig {
            dead_letters: DeadLetterLimits { max_consecutive: 1000, max_share: Ratio::ONE, share_window: 100 },
            ..config()
        });
        let punctual = |published: Vec<OutputRecord>| -> Vec<Estimate> {
            let found = estimates(&published).into_iter();
            found.map(of_its_window_alone).collect()
        };
        let mut whole = PartitionTask::new(Arc::clone(&loose), Partition(5), &resume(0, 0, false));
        let whole = punctual(process(&mut whole, &log).expect("within limits"));
        let resume = warmed_up(0, count_from);
        let mut part = PartitionTask::new(Arc::clone(&loose), Partition(5), &resume);
        // Half-way it is restored from a snapshot.
        let cut = cut.min(log.len());
        let mut published = process(&mut part, &log[..cut]).expect("within limits");
        let bytes = postcard::to_allocvec(&part.image()).expect("serialises");
        let image = postcard::from_bytes(&bytes).expect("what was written");
        let at = Resume { replay_from: NextOffset(cut as i64), ..resume };
        let mut part = PartitionTask::restore(loose, Partition(5), &at, part.last_record(), image).expect("the same");
        published.extend(process(&mut part, &log).expect("within limits"));
        let published = punctual(published);
        for estimate in published.iter().filter(|estimate| !estimate.warm_up) {
            prop_assert!(whole.contains(estimate), "{:#?}", estimate);
        }
        for estimate in whole.iter().filter(|estimate| {
            matches!(estimate.window, WindowKind::Tumbling { .. }) && estimate.next_offset > count_from
        }) {
            let key = |other: &&Estimate| (&other.pool, other.window, other.end_ms) == (&estimate.pool, estimate.window, estimate.end_ms);
            let found = published.iter().find(key);
            let whole = found.is_some_and(|found| found == estimate);
            let marked = found.is_some_and(|found| found.warm_up);
            let before = estimate.first_offset < count_from;
            prop_assert!(whole || marked || before, "{:#?}", estimate);
        }
    }
}

#[test]
fn each_pool_is_sampled_at_its_own_rate() {
    let general = config();
    let pool = general.pools.default_pool().clone();
    let sampled = PoolConfig {
        cache: CacheConfig { sample_rate: Ratio::per_mille(250), ..pool.cache.clone() },
        ..pool.clone()
    };
    let pools = PoolConfigs::new(pool, [("sampled".to_owned(), sampled)]).expect("usable").into();
    let config = Arc::new(TaskConfig { pools, ..general });
    let ids: Vec<u64> = (1..=4000).collect();
    let turn = |time| ["sampled", "whole"].map(|pool| request(pool, time, &ids));
    let log = [turn(100), turn(200), turn(5000)].concat();
    let mut task = PartitionTask::new(config, Partition(5), &resume(0, 0, false));
    let published = estimates(&process(&mut task, &log).expect("within limits"));
    let of = |name: &str| published.iter().rfind(|estimate| estimate.pool == name).expect("published");
    let required = |estimate: &Estimate| estimate.required[0].max_pages.expect("within the bound");
    let (sampled, whole) = (of("sampled"), of("whole"));
    assert_eq!((whole.sample_rate, whole.sample_error, required(whole)), (1.0, 0.0, 4000));
    assert_eq!((sampled.sample_rate, required(sampled) % 4), (0.25, 0), "a multiple of one followed page");
    // Some 1000 pages are followed, so one standard error is 2.7 %.
    assert!((0.025..0.03).contains(&sampled.sample_error), "{}", sampled.sample_error);
    assert!(required(sampled).abs_diff(4000) < 400, "{}", required(sampled));
}
