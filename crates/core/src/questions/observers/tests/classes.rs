//! What retention classes hold and find, compared with a cache that is kept page by page, and with tenants of the
//! same names.

use super::emptied::found_page_by_page;
use super::*;
use crate::questions::retention_classes::RetentionClassEstimate;

const CLASSES: [Option<&str>; 4] = [None, Some("5m"), Some("1h"), Some("priority-80")];

fn config_of(provisioned: Option<u64>, sample_rate: Ratio) -> PoolConfig {
    let config = config(provisioned, sample_rate);
    let questions = Questions {
        provisioned: config.questions.provisioned.clone(),
        reuse: ReuseSetting { tenants: Some(100), ..ReuseSetting::default() },
        retention_classes: true,
        ..Questions::default()
    };
    let cache = CacheConfig { profile: Profile::Paper, ..config.cache };
    PoolConfig { cache, tiers: Vec::new(), questions, ..config }
}

fn event<'a>(time: i64, ids: &'a [u64], class: usize) -> RequestEvent<'a> {
    let named = [Label::Tenant, Label::RetentionClass].map(|label| Some((label, CLASSES[class]?)));
    RequestEvent {
        event_time: EventTime(time),
        page_ids: PageIds::from_slice(ids),
        labels: named.into_iter().flatten().collect(),
        ..RequestEvent::default()
    }
}

/// What the service publishes of a log, with how many requests had come by then; it is stopped and goes on at `cut`.
fn published(config: &PoolConfig, log: &[(i64, Vec<u64>, usize)], cut: usize) -> Vec<(usize, Estimate)> {
    let lives = PoolSetConfig { idle_timeout_ms: None, put_aside_after_ms: None, ..set_config(config) };
    let mut set = PoolSet::new(lives, PoolHistory::Whole);
    let mut published = Vec::new();
    for (index, (time, ids, class)) in log.iter().enumerate() {
        if index == cut {
            set = restore(config, &bytes(&set)).expect("the same configuration");
        }
        let event = event(*time, ids, *class);
        let record = PoolRecord::in_order("pool", &event, Offset(index as i64), true);
        let mut shown = Vec::new();
        set.observe(record, &mut shown).expect("accepted");
        published.extend(shown.into_iter().map(|estimate| (index + 1, estimate)));
    }
    let mut shown = Vec::new();
    set.finish(Offset(99), &mut shown);
    published.extend(shown.into_iter().map(|estimate| (log.len(), estimate)));
    published
}

proptest! {
    #[test]
    fn every_window_says_what_each_class_finds_page_by_page_and_holds_as_a_tenant_does(
        requests in chained_requests(50), about in prop::collection::vec((0i64..30, 0usize..4), 50),
        cut in any::<prop::sample::Index>(), provisioned in prop::option::of(prop_oneof![1u64..30, Just(9), Just(1 << 40)]),
    ) {
        let config = config_of(provisioned, Ratio::ONE);
        let about = about.into_iter().scan(1_000_000_000_000_i64, |now, (gap, class)| { *now += gap; Some((*now, class)) });
        let log: Vec<_> = about.zip(requests).map(|((time, class), ids)| (time, ids, class)).collect();
        let plain: Vec<(i64, Vec<u64>)> = log.iter().map(|(time, ids, _)| (*time, ids.clone())).collect();
        for (seen, estimate) in published(&config, &log, cut.index(log.len())) {
            let classes = estimate.retention_classes.as_ref().expect("asked");
            let is_in = |(place, time): (usize, i64)| match estimate.window {
                WindowKind::Last { requests } => place < seen && place + requests as usize >= seen,
                WindowKind::All => place < seen,
                _ => (estimate.start_ms..estimate.end_ms).contains(&time),
            };
            let told: u64 = classes.iter().map(|class| class.requests).sum();
            prop_assert_eq!(told, estimate.requests);
            let known = provisioned.filter(|pages| *pages <= 64);
            for class in classes {
                let is_own = |at: &usize| CLASSES[log[*at].2] == class.class.as_deref() && is_in((*at, log[*at].0));
                let own: Vec<usize> = (0..log.len()).filter(is_own).collect();
                prop_assert_eq!(class.requests, own.len() as u64);
                prop_assert_eq!(class.page_accesses, own.iter().map(|at| log[*at].1.len() as u64).sum::<u64>());
                prop_assert_eq!(class.sizes.first().filter(|at| at.provisioned).map(|at| at.pages), known);
                for at in &class.sizes {
                    let found = found_page_by_page(&plain, at.pages as usize, None);
                    let hits = own.iter().map(|at| found[*at] / u64::from(PAGE.get())).sum::<u64>();
                    prop_assert_eq!(at.page_hits, hits, "{} at {}", estimate.window, at.pages);
                }
            }
            check_tenants(classes, &estimate)?;
        }
    }
}

/// Where classes and tenants have the same names, what is said of them is the same.
fn check_tenants(classes: &[RetentionClassEstimate], estimate: &Estimate) -> Result<(), TestCaseError> {
    prop_assert_eq!(classes.len(), estimate.tenants.len());
    for (class, tenant) in classes.iter().zip(&estimate.tenants) {
        prop_assert_eq!((&class.class, class.requests), (&tenant.tenant, tenant.requests));
        prop_assert_eq!((class.page_accesses, class.page_hits), (tenant.page_accesses, tenant.page_hits));
        for at in &class.sizes {
            let place = estimate.capacities.iter().position(|point| point.pages == at.pages);
            let Some(place) = place else { continue };
            prop_assert_eq!(at.page_hits, tenant.capacity_page_hits[place]);
            prop_assert_eq!(at.page_milliseconds, tenant.page_milliseconds[place]);
        }
    }
    Ok(())
}

#[test]
fn a_sample_says_it_of_all_pages() {
    let rate = Ratio::per_mille(500);
    let log: Vec<_> =
        (0..40_i64).map(|turn| (turn * 5, (0..8 + turn as u64 % 3).collect(), turn as usize % 3)).collect();
    let shown = published(&config_of(Some(9), rate), &log, 7);
    let (_, last) = shown.last().expect("windows");
    let classes = last.retention_classes.as_ref().expect("asked");
    check_tenants(classes, last).expect("as tenants are");
    assert!(classes.iter().all(|class| class.sizes[0].provisioned && class.sizes[0].pages == 9));
}

#[test]
fn classes_beyond_those_reported_are_one() {
    let config = config_of(None, Ratio::ONE);
    let mut set = PoolSet::new(set_config(&config), PoolHistory::Whole);
    let names: Vec<String> = (0..20).map(|number| format!("priority-{number}")).collect();
    for (index, name) in names.iter().enumerate() {
        let labels = Labels::from_iter([(Label::RetentionClass, name.as_str())]);
        let ids = [index as u64];
        let event = RequestEvent { page_ids: PageIds::from_slice(&ids), labels, ..RequestEvent::default() };
        let record = PoolRecord::in_order("pool", &event, Offset(index as i64), true);
        set.observe(record, &mut Vec::new()).expect("accepted");
    }
    let mut shown = Vec::new();
    set.finish(Offset(99), &mut shown);
    let whole = shown.iter().find(|estimate| estimate.window == WindowKind::All).expect("all");
    let classes = whole.retention_classes.as_ref().expect("asked");
    assert_eq!(classes.len(), 17);
    let others = classes.last().expect("the others");
    assert_eq!((others.class.as_deref(), others.classes, others.requests), (Some("other"), Some(4), 4));
}
