//! What the rules of a hybrid model lose at any size.

use crate::present::words::rate;
use crate::replay::Ceiling;
use kvset_core::sizing::curve::share;
use serde::Serialize;

/// Hit rates of a hybrid model with unlimited capacity: what its rules lose at any size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CeilingResult {
    /// Page hits.
    pub page_hits: Ceiling,
    /// If every layer had full attention.
    pub full_attention_hit_rate: f64,
    /// By the rules modelled.
    pub these_rules_hit_rate: f64,
    /// If windows and states kept all their names, where vLLM keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_retention_hit_rate: Option<f64>,
}

/// What a draft head in the same cache loses at any size: one figure, or both ends where page ids leave it open.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DraftHeadResult {
    /// The hit rate with unlimited capacity, without the head.
    pub hit_rate_without: f64,
    /// What it loses.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub loss: Option<DraftHeadLoss>,
    /// What it loses at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<DraftHeadLoss>,
    /// What it loses at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<DraftHeadLoss>,
}

/// A loss to a draft head.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DraftHeadLoss {
    /// Page hits lost with unlimited capacity.
    pub lost_page_hits: u64,
    /// The loss in points of the hit rate by pages.
    pub points: f64,
    /// The hit rate with unlimited capacity with the head.
    pub hit_rate: f64,
}

impl DraftHeadResult {
    /// The figures of so many page accesses; `None` without a head.
    pub fn of(found: Ceiling, page_accesses: u64) -> Option<Self> {
        let (without, [least, most]) = (found.without_draft_head?, found.draft_head()?);
        let loss = |lost_page_hits: u64, found: u64| DraftHeadLoss {
            lost_page_hits,
            points: share(lost_page_hits, page_accesses) * 100.0,
            hit_rate: share(found, page_accesses),
        };
        let upper = found.these_rules_at_most;
        let all = loss(most, found.these_rules);
        Some(Self {
            hit_rate_without: share(without, page_accesses),
            loss: upper.is_none().then_some(all),
            at_least: upper.map(|upper| loss(least, upper)),
            at_most: upper.map(|_| all),
        })
    }

    /// "draft head: 11 points", with what it is a share of.
    pub fn sentence(&self) -> String {
        let (lost, hit_rate) = match (self.loss, self.at_least.zip(self.at_most)) {
            (Some(loss), _) => (points(loss.points), rate(loss.hit_rate)),
            (None, Some((least, most))) => (
                format!("{} to {}", points(least.points), points(most.points)),
                format!("{} to {}", rate(most.hit_rate), rate(least.hit_rate)),
            ),
            (None, None) => return String::new(),
        };
        format!(
            "draft head: {lost} points. With unlimited capacity {hit_rate} of page accesses hit, and {} without it.",
            rate(self.hit_rate_without)
        )
    }
}

/// Points with one decimal, none where that is 0, and with two where they are fewer than that shows.
fn points(points: f64) -> String {
    if points < 0.1 {
        return format!("{points:.2}");
    }
    let text = format!("{points:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl CeilingResult {
    /// The rates of so many page accesses.
    pub fn of(found: Ceiling, page_accesses: u64) -> Self {
        Self {
            page_hits: found,
            full_attention_hit_rate: share(found.full_attention, page_accesses),
            these_rules_hit_rate: share(found.these_rules, page_accesses),
            dense_retention_hit_rate: found.dense_retention.map(|dense| share(dense, page_accesses)),
        }
    }
}
