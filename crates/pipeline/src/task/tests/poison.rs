//! Records that no task can use, each of which it passes and counts.

use super::*;

/// A record as it lies in the log.
fn record<'r>(offset: i64, key: &'r str, value: Option<&'r [u8]>) -> SourceRecord<'r> {
    SourceRecord {
        schema_header: None,
        topic: TOPIC,
        partition: 5,
        offset,
        timestamp_ms: Some(7),
        key: Some(key.as_bytes()),
        value,
    }
}

/// A compacted topic's run of tombstones stopped the partition at every start.
#[test]
fn tombstones_are_counted_and_passed_however_many_they_are() {
    let (mut task, mut outputs) = (task(0), Vec::new());
    for offset in 0..1000 {
        task.process_record(&record(offset, "a", None), &mut outputs).expect("passed");
    }
    assert_eq!((outputs.len(), task.pools().len(), task.next_offset()), (0, 0, NextOffset(1000)));
    let counts = task.take_counts();
    assert_eq!((counts.tombstones, counts.records, counts.refused.len()), (1000, 1000, 0));
}

/// A letter larger than its topic allows could never be delivered, so the service ended at every start.
#[test]
fn a_letter_too_large_goes_without_the_bytes_of_its_record() {
    let config = Arc::new(TaskConfig { max_letter_bytes: 9_000, ..config() });
    let mut task = PartitionTask::new(config, Partition(5), &resume(0, 0, false));
    let (large, small, key) = (vec![b'x'; 6_000], vec![b'x'; 2_000], "k".repeat(6_000));
    let mut outputs = Vec::new();
    for (offset, (key, value)) in [("a", &large), ("a", &small)].into_iter().enumerate() {
        task.process_record(&record(offset as i64, key, Some(value)), &mut outputs).expect("within limits");
    }
    task.policy.accept();
    task.process_record(&record(2, &key, Some(&small)), &mut outputs).expect("within limits");
    let bytes = |output: &OutputRecord| {
        let length = |part: &Option<Vec<u8>>| part.as_ref().map(Vec::len);
        (length(&output.key), length(&output.value))
    };
    let expected = [(Some(1), None), (Some(1), Some(2_000)), (None, None)];
    assert_eq!(outputs.iter().map(bytes).collect::<Vec<_>>(), expected);
    let header = |output: &OutputRecord, name: &str| {
        output.headers.iter().find(|(found, _)| *found == name).map(|(_, text)| text.clone())
    };
    assert_eq!(header(&outputs[0], "kvset_value_bytes").as_deref(), Some("6000"));
    assert_eq!(header(&outputs[0], "kvset_offset").as_deref(), Some("0"));
    assert!(header(&outputs[0], DeadLetter::HASH).is_some_and(|hash| hash.len() == 16));
    assert_eq!(header(&outputs[1], DeadLetter::HASH), None);
}

