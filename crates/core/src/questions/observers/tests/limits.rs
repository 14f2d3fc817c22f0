//! What questions refuse, and what they leave out.

use super::*;

fn reuse(reuse: ReuseSetting) -> Questions {
    Questions { reuse, ..Questions::default() }
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let refused = |questions: Questions, part: &str| {
        let config = PoolConfig { questions, ..PoolConfig::default() };
        let error = config.check().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    let ttls = |count: u64| (1..=count).map(|ms| format!("{ms}s").parse().expect("a time")).collect();
    refused(
        reuse(ReuseSetting { ttls: ttls(17), ..ReuseSetting::default() }),
        "`ttls` has 17 entries: at most 16",
    );
    let capacities: Vec<_> = (1..=65).map(|pages| format!("{pages}p").parse().expect("pages")).collect();
    let many = PoolConfig {
        cache: CacheConfig { capacities, ..CacheConfig::default() },
        questions: reuse(ReuseSetting { ttls: ttls(2), ..ReuseSetting::default() }),
        ..PoolConfig::default()
    };
    assert!(many.check().expect_err("many").to_string().contains("list at most 64 in `capacities`"));
    let none = PoolConfig {
        questions: reuse(ReuseSetting { ttls: ttls(2), ..ReuseSetting::default() }),
        ..PoolConfig::default()
    };
    assert_eq!((none.check(), none.curve_capacities().len()), (Ok(()), 15), "a coarse grid");
    refused(reuse(ReuseSetting { traffic: true, ..ReuseSetting::default() }), "set at least two `tiers`");
    refused(
        reuse(ReuseSetting { prefill_rate: Some(1.0), ..ReuseSetting::default() }),
        "`prefill_rate` is 1",
    );
    let few = PoolConfig {
        cache: CacheConfig { capacities: vec!["9p".parse().expect("pages")], ..CacheConfig::default() },
        ..PoolConfig::default()
    };
    let refused_of_few = |questions: Questions, windows: &str, part: &str| {
        let windows = vec![windows.parse().expect("a window")];
        let error = PoolConfig { questions, windows, ..few.clone() }.check().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused_of_few(
        reuse(ReuseSetting { tenants: Some(0), ..ReuseSetting::default() }),
        "all",
        "`tenants` is 0: expected 1 to 100",
    );
    refused_of_few(
        reuse(ReuseSetting { ttls: ttls(1), ..ReuseSetting::default() }),
        "last:65537",
        "at most last:65536",
    );
    let twice = [ttls(1), ttls(1)].concat();
    refused_of_few(
        reuse(ReuseSetting { ttls: twice, ..ReuseSetting::default() }),
        "all",
        "`ttls` names 1s twice",
    );
    refused(enabled(&["logged"; 9], false), "`routers` has 9 entries: at most 8");
    refused(enabled(&["hash:2:tenant", "logged", "hash:2:tenant"], false), "names hash:2:tenant twice");
    for router in ["hash:2", "hash:2:session"] {
        refused(enabled(&[router], false), &format!("has {router}, which goes by the session"));
    }
    let in_bytes = Some("1GiB".parse().expect("a size"));
    refused(Questions { provisioned: in_bytes, ..enabled(&[], true) }, "`provisioned` is 1GiB");
    let of = |questions: Questions| PoolConfig {
        cache: CacheConfig { profile: Profile::Sglang, ..CacheConfig::default() },
        questions,
        ..PoolConfig::default()
    };
    assert_eq!(of(enabled(&[], true)).check(), Ok(()), "by single capacities");
    let routed = of(enabled(&["logged"], true)).check().expect_err("no stack").to_string();
    assert!(routed.starts_with("`routers` needs an engine"), "{routed}");
}

/// More names than are followed: the pool goes on, and says how many requests it left out.
#[test]
fn requests_of_too_many_replicas_are_left_out_and_counted() {
    let config = PoolConfig {
        windows: vec![WindowKind::All],
        questions: enabled(&["logged"], true),
        ..config(None, Ratio::ONE)
    };
    let mut set = PoolSet::new(set_config(&config), PoolHistory::Whole);
    for index in 0..1100_usize {
        let (name, ids) = (format!("pod-{index}"), [1, 2]);
        let event = RequestEvent {
            event_time: EventTime(index as i64),
            page_ids: PageIds::from_slice(&ids),
            cached_tokens: Some(0).into(),
            labels: Labels::from_iter([(Label::Replica, name.as_str())]),
            ..RequestEvent::default()
        };
        observe(&mut set, index + 3, &event);
    }
    let estimates = set.provisional(Offset(0));
    let measured = estimates[0].measured.as_ref().expect("asked");
    assert_eq!((measured.requests, measured.requests_left_out, measured.replicas), (1024, 76, 1024));
    assert_eq!(estimates[0].routing[0].required[0].requests, 1024);
    assert_eq!(estimates[0].requests, 1100);
}

/// The caches that have answers once were read back without what they knew of ids, and took an event's word for them.
#[test]
fn restored_caches_of_answers_take_no_word_that_they_had_ceased_to_take() {
    let watched = (1..).find(|id| ChainCheck::Sampled.watches(Scope::GLOBAL, *id)).expect("one in 256");
    let config = PoolConfig {
        windows: vec![WindowKind::All],
        tiers: Vec::new(),
        questions: enabled(&[], true),
        ..config(None, Ratio::ONE)
    };
    let request = |set: &mut PoolSet, index: usize, ids: [u64; 4], ids_chained: bool| {
        let page_ids = PageIds::from_slice(&ids);
        let cached_tokens = Some(0).into();
        let event = RequestEvent { page_ids, ids_chained, cached_tokens, ..RequestEvent::default() };
        observe(set, index, &event);
    };
    let mut set = PoolSet::new(set_config(&config), PoolHistory::Whole);
    request(&mut set, 0, [1, watched, 2, 5], false);
    request(&mut set, 3, [3, watched, 2, 5], false);
    let restored = restore(&config, &bytes(&set)).expect("the same configuration");
    let unlimited = [set, restored].map(|mut set| {
        request(&mut set, 6, [21, 22, 23, 24], true);
        request(&mut set, 9, [21, 99, 23, 24], true);
        let estimates = set.provisional(Offset(0));
        estimates.iter().map(|found| found.measured.as_ref().map(|all| all.ledger.unlimited_pages)).collect()
    });
    let [set, restored]: [Vec<_>; 2] = unlimited;
    assert_eq!(set, [Some(1)], "21 alone");
    assert_eq!(restored, set);
}
