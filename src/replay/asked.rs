//! What was asked for beside the estimates, as the sections of a report: time, tenants, the optimum, tiers.

use super::{LifetimesResult, OptimalCapacity, TierTraffic, TrafficResult};
use crate::report::{Asked, Section, Table, words};
use kvset_core::estimate::CapacityPoint;
use kvset_core::estimate::curve::share;
use kvset_core::questions::retention::{RetentionKind, RetentionResult};
use kvset_core::questions::tenants::{QuotaResult, TenantResult};

/// The pool that sections are about.
#[derive(Debug, Clone, Copy)]
pub struct AskedOf<'a> {
    /// Its curve, ascending.
    pub capacities: &'a [CapacityPoint],
    /// Pages accessed.
    pub page_accesses: u64,
    /// Tokens a page, where known.
    pub page_size: Option<u32>,
    /// Bytes a page, where a cost a token is known.
    pub page_bytes: Option<u64>,
    /// The recommended capacity.
    pub recommended_pages: Option<u64>,
}

impl AskedOf<'_> {
    /// What was asked for; empty where nothing was.
    pub fn sections(&self, lifetimes: &LifetimesResult, traffic: Option<&TrafficResult>) -> Asked {
        let mut asked = Asked::default();
        if let Some(optimal) = &lifetimes.optimal {
            let points = self.capacities.iter().zip(&optimal.page_hits);
            let known =
                points.filter_map(|(point, hits)| Some((point.pages, share((*hits)?, self.page_accesses))));
            asked.foresight = known.collect();
            asked.sections.extend(optimal.recommended.map(|found| Section {
                title: "The best any policy could do".to_owned(),
                sentences: vec![foresight(&found, self.page_bytes)],
                tables: Vec::new(),
            }));
        }
        asked.sections.extend(lifetimes.retention.as_ref().map(|retention| self.retention(retention)));
        asked.sections.extend(traffic.map(|traffic| self.traffic(traffic)));
        if !lifetimes.tenants.is_empty() || !lifetimes.quotas.is_empty() {
            asked.sections.push(self.tenants(&lifetimes.tenants, &lifetimes.quotas));
        }
        asked
    }

    fn size(&self, pages: u64) -> String {
        words::capacity(pages, self.page_bytes)
    }

    /// The place of the smallest capacity of the curve that is enough for what is recommended.
    fn recommended(&self) -> Option<usize> {
        let pages = self.recommended_pages?;
        let enough = self.capacities.iter().position(|point| point.pages >= pages);
        enough.or(self.capacities.len().checked_sub(1))
    }

    fn retention(&self, retention: &RetentionResult) -> Section {
        let columns = ["kept for", "after", "hit rate", "requests covered", "mean held", "most held"];
        let mut kept = Table::new("Pages kept for a time, however many", columns);
        for point in &retention.points {
            kept.rows.push(vec![
                point.ttl.to_string(),
                match point.kind {
                    RetentionKind::Sliding => "the last use",
                    RetentionKind::Fixed => "the write",
                }
                .to_owned(),
                words::rate_or_dash(point.page_hits.map(|hits| share(hits, self.page_accesses))),
                words::rate_or_dash(point.covered),
                dash(point.mean_pages.map(|pages| self.size(pages.ceil() as u64))),
                dash(point.peak_pages.map(|pages| self.size(pages))),
            ]);
        }
        let mut required =
            Table::new("How long pages must be kept", ["requests covered", "target", "kept for"]);
        for target in &retention.required {
            for found in &target.coverage {
                let kept = dash(found.ttl_ms.map(words::lasting));
                required.rows.push(vec![
                    words::share(found.coverage),
                    words::share(target.target_ratio),
                    kept,
                ]);
            }
        }
        let mut sentences = Vec::new();
        if let Some(at) = self.recommended()
            && let Some(age) = retention.eviction_ages.get(at).and_then(|ages| ages.p50)
        {
            let size = self.size(self.capacities[at].pages);
            sentences.push(format!(
                "In {size} a page that is not used lives for {} (the median over arrivals).",
                words::lasting(age)
            ));
        }
        Section { title: "How long pages are kept".to_owned(), sentences, tables: vec![kept, required] }
    }

    fn traffic(&self, traffic: &TrafficResult) -> Section {
        let mut sentences: Vec<String> =
            traffic.tiers.iter().map(|tier| tier_sentence(tier, self.page_bytes)).collect();
        sentences.extend(second_sight(traffic));
        sentences.extend(break_even(traffic, self.page_size, self.page_bytes));
        let columns = ["tier", "read", "written", "load p50", "load p99", "busiest second", "busiest minute"];
        let mut table = Table::new("What passes between a tier and those above", columns);
        for tier in &traffic.tiers {
            let mut row = vec![tier.name.clone(), self.size(tier.read_pages), self.size(tier.written_pages)];
            row.extend([tier.load_pages.0, tier.load_pages.1].map(|pages| self.size(pages)));
            row.extend(tier.peaks.iter().map(|peak| {
                format!("{} read, {} written", self.size(peak.read_pages), self.size(peak.written_pages))
            }));
            table.rows.push(row);
        }
        Section { title: "Between tiers".to_owned(), sentences, tables: vec![table] }
    }

    fn tenants(&self, tenants: &[TenantResult], quotas: &[QuotaResult]) -> Section {
        let at = self.recommended();
        let size = at.map(|at| self.size(self.capacities[at].pages)).unwrap_or_default();
        let held = |tenant: &TenantResult| at.and_then(|at| tenant.page_milliseconds.get(at)).copied();
        let all: u128 = tenants.iter().filter_map(held).sum();
        let columns = ["tenant", "requests", "page accesses", "cold", "hit rate", "of the cache"];
        let mut table = Table::new(format!("Whose pages {size} hold, and what they find"), columns);
        for tenant in tenants {
            let hits = at.and_then(|at| tenant.hits.get(at));
            table.rows.push(vec![
                tenant_name(tenant),
                words::integer(tenant.requests),
                words::integer(tenant.page_accesses),
                self.size(tenant.cold_pages),
                words::rate_or_dash(hits.map(|hits| share(*hits, tenant.page_accesses))),
                words::rate_or_dash(held(tenant).filter(|_| all > 0).map(|held| held as f64 / all as f64)),
            ]);
        }
        let sentences = quotas.iter().filter_map(|quota| self.quota(quota, at?)).collect();
        let tables = if tenants.is_empty() { Vec::new() } else { vec![table] };
        Section { title: "Tenants".to_owned(), sentences, tables }
    }

    /// "Split by quota acme=0.5, 30 GiB lose 13 points of the hit rate."
    fn quota(&self, quota: &QuotaResult, at: usize) -> Option<String> {
        let (split, shared) = (quota.capacities.get(at)?, self.capacities.get(at)?);
        let rate = |hits: u64| share(hits, self.page_accesses);
        let points = (rate(shared.page_hits?) - rate(split.page_hits?)) * 100.0;
        let change = if points < 0.0 { "gain" } else { "lose" };
        let (size, points) = (self.size(shared.pages), points.abs());
        Some(format!("Split by quota {}, {size} {change} {points:.1} points of hit rate.", quota.quota))
    }
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn tenant_name(tenant: &TenantResult) -> String {
    match (tenant.others, &tenant.name) {
        (Some(count), _) => words::counted(count, "other tenant", "other tenants"),
        (None, Some(name)) => name.clone(),
        (None, None) => "no tenant named".to_owned(),
    }
}

