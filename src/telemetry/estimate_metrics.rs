//! A pool's newest estimate as gauges.

use crate::telemetry::catalog as metric;
use crate::telemetry::shown::GaugeSet;
use kvset_core::estimate::Estimate;
use kvset_core::questions::worth::WorthAt;
use kvset_core::sizing::curve::share;
use kvset_core::sizing::recommendation::RecommendationStatus;
use kvset_core::sizing::tiers::Settled;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::{PageBytes, PageCount};

const SECONDS_AN_HOUR: f64 = 3600.0;

const MS_A_SECOND: f64 = 1000.0;

/// Shows a closed window as gauges: its figures, what it recommends, and what was requested alongside.
pub(super) fn show_estimate(shown: &mut GaugeSet, pool: &str, estimate: &Estimate) {
    show_figures(shown, pool, estimate);
    show_recommendation(shown, pool, estimate);
    show_measured(shown, pool, estimate);
    show_routing(shown, pool, estimate);
    show_worth(shown, pool, estimate);
}

fn show_figures(shown: &mut GaugeSet, pool: &str, estimate: &Estimate) {
    let window = estimate.window.to_string();
    shown.set(metric::TRACKED_PAGES, &[pool], estimate.tracked_pages as f64);
    shown.set(metric::ACCUMULATED_CAPACITY_PAGES, &[pool], estimate.accumulated_pages as f64);
    shown.set_known(metric::ACCUMULATED_CAPACITY_BYTES, &[pool], float(estimate.accumulated_bytes));
    shown.set(metric::THEORETICAL_HIT_RATE, &[pool, &window], estimate.theoretical.prefix_hit_rate);
    shown.set(metric::WINDOW_REQUESTS, &[pool, &window], estimate.requests as f64);
    shown.set_flag(metric::WARM_UP, &[pool, &window], estimate.warm_up);
    if let Some(in_flight) = &estimate.in_flight {
        shown.set(metric::IN_FLIGHT_REQUESTS, &[pool, &window], in_flight.max_requests as f64);
        shown.set_known(metric::IN_FLIGHT_PAGES, &[pool, &window], float(in_flight.max_pages));
    }
    for required in &estimate.required {
        let target = required.target_ratio.to_string();
        for found in &required.coverage {
            let coverage = found.coverage.to_string();
            let labels = [pool, &window, &target, &coverage];
            let converged = found.convergence == Settled::Converged;
            shown.set_flag(metric::REQUIREMENT_CONVERGED, &labels, converged);
            shown.set(metric::REQUIRED_CAPACITY_PAGES, &labels, number(found.pages));
            if estimate.page_bytes.is_some() {
                shown.set(metric::REQUIRED_CAPACITY_BYTES, &labels, number(found.bytes));
            }
        }
    }
    for tier in estimate.plan.iter().flat_map(|plan| &plan.tiers) {
        let labels = [pool, &window, &tier.name];
        let recommended = &tier.recommended;
        for (gauge, count) in [
            (metric::TIER_RECOMMENDED_UNITS, recommended.units),
            (metric::TIER_RECOMMENDED_PAGES, recommended.pages),
            (metric::TIER_RECOMMENDED_BYTES, recommended.bytes),
        ] {
            shown.set(gauge, &labels, number(count));
        }
        shown.set(metric::TIER_RECOMMENDED_HIT_RATE, &labels, recommended.hit_rate.unwrap_or(f64::NAN));
    }
    for point in &estimate.capacities {
        // Only capacities the operator named: the default grid has a point for every step.
        let Some(capacity) = &point.label else { continue };
        let rates = [
            ("page", point.page_hit_rate),
            ("reuse", point.reuse_hit_rate),
            ("prefix", point.prefix_hit_rate),
        ];
        for (kind, rate) in rates {
            shown.set_known(metric::HIT_RATE, &[pool, &window, capacity, kind], rate);
        }
    }
}

