//! A range of an engine's requests, taken while the engine is still with those before it ([`crate::stack::Range`]).

use super::{Engine, EngineConfig, Footprint};
use crate::engines::profile::{Layout, Outputs};
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::stack::{InOrder, Range, RangeStack};
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use crate::units::ratio::Ratio;

/// What a range of requests comes to, to be merged into the engine that took all before it.
#[derive(Debug)]
pub struct EngineRange {
    config: EngineConfig,
    page_size: PageSize,
    stack: Range,
    requests: Vec<Footing>,
}

heap_bytes!(EngineRange { stack, requests; config, page_size });

/// What an engine keeps of a request alongside its stack: pages accessed, tokens behind the full ones, and whether it
/// ends in a page that cannot be shared.
pub(super) type Footing = (u64, u32, bool);

/// Takes the requests of a range.
#[derive(Debug)]
pub struct RangeEngine {
    /// Its own stack takes nothing.
    engine: Engine,
    stack: RangeStack,
    requests: Vec<Footing>,
}

impl RangeEngine {
    /// A range without requests, of an engine of this configuration.
    ///
    /// # Errors
    /// [`InOrder`] where no range of such an engine can be merged.
    pub fn new(config: EngineConfig) -> Result<Self, InOrder> {
        // Which output pages a sample takes follows from all outputs before.
        let has_outputs = config.profile.spec().layout == Layout::Blocks && config.outputs == Outputs::Cached;
        if config.sample_rate != Ratio::ONE && has_outputs {
            return Err(InOrder::SampledOutputs);
        }
        let stack = RangeStack::new(config.stack())?;
        Ok(Self { engine: Engine::new(config), stack, requests: Vec::new() })
    }

    /// Takes the next request.
    ///
    /// # Errors
    /// [`InOrder`]: the range has not taken it, and can be dropped.
    pub fn observe(&mut self, event: &RequestEvent<'_>, page_size: PageSize) -> Result<(), InOrder> {
        let Self { engine, stack, requests } = self;
        if event.duration_ms.is_some() && engine.config.models_overlap() {
            return Err(InOrder::Overlap);
        }
        let footprint = engine.footprint(event, page_size).map_err(|_| InOrder::Refused)?;
        let mut pages = std::mem::take(&mut engine.pages);
        let (access, page_accesses) = engine.access_of(event, &footprint, &mut pages);
        let taken = stack.access(&access);
        let Footprint { rest_tokens, partial, .. } = footprint;
        engine.pages = pages;
        engine.previous_partial = partial;
        requests.push((page_accesses, rest_tokens, partial));
        taken
    }

    /// The range of the requests taken, which have pages of this size.
    pub fn finish(self, page_size: PageSize) -> EngineRange {
        let Self { engine, stack, requests } = self;
        EngineRange { config: engine.config, page_size, stack: stack.finish(), requests }
    }
}

impl EngineRange {
    /// Requests.
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Tokens per page.
    pub(crate) fn page_size(&self) -> PageSize {
        self.page_size
    }
}

impl Engine {
    /// Begins to merge the range of the next requests: [`Engine::observe`] is to be called for each of them, in their
    /// order, before the engine is asked anything else than its counts.
    ///
    /// # Errors
    /// [`InOrder`]: they have to be observed without. Nothing has changed then.
    pub fn merge(&mut self, range: EngineRange) -> Result<(), InOrder> {
        if range.config != self.config {
            return Err(InOrder::Unfit);
        }
        self.stack.merge(range.stack)?;
        self.waiting = Some(range.requests.into_iter());
        Ok(())
    }

