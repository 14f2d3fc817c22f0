//! What single requests of a pool compute at each of its capacities, and what a window of them says.

use super::WorthQuestion;
use super::estimate::{WorthBasis, WorthEstimate};
use super::tally::{FoundTokens, WorthShape, WorthShare, WorthTally};
use crate::engines::bank::CacheBank;
use crate::questions::provisioned::ProvisionedCache;
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::sizing::figures::CapacityPoint;
use crate::sizing::recommendation::{Recommendation, by_target, chosen};
use crate::units::{PageBytes, PageSize};

/// Follows requests, where it is known how fast prompts are computed. It has no state.
#[derive(Debug, Clone)]
pub struct WorthObserver {
    question: WorthQuestion,
    /// In pages, ascending: those that can be told.
    capacities: Vec<u64>,
    /// What is provisioned is counted at, too, ahead of these.
    has_own_column: bool,
}

/// A request and what it found.
#[derive(Debug, Clone, Copy)]
pub struct FoundRequest<'a> {
    /// The request.
    pub event: &'a RequestEvent<'a>,
    /// What the pool's own stack says of it.
    pub outcome: &'a Outcome,
    /// Tokens a page.
    pub page_size: PageSize,
    /// The pool's caches, where its engine has one a capacity.
    pub own: &'a CacheBank,
}

impl WorthObserver {
    /// Nothing seen yet, at capacities that can be known.
    pub fn new(question: WorthQuestion, config: ProvisionedCache<'_>, capacities: &[u64]) -> Self {
        // An engine with one cache a capacity would need one more for it.
        let has_own_column = config.provisioned.is_some() && !config.cache.is_pointwise();
        Self { question, capacities: capacities.to_vec(), has_own_column }
    }

    /// The same at the capacities alone.
    pub fn without_own_column(self) -> Self {
        Self { has_own_column: false, ..self }
    }

    fn columns(&self) -> usize {
        self.capacities.len() + usize::from(self.has_own_column)
    }

    /// What windows of a log that goes on count.
    pub fn shape(&self) -> WorthShape {
        WorthShape::of_window(self.columns())
    }

    /// The same of a log that ends.
    pub fn shape_of_log(&self) -> WorthShape {
        WorthShape::of_log(self.columns())
    }

    /// What a request adds. `below` is what tiers below give it under the capacity in a place: pages, and seconds to load
    /// them.
    pub fn observe(
        &self,
        request: FoundRequest<'_>,
        config: ProvisionedCache<'_>,
        below: impl Fn(usize) -> (u64, f64),
    ) -> WorthShare {
        let FoundRequest { event, outcome, page_size, own } = request;
        let page = u64::from(page_size.get());
        let prompt = event.input_tokens.unwrap_or(outcome.page_accesses * page);
        let (rate, at) = (&self.question.prefill_rate, event.event_time.0);
        let found = |(place, hits): (usize, u64)| {
            let (pages, load_seconds) = below(place);
            FoundTokens { tokens: (hits + pages) * page, load_seconds }
        };
        if !own.is_none() {
            let unlimited = own.last_ceiling().unwrap_or_else(|| outcome.reusable_prefix());
            let hits = own.last_hits().iter().copied().enumerate();
            return WorthShare::of(rate, at, (prompt, unlimited * page), hits.map(found));
        }
        let provisioned = || config.pages(page_size).unwrap_or(0);
        let own_column = self
            .has_own_column
            .then(|| FoundTokens { tokens: outcome.hits_at(provisioned()) * page, load_seconds: 0.0 });
        let hits = self.capacities.iter().map(|capacity| outcome.hits_at(*capacity)).enumerate();
        let columns = own_column.into_iter().chain(hits.map(found));
        WorthShare::of(rate, at, (prompt, outcome.reusable_prefix() * page), columns)
    }

    /// What a window says.
    pub fn estimate(&self, tally: &WorthTally, figures: &WorthFigures<'_>) -> Option<WorthEstimate> {
        let WorthFigures { config, page_size, page_bytes, capacities, recommended, below_a_day } = *figures;
        let spec = config.provisioned;
        let provisioned = config.pages(page_size).zip(spec);
        let counted = capacities.iter().filter(|point| !point.beyond_bound);
        let sizes: Vec<_> = counted.map(|point| (point.pages, point.bytes)).collect();
        let first = by_target(recommended).next().unwrap_or_default();
        let coverages: Vec<_> = first.iter().map(|entry| (entry.coverage, entry.pages)).collect();
        let WorthQuestion { prefill_rate, prices } = &self.question;
        let basis = WorthBasis {
            rate: prefill_rate,
            prices: *prices,
            below_a_day,
            has_own_column: self.has_own_column,
            provisioned: provisioned
                .map(|(pages, spec)| (pages, spec.bytes(page_bytes).map(|bytes| bytes.0))),
            sizes: &sizes,
            recommended: chosen(recommended).and_then(|entry| entry.pages),
            coverages: &coverages,
        };
        basis.estimate(tally)
    }
}

/// What an estimate knows besides the tally.
#[derive(Debug, Clone, Copy)]
pub struct WorthFigures<'a> {
    /// The pool's configuration.
    pub config: ProvisionedCache<'a>,
    /// Tokens a page.
    pub page_size: PageSize,
    /// Bytes a page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// The curve.
    pub capacities: &'a [CapacityPoint],
    /// What is recommended.
    pub recommended: &'a [Recommendation],
    /// What tiers below cost a day.
    pub below_a_day: f64,
}