/// "LRU needs 2.4 times its memory", in context.
pub fn foresight(found: &OptimalCapacity, page_bytes: Option<u64>) -> String {
    let size = |pages| words::capacity(pages, page_bytes);
    format!(
        "For the hits of {} perfect foresight would need {}: LRU needs {:.1} times its memory. Nobody reaches the \
         optimum, which knows every request to come.",
        size(found.pages),
        size(found.optimal_pages),
        found.times
    )
}

/// "30 GiB + 30 GiB: 15 GiB a day read, 1.2 TiB written in 5.6 days, 3.3 drive writes a day".
pub fn tier_sentence(tier: &TierTraffic, page_bytes: Option<u64>) -> String {
    let size = |pages| words::capacity(pages, page_bytes);
    let held = |(pages, bytes): &(u64, Option<u64>)| bytes.map_or_else(|| size(*pages), words::bytes_round);
    let sizes: Vec<_> = tier.sizes.iter().map(held).collect();
    let written = size(tier.written_pages);
    match (tier.read_pages_a_day(), tier.days, tier.drive_writes_a_day()) {
        (Some(read), Some(days), Some(full)) => format!(
            "{}: {} a day read, {written} written in {}, {full:.1} drive writes a day.",
            sizes.join(" + "),
            size(read.ceil() as u64),
            if days >= 2.0 { format!("{days:.1} days") } else { words::lasting(tier.span_ms) }
        ),
        _ => format!("{}: {} read, {written} written.", sizes.join(" + "), size(tier.read_pages)),
    }
}

/// What storing on second sight saves; none where that cannot be told.
pub fn second_sight(traffic: &TrafficResult) -> Option<String> {
    let (once, all) = traffic.touched_once.filter(|(_, all)| *all > 0)?;
    Some(format!(
        "{} of {} pages are never used again: stored on second sight only, {} of first writes are saved.",
        words::integer(once),
        words::integer(all),
        words::rate(share(once, all))
    ))
}

/// From which bandwidth on loading is faster than prefilling; none without a rate.
pub fn break_even(
    traffic: &TrafficResult,
    page_size: Option<u32>,
    page_bytes: Option<u64>,
) -> Option<String> {
    let bandwidth = traffic.break_even_bytes_per_second(page_size?, page_bytes?)?;
    Some(format!(
        "Loading is faster than prefilling on links with more than {} a second.",
        words::bytes_up(bandwidth.ceil() as u64)
    ))
}