/// One record with a duration of 2^62 was in flight for ever.
#[test]
fn numbers_that_no_request_has_are_refused() {
    let fields = ["duration_ms", "input_tokens", "output_tokens", "cached_tokens"];
    for field in fields {
        let value = format!(r#"{{"event_time":1,"page_ids":[1],"{field}":{}}}"#, 1_u64 << 62);
        let (mut task, mut outputs) = (task(0), Vec::new());
        task.process_record(&record(0, "a", Some(value.as_bytes())), &mut outputs).expect("within limits");
        let code = outputs[0].headers.iter().find(|(name, _)| *name == "kvset_error_code");
        assert_eq!(code.map(|(_, code)| code.as_str()), Some("invalid_number"), "{field}");
        assert!(task.pools().is_empty());
    }
}

/// A batch that the client cannot read, passed by an operator: what follows says that it lacks something.
#[test]
fn offsets_that_cannot_be_read_are_passed_told_and_kept() {
    let log: Vec<_> = (0..12).map(|i| request("a", 700 * i, &[1, i as u64 + 2])).collect();
    let mut gaps = OffsetGaps::default();
    gaps.insert(OffsetGap::new(4, 6).expect("a range"));
    let run = |publish_from: i64| {
        let mut task = task(publish_from);
        task.pass(gaps.clone());
        let mut outputs = Vec::new();
        for record in records(&log, NextOffset(0)).filter(|record| !(4..6).contains(&record.offset)) {
            task.process_record(&record, &mut outputs).expect("within limits");
        }
        (task, outputs)
    };
    let (mut passed, outputs) = run(0);
    let letters: Vec<_> =
        outputs.iter().filter(|output| output.destination == Destination::DeadLetters).collect();
    assert_eq!(letters.len(), 1);
    for header in [("kvset_error_code", "unreadable"), ("kvset_offset", "4"), (DeadLetter::LAST_OFFSET, "5")]
    {
        assert!(letters[0].headers.contains(&(header.0, header.1.to_owned())), "{:?}", letters[0].headers);
    }
    let all = estimates(&outputs).into_iter().filter(|estimate| estimate.window == WindowKind::All);
    let (before, behind): (Vec<_>, Vec<_>) = all.partition(|estimate| estimate.next_offset <= 4);
    assert!(!before.is_empty() && before.iter().all(|estimate| !estimate.warm_up));
    assert!(!behind.is_empty() && behind.iter().all(|estimate| estimate.warm_up));
    assert_eq!(passed.take_counts().refused[&ErrorCode::Unreadable], 1);
    let (muted, outputs) = run(12);
    assert!(outputs.is_empty(), "it was told before");
    let bytes = |task: &PartitionTask| postcard::to_allocvec(&task.image()).expect("serialises");
    assert_eq!(bytes(&muted), bytes(&passed), "a function of the log and its gaps");
    let image: RestoredTask = postcard::from_bytes(&bytes(&passed)).expect("what was written");
    assert_eq!(image.gaps(), [OffsetGap { start: 4, end: 6 }]);
    let mut restored =
        PartitionTask::restore(Arc::new(config()), Partition(5), &resume(12, 12, false), None, image)
            .expect("the same");
    restored.pass(gaps.clone());
    let mut outputs = Vec::new();
    let value = request("a", 9_000, &[1]).1;
    restored.process_record(&record(12, "a", Some(value.as_bytes())), &mut outputs).expect("within limits");
    assert!(outputs.iter().all(|output| output.destination == Destination::Results), "it was told once");
}

/// Of 2,400 records a compacted topic kept 4, and the state that was rebuilt of them was taken for whole.
#[test]
fn a_state_that_is_rebuilt_of_far_fewer_records_than_there_are_offsets_lacks_something() {
    let log: Vec<_> = (0..300).map(|i| request("a", 70 * i, &[1, i as u64 + 2])).collect();
    let published = |kept: &dyn Fn(i64) -> bool| {
        let mut task = PartitionTask::new(Arc::new(config()), Partition(5), &resume(0, 250, false));
        let mut outputs = Vec::new();
        for record in
            records(&log, NextOffset(0)).filter(|record| record.offset >= 250 || kept(record.offset))
        {
            task.process_record(&record, &mut outputs).expect("within limits");
        }
        let thin = task.take_counts().thin_rebuild;
        let all = estimates(&outputs).into_iter().filter(|estimate| estimate.window == WindowKind::All);
        let all: Vec<_> = all.map(|estimate| estimate.warm_up).collect();
        assert!(!all.is_empty());
        (thin, all.into_iter().all(|warm_up| warm_up))
    };
    assert_eq!(published(&|_| true), (None, false));
    assert_eq!(published(&|offset| offset % 2 == 0), (None, false), "a transaction a record");
    assert_eq!(published(&|offset| offset % 60 == 59), (Some((4, 250)), true));
}

#[test]
fn windows_that_reach_back_to_missing_records_are_marked() {
    let log: Vec<_> = (0..8).map(|i| request("a", 700 * i, &[1, i as u64 + 2])).collect();
    let mut task = PartitionTask::new(Arc::new(config()), Partition(5), &resume(2, 2, true));
    let published = estimates(&process(&mut task, &log).expect("within limits"));
    let (early, late): (Vec<_>, Vec<_>) = published.iter().partition(|estimate| estimate.start_ms <= 1400);
    assert!(!early.is_empty() && early.iter().all(|estimate| estimate.warm_up));
    assert!(!late.is_empty() && late.iter().all(|estimate| !estimate.warm_up));
}

/// A log of one pool that is fine, with runs of others' records in between; the same with tombstones in their place.
fn beside(
    others: impl Fn(i64) -> Option<(&'static str, String)>,
) -> [Vec<(Option<&'static str>, String)>; 2] {
    let mut logs = [Vec::new(), Vec::new()];
    for i in 0..400 {
        let (theirs, fine) = (others(i), i % 40 == 0);
        let own = || (Some("a"), request("a", 70 * i, &[1, i as u64 + 2]).1);
        let [log, alone] = &mut logs;
        match theirs.filter(|_| !fine) {
            Some((key, value)) => {
                log.push((Some(key), value));
                alone.push((None, String::new()));
            }
            None => {
                log.push(own());
                alone.push(own());
            }
        }
    }
    logs
}

fn run_beside(log: &[(Option<&'static str>, String)]) -> (PartitionTask, Vec<OutputRecord>) {
    let (mut task, mut outputs) = (task(0), Vec::new());
    for (offset, (key, value)) in (0..).zip(log) {
        let value = key.map(|_| value.as_bytes());
        task.process_record(&record(offset, key.unwrap_or("gone"), value), &mut outputs).expect("it goes on");
    }
    outputs.retain(|output| output.destination == Destination::Results);
    (task, outputs)
}

/// A thousand records in a row of a newcomer without `page_size` ended every instance of the group at every start.
#[test]
fn what_is_refused_of_one_pool_disturbs_no_other() {
    let of = |size: &str| format!(r#"{{"event_time":7,"page_ids":[1]{size}}}"#);
    let kinds: [&dyn Fn(i64) -> Option<(&'static str, String)>; 5] = [
        &|_| Some(("newcomer", "no request at all".to_owned())),
        &|_| Some(("newcomer", r#"{"page_ids":[1]}"#.to_owned())),
        &|i| Some(("newcomer", of(if i == 1 { r#","page_size":16"# } else { r#","page_size":32"# }))),
        // More pools than the task may have.
        &|i| Some((["b", "c", "d", "e", "f"][i as usize % 5], of(""))),
        // Several that nobody can read.
        &|i| Some((["b", "c", "d", "e", "f"][i as usize % 5], "no request at all".to_owned())),
    ];
    for (kind, others) in kinds.into_iter().enumerate() {
        let [log, alone] = beside(others);
        let ((mut task, with), (_, without)) = (run_beside(&log), run_beside(&alone));
        let of_a = |outputs: &[OutputRecord]| {
            let own = outputs.iter().filter(|output| output.placed_by.as_deref() == Some("a"));
            own.cloned().collect::<Vec<_>>()
        };
        assert!(of_a(&without).len() > 4);
        assert_eq!(of_a(&with), of_a(&without), "kind {kind}");
        let counts = task.take_counts();
        assert!(counts.refused_pools.iter().all(|(pool, _)| pool != "a"), "kind {kind}");
        let over = counts.refused_pools.iter().filter(|(_, refused)| refused.is_over_limit);
        assert!(over.count() > 0, "kind {kind}: {:?}", counts.refused_pools);
    }
}

/// Garbage under keys of pools that were fine before, or under none, is everybody's.
#[test]
fn a_partition_of_which_nothing_can_be_read_any_more_is_held_whoever_restarts_in_between() {
    let garbage = |offset, key| SourceRecord { key, ..record(offset, "", Some(b"no request at all")) };
    let pools = ["a", "b"];
    for broken in
        [&[Some("a"), Some("b")][..], &[None], &[Some("c"), None], &[Some("b"), Some("a"), Some("c")]]
    {
        let mut task = task(0);
        let mut outputs = Vec::new();
        for (offset, pool) in (0..).zip(pools) {
            let value = request(pool, 0, &[1]).1;
            task.process_record(&record(offset, pool, Some(value.as_bytes())), &mut outputs).expect("fine");
        }
        // Two in a row are tolerated.
        let mut stops = Vec::new();
        for offset in 2..8 {
            let key = broken[offset as usize % broken.len()].map(str::as_bytes);
            if task.process_record(&garbage(offset, key), &mut outputs).is_err() {
                stops.push(offset);
                break;
            }
            let bytes = postcard::to_allocvec(&task.image()).expect("serialises");
            let image = postcard::from_bytes(&bytes).expect("what was written");
            let at = task.next_offset().0;
            task =
                PartitionTask::restore(Arc::new(config()), Partition(5), &resume(at, at, false), None, image)
                    .expect("the same");
        }
        assert_eq!(stops, [4], "{broken:?}");
    }
    // Nobody can read what is under one of the keys, or under none but with a name of its own.
    let (mut single, mut outputs) = (task(0), Vec::new());
    for (offset, pool) in (0..).zip(pools) {
        let value = request(pool, 0, &[1]).1;
        single.process_record(&record(offset, pool, Some(value.as_bytes())), &mut outputs).expect("fine");
    }
    let named = br#"{"pool":"c","event_time":99999999999999999,"page_ids":[1]}"#;
    for offset in 2..40 {
        let own = SourceRecord { key: None, ..record(offset, "", Some(named)) };
        let broken = if offset % 2 == 0 { garbage(offset, Some(b"a")) } else { own };
        single.process_record(&broken, &mut outputs).expect("b can be read");
    }
}
