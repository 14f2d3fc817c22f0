//! What windows say of time, tiers, tenants and the optimum, as gauges.

use super::catalog as metric;
use super::labels::PoolLabels;
use super::shown::GaugeSet;
use kvset_core::estimate::Estimate;
use kvset_core::questions::reuse::MAX_TOLD_TENANTS;
use kvset_core::questions::tenants::TenantEstimate;
use kvset_core::sizing::curve::share;
use kvset_core::units::window::format_duration_ms;
use std::collections::HashMap;

/// What requests are shown under that name no tenant.
const NOBODY: &str = "(none)";

/// The tenants that have metrics of their own: the first hundred of each pool that were among those told. Others are
/// shown no more, however often those told change.
#[derive(Debug, Default)]
pub(super) struct TenantLabels(HashMap<String, PoolLabels>);

impl TenantLabels {
    fn own<'a>(&mut self, pool: &str, tenant: &'a str) -> Option<&'a str> {
        if !self.0.contains_key(pool) {
            // `other` and those without a name have a label each.
            self.0.insert(pool.to_owned(), PoolLabels::new(MAX_TOLD_TENANTS + 2));
        }
        self.0.get_mut(pool)?.own(tenant)
    }
}

/// Shows all of it.
pub(super) fn show_questions(
    shown: &mut GaugeSet,
    pool: &str,
    estimate: &Estimate,
    tenants: &mut TenantLabels,
) {
    let window = estimate.window.to_string();
    show_retention(shown, [pool, &window], estimate);
    show_capacities(shown, [pool, &window], estimate);
    show_traffic(shown, [pool, &window], estimate);
    let held = |tenant: &TenantEstimate| tenant.page_milliseconds.last().copied().unwrap_or(0) as f64;
    let all: f64 = estimate.tenants.iter().map(held).sum();
    for tenant in &estimate.tenants {
        let name = tenant.tenant.as_deref().unwrap_or(NOBODY);
        let Some(name) = tenants.own(pool, name) else { continue };
        let labels = [pool, window.as_str(), name];
        shown.set(metric::TENANT_HELD, &labels, if all > 0.0 { held(tenant) / all } else { 0.0 });
        shown.set(metric::TENANT_COLD_PAGES, &labels, tenant.cold_pages as f64);
        let rate = tenant.capacity_page_hits.last().map(|hits| share(*hits, tenant.page_accesses));
        shown.set_known(metric::TENANT_HIT_RATE, &labels, rate);
    }
}

fn show_retention(shown: &mut GaugeSet, [pool, window]: [&str; 2], estimate: &Estimate) {
    for point in &estimate.retention {
        let ttl = format_duration_ms(point.ttl_ms);
        let labels = [pool, window, &ttl, point.kind.name()];
        shown.set_known(metric::RETENTION_HIT_RATE, &labels, point.page_hit_rate);
        for (held, pages) in
            [("mean", point.mean_pages), ("peak", point.peak_pages.map(|pages| pages as f64))]
        {
            let labels = [pool, window, &ttl, point.kind.name(), held];
            shown.set_known(metric::RETENTION_PAGES, &labels, pages);
        }
        for found in &point.capacities {
            let named = estimate.capacities.iter().find(|capacity| capacity.pages == found.pages);
            let Some(capacity) = named.and_then(|point| point.label.as_ref()) else { continue };
            shown.set_known(metric::RETENTION_HONOURED, &[pool, window, &ttl, capacity], found.honoured);
        }
    }
}

/// Of capacities that the operator named.
fn show_capacities(shown: &mut GaugeSet, [pool, window]: [&str; 2], estimate: &Estimate) {
    for point in &estimate.capacities {
        let Some(capacity) = &point.label else { continue };
        let Some(age) = point.eviction_age_ms else { continue };
        for (quantile, age_ms) in [("0.1", age.p10), ("0.5", age.p50), ("0.9", age.p90)] {
            // Infinite where it drops nothing: a gauge left as it was would say otherwise.
            let seconds = age_ms.map_or(f64::INFINITY, |ms| ms as f64 / 1000.0);
            shown.set(metric::EVICTION_AGE, &[pool, window, capacity, quantile], seconds);
        }
    }
}

fn show_traffic(shown: &mut GaugeSet, [pool, window]: [&str; 2], estimate: &Estimate) {
    for tier in estimate.traffic.iter().flat_map(|traffic| &traffic.tiers) {
        for (direction, pages) in [("read", tier.read_pages), ("written", tier.written_pages)] {
            shown.set(metric::TIER_TRAFFIC_PAGES, &[pool, window, &tier.tier, direction], pages as f64);
        }
        shown.set_known(metric::TIER_DRIVE_WRITES, &[pool, window, &tier.tier], tier.drive_writes_per_day);
        // The shortest span is the one to buy bandwidth by.
        let Some(peak) = tier.peaks.iter().min_by_key(|peak| peak.span_ms) else { continue };
        for (direction, bytes) in
            [("read", peak.read_bytes_per_second), ("written", peak.written_bytes_per_second)]
        {
            shown.set_known(metric::TIER_PEAK_BYTES, &[pool, window, &tier.tier, direction], bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_many_tenants_shows_a_hundred_of_each_pool() {
        let mut labels = TenantLabels::default();
        let names: Vec<_> = (0..300).map(|tenant| format!("t{tenant}")).collect();
        for pool in ["a", "b"] {
            let own = names.iter().filter(|name| labels.own(pool, name).is_some()).count();
            assert_eq!(own as u32, MAX_TOLD_TENANTS + 2);
        }
        assert_eq!(labels.own("a", "t7"), Some("t7"), "once shown, always shown");
    }
}
