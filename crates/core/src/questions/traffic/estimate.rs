//! What passes between the tiers of a plan, as it is published.

use super::counts::{PeakTraffic, TierSpan, Traffic};
use crate::engines::config::CacheConfig;
use crate::questions::request_runs::RunLog;
use crate::sizing::tiers::{Inclusion, TierEstimate};
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// Milliseconds of a day.
const DAY_MS: f64 = 86_400_000.0;

/// What passes between the tiers of a plan. Sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrafficEstimate {
    /// From the first request to the last.
    pub span_ms: u64,
    /// One entry per tier below the first.
    pub tiers: Vec<TierTraffic>,
    /// Distinct pages that were touched only once, since the start; absent where the tracked bound hides it.
    pub pages_touched_once: Option<u64>,
    /// The share of first writes that storing on second sight saves.
    pub second_sight_saves: Option<f64>,
    /// The bandwidth at which loading takes as long as prefilling; absent without a prefill rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_even_bytes_per_second: Option<f64>,
}

/// What passes between a tier and those above. Bytes are there where a cost per token is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierTraffic {
    /// Its name.
    pub tier: String,
    /// How it relates to those above.
    pub inclusion: Inclusion,
    /// What it holds.
    pub pages: u64,
    /// Pages read from it.
    pub read_pages: u64,
    /// The same in bytes.
    pub read_bytes: Option<u64>,
    /// Pages written to it.
    pub written_pages: u64,
    /// The same in bytes.
    pub written_bytes: Option<u64>,
    /// Pages written were it inclusive instead of exclusive, or the other way round.
    pub written_otherwise_pages: u64,
    /// How often it is written full in a day.
    pub drive_writes_per_day: Option<f64>,
    /// Pages that a request reads, at the median and for 99 of 100.
    pub load_pages: LoadSizes,
    /// The same in bytes.
    pub load_bytes: Option<LoadSizes>,
    /// The busiest spans.
    pub peaks: Vec<PeakTraffic>,
}

/// What requests read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadSizes {
    /// The median.
    pub p50: u64,
    /// 99 of 100 read no more.
    pub p99: u64,
}

/// What traffic is reported with.
#[derive(Debug, Clone, Copy)]
pub struct TrafficFigures<'a> {
    /// The pool's configuration.
    pub config: &'a CacheConfig,
    /// Tokens per page.
    pub page_size: Option<PageSize>,
    /// Bytes per page, where a cost per token is known.
    pub page_bytes: Option<PageBytes>,
    /// Tokens prefilled a second, where given.
    pub prefill_rate: Option<f64>,
    /// The planned tiers.
    pub tiers: &'a [TierEstimate],
}

impl TrafficFigures<'_> {
    /// What passes between the planned tiers, but for the first `skipped` requests; `touched_once` are the pages that
    /// were touched only once, and all. None where not all requests could be kept.
    pub fn estimate(
        &self,
        log: &RunLog,
        skipped: usize,
        touched_once: Option<(u64, u64)>,
    ) -> Option<TrafficEstimate> {
        if !log.is_complete() {
            return None;
        }
        let mut span_ms = 0;
        let mut tiers = Vec::new();
        for below in 1..self.tiers.len() {
            // A tier without a size has nothing below it either.
            let Some((span, pages)) = self.span_of(&self.tiers[..=below]) else { break };
            let traffic = Traffic::of(log, span, skipped).of_tier(pages);
            span_ms = traffic.span_ms;
            tiers.push(self.tier(&self.tiers[below], pages, &traffic));
        }
        let page = self.page_size.zip(self.page_bytes);
        let tokens = |(size, bytes): (PageSize, PageBytes)| bytes.0 as f64 / f64::from(size.get());
        Some(TrafficEstimate {
            span_ms,
            tiers,
            pages_touched_once: touched_once.map(|(once, _)| self.whole(once)),
            second_sight_saves: touched_once
                .filter(|(_, all)| *all > 0)
                .map(|(once, all)| once as f64 / all as f64),
            break_even_bytes_per_second: self
                .prefill_rate
                .zip(page.map(tokens))
                .map(|(rate, token)| rate * token),
        })
    }

    /// Where the last of these tiers lies, and its pages; none where it or one above has no size.
    fn span_of(&self, tiers: &[TierEstimate]) -> Option<(TierSpan, u64)> {
        let [.., above, tier] = tiers else { return None };
        let followed = |pages: u64| self.config.followed_pages(PageCount(pages));
        let pages = tier.planned.pages?;
        let above = followed(above.planned.reach_pages?);
        Some((TierSpan { above, own: followed(pages), inclusion: tier.inclusion }, pages))
    }

    fn tier(&self, tier: &TierEstimate, pages: u64, traffic: &Traffic) -> TierTraffic {
        let load =
            |thousandths| traffic.load(Ratio::per_mille(thousandths)).map_or(0, |pages| self.whole(pages));
        let (p50, p99) = (load(500), load(990));
        let load_bytes = self.bytes(p50).zip(self.bytes(p99)).map(|(p50, p99)| LoadSizes { p50, p99 });
        let (read_pages, written_pages) = (self.whole(traffic.read_pages), self.whole(traffic.written_pages));
        let days = traffic.span_ms as f64 / DAY_MS;
        TierTraffic {
            tier: tier.name.clone(),
            inclusion: tier.inclusion,
            pages,
            read_pages,
            read_bytes: self.bytes(read_pages),
            written_pages,
            written_bytes: self.bytes(written_pages),
            written_otherwise_pages: self.whole(traffic.written_otherwise),
            drive_writes_per_day: (pages > 0 && days > 0.0)
                .then(|| written_pages as f64 / pages as f64 / days),
            load_pages: LoadSizes { p50, p99 },
            load_bytes,
            peaks: traffic.peaks.iter().map(|peak| self.peak(peak)).collect(),
        }
    }

    fn peak(&self, peak: &PeakTraffic) -> PeakTraffic {
        let seconds = peak.span_ms as f64 / 1000.0;
        let rate = |pages: u64| self.page_bytes.map(|page| pages as f64 * page.0 as f64 / seconds);
        let (read_pages, written_pages) = (self.whole(peak.read_pages), self.whole(peak.written_pages));
        PeakTraffic {
            span_ms: peak.span_ms,
            read_pages,
            written_pages,
            read_bytes_per_second: rate(read_pages),
            written_bytes_per_second: rate(written_pages),
        }
    }

    /// A sample's pages scaled up to all pages.
    fn whole(&self, pages: u64) -> u64 {
        self.config.sample_rate.whole_of(pages)
    }

    fn bytes(&self, pages: u64) -> Option<u64> {
        self.page_bytes.map(|page| PageCount(pages).bytes(page).0)
    }
}
