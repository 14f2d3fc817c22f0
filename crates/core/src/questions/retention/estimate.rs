//! What retention found over a set of requests, as it is published. Pages are whole pages: sampled counts are scaled
//! up.

use super::{Ages, RetentionConfig, RetentionTally};
use crate::sizing::curve::{PromptTokens, share};
use crate::sizing::figures::{EvictionAge, Required};
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Whether a use keeps a page for longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionKind {
    /// Kept for so long after the last use.
    Sliding,
    /// Kept for so long after it was written.
    Fixed,
}

impl RetentionKind {
    /// The name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sliding => "sliding",
            Self::Fixed => "fixed",
        }
    }

    /// Whether no use makes a page stay longer.
    pub fn is_fixed(self) -> bool {
        self == Self::Fixed
    }
}

/// A cache that keeps pages for so long. Numbers that hang on pages which were forgotten are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetentionEstimate {
    /// How long.
    pub ttl_ms: u64,
    /// After the last use, or after the write.
    pub kind: RetentionKind,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Pages in the leading runs of hits.
    pub prefix_hits: Option<u64>,
    /// Page hits per page access.
    pub page_hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// Pages held, over the time from the first to the last request.
    pub mean_pages: Option<f64>,
    /// Most pages held at a time.
    pub peak_pages: Option<u64>,
    /// The mean in bytes, where a cost per token is known.
    pub mean_bytes: Option<f64>,
    /// The peak in bytes, where a cost per token is known.
    pub peak_bytes: Option<u64>,
    /// Share of the requests that find enough at the first target ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<f64>,
    /// With so much room only; of sliding ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<RetainedCapacityEstimate>,
}

/// A capacity that drops what is older than a time to live, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetainedCapacityEstimate {
    /// The capacity.
    pub pages: u64,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Share of the arrivals after which it held all that the time to live promises.
    pub honoured: Option<f64>,
}

/// The smallest sliding time to live that is enough for a share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TtlCoverage {
    /// The share.
    pub coverage: Ratio,
    /// In milliseconds; absent where the tracked bound hides it.
    pub ttl_ms: Option<u64>,
}

fn eviction_age(ages: Cow<'_, Ages>) -> EvictionAge {
    let found = Ages::quantiles_of(ages, &[500, 100, 900].map(Ratio::per_mille), 0);
    EvictionAge { p10: found[1], p50: found[0], p90: found[2] }
}

/// A set of requests, and what its counts are published with.
#[derive(Debug, Clone, Copy)]
pub struct RetentionFigures<'a> {
    /// Its counts.
    pub tally: &'a RetentionTally,
    /// What is followed.
    pub rules: &'a RetentionConfig,
    /// Shares of the requests.
    pub coverages: &'a [Ratio],
    /// The share of the pages that is followed.
    pub sample_rate: Ratio,
    /// Bytes per page, where a cost per token is known.
    pub page_bytes: Option<PageBytes>,
    /// Pages accessed.
    pub page_accesses: u64,
    /// The prompts by their tokens.
    pub prompts: PromptTokens,
    /// The capacities that are followed, ascending, and perhaps larger ones.
    pub totals: &'a [PageCount],
}

impl RetentionFigures<'_> {
    /// One entry a time to live and kind.
    pub fn points(&self) -> Vec<RetentionEstimate> {
        let of_time = |at| [RetentionKind::Sliding, RetentionKind::Fixed].map(|kind| self.point(at, kind));
        (0..self.rules.ttls.len()).flat_map(of_time).collect()
    }

    /// One entry per target ratio.
    pub fn required(&self) -> Vec<Required<TtlCoverage>> {
        let of_target = |(ages, target_ratio): (&Ages, &Ratio)| Required {
            target_ratio: *target_ratio,
            coverage: self
                .coverages
                .iter()
                .zip(self.tally.required(ages, self.coverages))
                .map(|(coverage, ttl_ms)| TtlCoverage { coverage: *coverage, ttl_ms })
                .collect(),
        };
        self.tally.required.iter().zip(&self.rules.targets).map(of_target).collect()
    }

    fn point(&self, at: usize, kind: RetentionKind) -> RetentionEstimate {
        let (tally, ttl) = (self.tally, self.rules.ttls[at]);
        let (held, hits) = match kind {
            RetentionKind::Sliding => (tally.sliding[at], tally.hits_within(at)),
            RetentionKind::Fixed => (tally.fixed[at], tally.fixed_hits(at)),
        };
        let is_known = !tally.is_beyond_bound[at];
        let page_hits = is_known.then(|| self.whole(hits));
        let mean_pages = is_known.then(|| held.mean(tally.span_ms()) / self.sample_rate.as_f64());
        let peak_pages = is_known.then(|| self.whole(held.peak));
        let within = |ages: &Ages| tally.requests - tally.with_reuse + ages.count_upto(ttl.ms());
        let covered = match kind {
            RetentionKind::Sliding => tally.required.first().map(within),
            RetentionKind::Fixed => tally.fixed_covered(at).filter(|_| !self.rules.targets.is_empty()),
        };
        let page = self.page_bytes.map(|page| page.0);
        RetentionEstimate {
            ttl_ms: ttl.ms(),
            kind,
            page_hits,
            prefix_hits: page_hits,
            page_hit_rate: page_hits.map(|hits| share(hits, self.page_accesses)),
            hit_rate_tokens: page_hits.map(|hits| self.prompts.hit_rate(hits)),
            mean_pages,
            peak_pages,
            mean_bytes: mean_pages.zip(page).map(|(pages, page)| pages * page as f64),
            peak_bytes: peak_pages.zip(page).map(|(pages, page)| pages.saturating_mul(page)),
            covered: covered.filter(|_| is_known).and_then(|requests| self.share(requests)),
            capacities: if kind.is_fixed() { Vec::new() } else { self.capacities(at, is_known) },
        }
    }

    fn capacities(&self, at: usize, is_known: bool) -> Vec<RetainedCapacityEstimate> {
        let capacity = |(capacity, total): (usize, &PageCount)| RetainedCapacityEstimate {
            pages: total.0,
            page_hits: is_known.then(|| self.whole(self.tally.hits_within_at(at, capacity))),
            honoured: self.share(self.tally.honoured(at, capacity)).filter(|_| is_known),
        };
        (0..self.rules.capacities.len()).zip(self.totals).map(capacity).collect()
    }

    /// So many of the requests as a share of them.
    fn share(&self, requests: u64) -> Option<f64> {
        (self.tally.requests > 0).then(|| requests as f64 / self.tally.requests as f64)
    }

    /// A sample's pages scaled up to all pages.
    fn whole(&self, pages: u64) -> u64 {
        self.sample_rate.whole_of(pages)
    }
}

impl RetentionTally {
    /// How long unused pages live, one entry per capacity.
    pub fn eviction_ages(&self) -> Vec<EvictionAge> {
        self.eviction_ages.columns().map(eviction_age).collect()
    }
}
