//! What counts as evidence: new requests and event time, not the same requests in one window after another.

use super::super::*;
use super::{PAGE_SIZE, ratios};
use crate::engines::config::CacheConfig;
use crate::sizing::recommendation::RecommendationStatus;
use crate::sizing::tiers::{Settled, TrendRules};
use crate::units::pages::{PageIds, mix};

const MINUTE_MS: i64 = 60_000;

fn config() -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(PAGE_SIZE),
            coverages: ratios(&["0.5", "0.99"]),
            ..CacheConfig::default()
        },
        tiers: vec!["hbm:0.99:20p".parse().expect("a tier")],
        ..PoolConfig::default()
    }
}

/// A request every 20 seconds: sessions that grow turn by turn, many by day and few by night.
fn published(config: PoolConfig, requests: i64) -> Vec<Estimate> {
    let (mut watermark, lateness) = (None, config.allowed_lateness_ms as i64);
    let mut pool = Pool::new("p", 0, Arc::new(config)).expect("usable");
    let mut estimates = Vec::new();
    for offset in 0..requests {
        let time = offset * 20_000;
        let day = (time as f64 / 86_400_000.0 * std::f64::consts::TAU).sin();
        let chance = mix(offset as u64);
        let session = chance % (33.0 + 30.0 * day) as u64;
        // A session begins anew now and then.
        let turns = (offset as u64 / 40 + session * 7) % 24;
        let life = session << 40 | (offset as u64 / 960 + session) << 20;
        let ids: Vec<u64> = (0..=turns * 2).map(|page| life | page).collect();
        let event = RequestEvent {
            event_time: EventTime(time),
            page_ids: PageIds::from_slice(&ids),
            ..RequestEvent::default()
        };
        let arrival = Arrival { offset: Offset(offset), counted: true, watermark };
        pool.observe(&event, arrival).expect("accepted");
        let now = EventTime(time - lateness);
        watermark = Some(now);
        if pool.next_deadline().is_some_and(|due| due <= now) {
            pool.advance_watermark(now, Offset(offset + 1), &mut estimates);
        }
    }
    estimates
}

/// A pool that needs 56 GiB was `converged` at 4.3 after 39 requests: a dozen windows held the same ones.
#[test]
fn a_pool_of_39_requests_recommends_nothing_and_has_not_converged() {
    let estimates = published(config(), 39);
    assert!(estimates.iter().filter(|estimate| estimate.act_on).count() > 10, "one a minute");
    for estimate in &estimates {
        assert_eq!(estimate.trend_windows, 0);
        for entry in &estimate.recommended {
            assert_eq!((entry.status, entry.pages), (RecommendationStatus::TooFew, None));
            assert_eq!(entry.convergence, Settled::NotConverged);
        }
        let tier = &estimate.plan.as_ref().expect("a tier").tiers[0];
        assert_eq!(
            (tier.recommended.units, tier.recommendation_changed),
            (None, false),
            "{}",
            estimate.window
        );
    }
}

/// Automation that followed the plan would have resized 199 times in 2.5 days.
#[test]
fn what_automation_follows_changes_a_few_times_in_days_of_traffic_that_rises_and_falls() {
    const REQUESTS: i64 = 10_800;
    let estimates = published(config(), REQUESTS);
    for kind in config().windows {
        let of_kind: Vec<_> = estimates.iter().filter(|estimate| estimate.window == kind).collect();
        let tiers = of_kind.iter().filter_map(|estimate| Some(&estimate.plan.as_ref()?.tiers[0]));
        let planned: Vec<_> = tiers.clone().map(|tier| tier.planned.units).collect();
        let moves = planned.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let changes = tiers.filter(|tier| tier.recommendation_changed).count();
        match kind {
            WindowKind::Tumbling { .. } => {
                assert!(moves > 100, "{kind}: {moves}: windows of fifteen requests differ");
                assert_eq!(changes, 0, "{kind}: none of them holds requests enough");
            }
            _ => assert!((1..=8).contains(&changes), "{kind}: {changes} of {moves}"),
        }
    }
    let converged = |estimate: &&Estimate| estimate.recommended[1].convergence == Settled::Converged;
    let first = estimates.iter().filter(|estimate| estimate.act_on).find(converged);
    let least = config().min_requests + config().min_requests;
    assert!(
        first.is_none_or(|first| first.next_offset as u64 >= least),
        "a thousand to begin with, and as many new"
    );
}

/// A window whose times jump shows the same requests once more.
#[test]
fn time_alone_is_no_evidence() {
    let trend = TrendRules { step_ms: MINUTE_MS as u64, ..TrendRules::default() };
    let few = PoolConfig { min_requests: 30, trend, ..config() };
    let estimates = published(few, 60);
    let steps: Vec<u32> =
        estimates.iter().filter(|estimate| estimate.act_on).map(|estimate| estimate.trend_windows).collect();
    // Three requests a minute, and three new ones are a step where thirty are enough.
    let most = steps.iter().copied().max();
    assert_eq!(most, Some(10), "{steps:?}");
}
