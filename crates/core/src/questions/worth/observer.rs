//! What single requests of a pool compute at each of its capacities, and what a window of them says.

use super::estimate::{WorthBasis, WorthEstimate};
use super::tally::{WorthShare, WorthTally};
use crate::engines::bank::CacheBank;
use crate::engines::one_pass::Engine;
use crate::questions::costs::{PrefillCosts, Prices};
use crate::questions::question::{
    Accepted, Answerable, Horizon, ProvisionedCache, Question, QuestionFigures, QuestionNeeds, QuestionPool,
    QuestionsError,
};
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::sizing::recommendation::{by_target, chosen};
use crate::sizing::tiers::is_price;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;

/// Follows requests, where it is known how fast prompts are computed. It has no state.
#[derive(Debug, Clone)]
pub struct WorthObserver {
    question: PrefillCosts,
    /// In pages, ascending: those that can be told.
    capacities: Vec<u64>,
    /// What is provisioned is counted at, too, ahead of these.
    has_own_column: bool,
}

heap_bytes!(WorthObserver { capacities; question, has_own_column });

impl WorthObserver {
    /// Nothing seen yet, at capacities that can be known.
    pub fn at(question: PrefillCosts, config: ProvisionedCache<'_>, capacities: &[u64]) -> Self {
        // An engine with one cache a capacity would need one more for it.
        let has_own_column = config.provisioned.is_some() && !config.cache.is_pointwise();
        Self { question, capacities: capacities.to_vec(), has_own_column }
    }

    /// The same at the capacities alone.
    pub fn without_own_column(self) -> Self {
        Self { has_own_column: false, ..self }
    }

    /// Capacities that are counted at.
    pub fn columns(&self) -> usize {
        self.capacities.len() + usize::from(self.has_own_column)
    }

    /// What a request adds of which the pool's own stack says `outcome`, and its caches what they found, where its
    /// engine has one a capacity. `below` is what tiers below give it under the capacity in a place: pages, and
    /// seconds to load them.
    pub fn observe(
        &self,
        (event, outcome): (&RequestEvent<'_>, &Outcome),
        own: &CacheBank,
        (config, page_size): (ProvisionedCache<'_>, PageSize),
        below: impl Fn(usize) -> (u64, f64),
    ) -> WorthShare {
        let page = u64::from(page_size.get());
        let prompt = event.input_tokens.unwrap_or(outcome.page_accesses * page);
        let (rate, at) = (&self.question.prefill_rate, event.event_time.0);
        let found = |(place, hits): (usize, u64)| {
            let (pages, load_seconds) = below(place);
            ((hits + pages) * page, load_seconds)
        };
        if !own.is_none() {
            let unlimited = own.last_ceiling().unwrap_or_else(|| outcome.reusable_prefix());
            let hits = own.last_hits().iter().copied().enumerate();
            return WorthShare::of(rate, at, (prompt, unlimited * page), hits.map(found));
        }
        let provisioned = || config.pages(page_size).unwrap_or(0);
        let own_column = self.has_own_column.then(|| (outcome.hits_at(provisioned()) * page, 0.0));
        let hits = self.capacities.iter().map(|capacity| outcome.hits_at(*capacity)).enumerate();
        let columns = own_column.into_iter().chain(hits.map(found));
        WorthShare::of(rate, at, (prompt, outcome.reusable_prefix() * page), columns)
    }
}

impl Question for WorthObserver {
    type Setting = Option<PrefillCosts>;
    type Kept = ();
    type Tally = WorthTally;
    type Answer = Option<WorthEstimate>;

    const NEEDS: QuestionNeeds =
        QuestionNeeds { each_request: true, ..QuestionNeeds::nothing("prefill_rate") };

    fn check(setting: &Option<PrefillCosts>, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        let Some(PrefillCosts { prices: Prices { accelerator_hour, gib_hour }, .. }) = setting else {
            return Ok(());
        };
        for (asked, price) in [("gpu_price", accelerator_hour), ("gib_price", gib_hour)] {
            if let Some(price) = price.filter(|price| !is_price(*price)) {
                return Err(QuestionsError::Price { asked, price });
            }
        }
        if pool.is_sampled {
            Err(QuestionsError::Sampled { asked: Self::NEEDS.setting })
        } else if gib_hour.is_some() && !pool.has_cost {
            Err(QuestionsError::PriceWithoutCost)
        } else {
            Ok(())
        }
    }

    fn new(setting: &Option<PrefillCosts>, pool: QuestionPool<'_>) -> Option<Self> {
        Some(Self::at(setting.clone()?, pool.cache, pool.capacities))
    }

    fn shape(&self) -> (usize, Horizon) {
        // A log that ends is counted apart, with the tiers below.
        (self.columns(), Horizon::Endless)
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut WorthShare) {
        let Accepted { event, outcome, page_size, own, cache, .. } = *request;
        *room = self.observe((event, outcome), own, (cache, page_size), |_| (0, 0.0));
    }

    fn kept(&self) -> &() {
        &()
    }

    fn resumed(self, (): (), _: QuestionPool<'_>, _: &Engine) -> Option<Self> {
        Some(self)
    }

    fn answer(&self, tally: &WorthTally, figures: &QuestionFigures<'_>) -> Option<WorthEstimate> {
        let QuestionFigures { config, page_size, page_bytes, capacities, recommended, below_a_day, .. } =
            *figures;
        let spec = config.provisioned;
        let provisioned = config.pages(page_size).zip(spec);
        let counted = capacities.iter().filter(|point| !point.beyond_bound);
        let sizes: Vec<_> = counted.map(|point| (point.pages, point.bytes)).collect();
        let first = by_target(recommended).next().unwrap_or_default();
        let coverages: Vec<_> = first.iter().map(|entry| (entry.coverage, entry.pages)).collect();
        let PrefillCosts { prefill_rate, prices } = &self.question;
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
