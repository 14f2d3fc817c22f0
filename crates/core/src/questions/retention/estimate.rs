//! What retention found over a set of requests, as it is published.

use super::{RetainedCapacity, RetentionKind, RetentionPoint, RetentionResult};
use crate::estimate::curve::{PromptTokens, share};
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};
use serde::{Deserialize, Serialize};

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
    /// Page hits a page access.
    pub page_hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts; records before version 5 lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// Pages held, over the time from the first to the last request.
    pub mean_pages: Option<f64>,
    /// Most pages held at a time.
    pub peak_pages: Option<u64>,
    /// The mean in bytes, where a cost a token is known.
    pub mean_bytes: Option<f64>,
    /// The peak in bytes, where a cost a token is known.
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

/// How long pages must be kept at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequiredTtlEstimate {
    /// Share of the reusable prefix a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<TtlCoverage>,
}

/// The smallest sliding time to live that is enough for a share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TtlCoverage {
    /// The share.
    pub coverage: Ratio,
    /// In milliseconds; absent where the tracked bound hides it.
    pub ttl_ms: Option<u64>,
}

/// What a result is told with.
#[derive(Debug, Clone, Copy)]
pub struct RetentionFigures<'a> {
    /// Bytes a page, where a cost a token is known.
    pub page_bytes: Option<PageBytes>,
    /// Pages accessed.
    pub page_accesses: u64,
    /// The prompts by their tokens.
    pub prompts: PromptTokens,
    /// The capacities that can be told, ascending: as many as the result has.
    pub totals: &'a [PageCount],
}

impl RetentionFigures<'_> {
    /// One entry a time to live and kind.
    pub fn points(&self, result: &RetentionResult) -> Vec<RetentionEstimate> {
        result.points.iter().map(|point| self.point(point)).collect()
    }

    fn point(&self, point: &RetentionPoint) -> RetentionEstimate {
        let page = self.page_bytes.map(|page| page.0);
        let capacity = |(total, found): (&PageCount, &RetainedCapacity)| RetainedCapacityEstimate {
            pages: total.0,
            page_hits: found.page_hits,
            honoured: found.honoured,
        };
        RetentionEstimate {
            ttl_ms: point.ttl.ms(),
            kind: point.kind,
            page_hits: point.page_hits,
            prefix_hits: point.page_hits,
            page_hit_rate: point.page_hits.map(|hits| share(hits, self.page_accesses)),
            hit_rate_tokens: point.page_hits.map(|hits| self.prompts.hit_rate(hits)),
            mean_pages: point.mean_pages,
            peak_pages: point.peak_pages,
            mean_bytes: point.mean_pages.zip(page).map(|(pages, page)| pages * page as f64),
            peak_bytes: point.peak_pages.zip(page).map(|(pages, page)| pages.saturating_mul(page)),
            covered: point.covered,
            capacities: self.totals.iter().zip(&point.capacities).map(capacity).collect(),
        }
    }
}

impl RequiredTtlEstimate {
    /// One entry a target ratio.
    pub fn of(result: &RetentionResult) -> Vec<Self> {
        let of = |required: &super::RequiredTtl| Self {
            target_ratio: required.target_ratio,
            coverage: required
                .coverage
                .iter()
                .map(|found| TtlCoverage { coverage: found.coverage, ttl_ms: found.ttl_ms })
                .collect(),
        };
        result.required.iter().map(of).collect()
    }
}

impl RetentionKind {
    /// Whether no use makes a page stay longer.
    pub fn is_fixed(self) -> bool {
        self == Self::Fixed
    }
}