fn float(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// A count as a gauge: one that is not known is no number, for a gauge left as it was would say otherwise.
fn number(count: Option<u64>) -> f64 {
    float(count).unwrap_or(f64::NAN)
}

/// Shows the recommendation to act on, which only one kind of window has.
fn show_recommendation(shown: &mut GaugeSet, pool: &str, estimate: &Estimate) {
    if !estimate.act_on {
        return;
    }
    let window = estimate.window.to_string();
    let entry = estimate.recommendation();
    for status in RecommendationStatus::ALL {
        let is_so = entry.is_some_and(|entry| entry.status == status);
        shown.set_flag(metric::RECOMMENDATION_STATUS, &[pool, &window, status.name()], is_so);
    }
    let Some(entry) = entry else { return };
    let coverage = entry.coverage.to_string();
    let labels = [pool, &window, &coverage];
    shown.set(metric::RECOMMENDED_PAGES, &labels, number(entry.pages));
    shown.set(metric::HELD_PAGES, &labels, number(entry.held_pages));
    if estimate.page_bytes.is_some() {
        shown.set(metric::RECOMMENDED_BYTES, &labels, number(entry.bytes));
        shown.set(metric::HELD_BYTES, &labels, number(entry.held_bytes));
    }
    if estimate.certainty.is_some() {
        for (bound, pages) in [("low", entry.low), ("high", entry.high)] {
            let labels = [pool, &window, &coverage, bound];
            shown.set(metric::RECOMMENDED_INTERVAL_PAGES, &labels, number(pages));
            if let Some(page_bytes) = estimate.page_bytes {
                let bytes = pages.map(|pages| PageCount(pages).bytes(PageBytes(page_bytes)).0);
                shown.set(metric::RECOMMENDED_INTERVAL_BYTES, &labels, number(bytes));
            }
        }
    }
    shown.set(metric::RECOMMENDED_HIT_RATE, &labels, entry.hit_rate.unwrap_or(f64::NAN));
    let converged = entry.convergence == Settled::Converged;
    shown.set_flag(metric::RECOMMENDATION_CONVERGED, &labels, converged);
}

/// Shows what the cache in use behaves like, of all its replicas together.
fn show_measured(shown: &mut GaugeSet, pool: &str, estimate: &Estimate) {
    let Some(measured) = &estimate.measured else { return };
    let window = estimate.window.to_string();
    if let Some(effective) = measured.effective_capacity {
        // Infinite where no request sets an upper bound: a gauge left as it was would say otherwise.
        let of_all = |each: u64| each.saturating_mul(measured.replicas) as f64;
        for (bound, pages) in
            [("from", of_all(effective.pages_from)), ("to", effective.pages_to.map_or(f64::INFINITY, of_all))]
        {
            shown.set(metric::EFFECTIVE_CAPACITY_PAGES, &[pool, &window, bound], pages);
            let bytes = estimate.page_bytes.map(|page_bytes| pages * page_bytes as f64);
            shown.set_known(metric::EFFECTIVE_CAPACITY_BYTES, &[pool, &window, bound], bytes);
        }
        for (by, share) in [("requests", effective.agreement), ("pages", effective.agreement_by_pages)] {
            shown.set(metric::MEASURED_AGREEMENT, &[pool, &window, by], share);
        }
    }
    let ledger = &measured.ledger;
    for (step, pages) in [
        ("accessed", Some(ledger.page_accesses)),
        ("unlimited", Some(ledger.unlimited_pages)),
        ("shared", ledger.shared_pages),
        ("routed", ledger.routed_pages),
        ("measured", Some(ledger.measured_pages)),
    ] {
        shown.set_known(metric::LEDGER_PAGES, &[pool, &window, step], float(pages));
    }
}

/// Shows what the cache is worth, at sizes that have a name.
fn show_worth(shown: &mut GaugeSet, pool: &str, estimate: &Estimate) {
    let Some(worth) = &estimate.worth else { return };
    let (window, prices) = (estimate.window.to_string(), worth.prices);
    for (size, at) in [
        ("none", Some(&worth.without_cache)),
        ("provisioned", worth.provisioned.as_ref()),
        ("recommended", worth.recommended.as_ref()),
        ("unlimited", Some(&worth.unlimited)),
    ] {
        let labels = [pool, &window, size];
        // A gauge left as it was would say otherwise.
        let figure = |of: fn(&WorthAt) -> Option<f64>| at.and_then(of).unwrap_or(f64::NAN);
        let seconds = figure(|at| at.accelerator_hours_a_day) * SECONDS_AN_HOUR;
        shown.set(metric::DAILY_PREFILL, &labels, seconds);
        if prices.accelerator_hour.is_some() {
            shown.set(metric::DAILY_SAVINGS, &labels, figure(|at| at.saved_a_day));
            shown.set(metric::NEXT_GIB_EARNINGS, &labels, figure(|at| at.next_step_earns_a_gib_day));
        }
        if prices.gib_hour.is_some() {
            shown.set(metric::DAILY_MEMORY_COST, &labels, figure(|at| at.memory_a_day));
        }
        for (quantile, ms) in [
            ("0.5", figure(|at| Some(at.time_to_first_token.p50_ms))),
            ("0.95", figure(|at| Some(at.time_to_first_token.p95_ms))),
            ("0.99", figure(|at| Some(at.time_to_first_token.p99_ms))),
        ] {
            shown.set(metric::TIME_TO_FIRST_TOKEN, &[pool, &window, size, quantile], ms / MS_A_SECOND);
        }
    }
}

/// Shows what the routers asked about would give; their number is the configuration's.
fn show_routing(shown: &mut GaugeSet, pool: &str, estimate: &Estimate) {
    let window = estimate.window.to_string();
    for routed in &estimate.routing {
        let labels = [pool, &window, &routed.asked];
        let rate = share(routed.unlimited_page_hits, routed.page_accesses);
        shown.set(metric::ROUTER_UNLIMITED_HIT_RATE, &labels, rate);
        shown.set_known(metric::ROUTER_IMBALANCE, &labels, routed.imbalance);
    }
}

/// Shows what the pool's cache holds, in whatever units can be known.
pub(super) fn show_provisioned(
    shown: &mut GaugeSet,
    pool: &str,
    provisioned: Option<&CapacitySpec>,
    page_bytes: Option<u64>,
) {
    let Some(provisioned) = provisioned else { return };
    let page_bytes = page_bytes.map(PageBytes);
    let (pages, bytes) = (provisioned.pages(page_bytes), provisioned.bytes(page_bytes));
    shown.set_known(metric::PROVISIONED_CAPACITY_PAGES, &[pool], pages.map(|pages| pages.0 as f64));
    shown.set_known(metric::PROVISIONED_CAPACITY_BYTES, &[pool], bytes.map(|bytes| bytes.0 as f64));
}