    /// Takes the next request of the range that is merged; false where there is none.
    pub(super) fn observe_next(&mut self, outcome: &mut Outcome) -> bool {
        let Some((page_accesses, rest_tokens, partial)) = self.waiting.as_mut().and_then(Iterator::next)
        else {
            return false;
        };
        let is_taken = self.stack.access_next(self.extra_need(self.previous_partial), outcome);
        (outcome.page_accesses, outcome.rest_tokens) = (page_accesses, rest_tokens);
        self.previous_partial = partial;
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::profile::Profile;
    use crate::stack::ChainPolicy;
    use crate::stack::naive::chained_requests;
    use crate::units::pages::{PageIds, Scope};
    use proptest::prelude::*;

    const SIZE: u64 = 4;

    fn page_size() -> PageSize {
        PageSize::new(SIZE as u32).expect("not zero")
    }

    /// What an event says alongside its ids: tokens of a partial last page, of the output, and whether its pages have
    /// ids.
    type Observers = (u64, u64, bool, bool);

    /// An event whose prompt is all of `ids` but those given to its output.
    fn event(ids: &[u64], (partial, output, known, scoped): Observers) -> RequestEvent<'_> {
        let outputs = if known { ids.len() / 3 } else { 0 };
        let (prompt, output_ids) = ids.split_at(ids.len() - outputs);
        RequestEvent {
            scope: if scoped { Scope::named(b"one") } else { Scope::GLOBAL },
            page_ids: PageIds::from_slice(prompt),
            output_page_ids: PageIds::from_slice(output_ids),
            input_tokens: Some(prompt.len() as u64 * SIZE + if prompt.is_empty() { 0 } else { partial }),
            output_tokens: Some(output),
            ..RequestEvent::default()
        }
    }

    proptest! {
        /// Partial pages take room over the border of two ranges, outputs with and without ids, samples.
        #[test]
        fn merged_ranges_equal_one_engine(
            requests in chained_requests(60),
            beside in prop::collection::vec((0..SIZE, 0u64..20, any::<bool>(), any::<bool>()), 60),
            sizes in prop::collection::vec(1usize..20, 1..8),
            profile in prop::sample::select(vec![Profile::Paper, Profile::LeafFirst, Profile::Vllm]),
            (ignored, partial, sampled) in any::<(bool, bool, bool)>(),
        ) {
            let config = EngineConfig {
                profile,
                outputs: if ignored { Outputs::Ignored } else { Outputs::Cached },
                include_partial_page: partial,
                keeps_copies: profile == Profile::Vllm,
                sample_rate: if sampled { Ratio::per_mille(400) } else { Ratio::ONE },
                ..EngineConfig::default()
            };
            let (mut one, mut merged) = (Engine::new(config), Engine::new(config));
            let events: Vec<_> = requests.iter().zip(&beside).map(|(ids, beside)| event(ids, *beside)).collect();
            let mut rest = &events[..];
            for size in sizes.iter().cycle() {
                let (range, later) = rest.split_at((*size).min(rest.len()));
                rest = later;
                let taken = RangeEngine::new(config).and_then(|mut taken| {
                    range.iter().try_for_each(|event| taken.observe(event, page_size()))?;
                    merged.merge(taken.finish(page_size()))
                });
                prop_assert_eq!(taken.is_ok(), !(sampled && profile == Profile::Vllm && !ignored));
                for event in range {
                    let (mut expected, mut found) = (Outcome::default(), Outcome::default());
                    one.observe(event, page_size(), &mut expected).expect("sound");
                    merged.observe(event, page_size(), &mut found).expect("sound");
                    prop_assert_eq!(found, expected);
                    prop_assert_eq!(merged.stack().tracked_pages(), one.stack().tracked_pages());
                    prop_assert_eq!(merged.stack().requests(), one.stack().requests());
                }
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_range_of_other_rules_is_not_merged() {
        let range = RangeEngine::new(EngineConfig::default()).expect("violations are reported");
        let range = range.finish(page_size());
        let mut other = Engine::new(EngineConfig { profile: Profile::LeafFirst, ..EngineConfig::default() });
        assert_eq!(other.merge(range), Err(InOrder::Unfit));
        let config = EngineConfig { chain_policy: ChainPolicy::Trust, ..EngineConfig::default() };
        assert_eq!(RangeEngine::new(config).err(), Some(InOrder::Policy));
    }

    #[test]
    fn a_request_that_the_engine_refuses_is_of_no_range() {
        let mut range = RangeEngine::new(EngineConfig::default()).expect("violations are reported");
        let wrong = RequestEvent { input_tokens: Some(100), ..event(&[1, 2], (0, 1, false, false)) };
        assert_eq!(range.observe(&wrong, page_size()), Err(InOrder::Refused));
    }
}
