//! A request over a tier below, one after another: what the tier has behind the pool's pages is loaded before the
//! first step, and each step of the prompt is offered to it.

use super::below::{LookedUpPrompt, LowerTier, PromptStep};
use super::rules::RequestSteps;
use super::table::HybridRequest;
use super::{HybridCache, groups_of};
use crate::engines::hits::CacheHits;
use crate::request::event::RequestEvent;
use crate::stack::runs::Piece;
use std::sync::Arc;

impl HybridCache {
    /// Serves one request to its end and says what it found at its start, and how many pages behind that the tier had.
    pub(in crate::engines) fn request_over(
        &mut self,
        event: &RequestEvent<'_>,
        tier: &mut impl LowerTier,
    ) -> (CacheHits, u64) {
        let refused = (CacheHits { hits: 0, refused: true }, 0);
        let Some(mut request) = self.looked_up(event) else { return refused };
        request.is_alone = true;
        let rules = Arc::clone(&self.rules);
        let (shape, found) = (request.shape, request.found);
        let findable = shape.prompt.saturating_sub(u64::from(event.input_tokens.is_some()));
        let (hits, junction) = (found.hits, found.junction);
        let start = tier.look_up(event, LookedUpPrompt { prompt: shape.prompt, findable, hits, junction });
        let steps = RequestSteps::of(&rules, shape, found).from(start);
        if self.is_too_large(&steps) {
            tier.leave();
            self.turn_away(request, true);
            return refused;
        }
        tier.load();
        self.loose.clear();
        self.notes_loose = true;
        self.load(&steps, &mut request);
        let mut is_stored = true;
        let mut states = self.name_loaded(&steps, &mut request);
        while request.done < shape.prompt {
            let (next, named) = (steps.prefill(request.done), request.tables.named());
            let has_room = self.step(&steps, &mut request, next);
            debug_assert!(has_room, "the prompt's steps have room");
            (request.done, request.is_first) = (next, false);
            states.extend(self.states_named(&steps, &request.tables, named));
            is_stored = self.offer(&steps, &request, tier, &states);
            states.clear();
        }
        // Each step that decodes offers what is left again, and so does the end.
        while request.done < shape.stored {
            let done = request.done;
            if !self.decode(&steps, &mut request) {
                break;
            }
            if !is_stored {
                // Steps in which the pool changes nothing count, too.
                request.done = done + 1;
                is_stored = self.offer(&steps, &request, tier, &[]);
            }
        }
        if !is_stored {
            self.offer(&steps, &request, tier, &[]);
        }
        self.notes_loose = false;
        // A connector is handed what the last token needs: what windows and states have passed goes before all else.
        let done = request.done;
        self.name_up_to(&steps, &mut request, done);
        self.free_passed(&steps, &mut request.tables, done);
        self.end(&steps, request);
        tier.leave();
        (CacheHits { hits: found.hits, refused: false }, start / rules.page() - found.hits)
    }

    /// Pins what the pool has, and takes blocks for what the tier loads behind it.
    fn load(&mut self, steps: &RequestSteps<'_>, request: &mut HybridRequest) {
        let mut tables = std::mem::take(&mut request.tables);
        tables.begin(request.found, steps.rules.need());
        request.order = self.requests;
        self.requests += 1;
        if steps.loads() {
            tables.pass_to(steps.first_held());
        }
        self.pin(&mut tables, request.found);
        if steps.loads() {
            self.take_loaded(steps, &mut tables);
        }
        request.tables = tables;
        (request.done, request.is_first) = (steps.start, !steps.loads());
    }

    /// Gives names to what was loaded, where they are kept; the states among it.
    fn name_loaded(&mut self, steps: &RequestSteps<'_>, request: &mut HybridRequest) -> Vec<u64> {
        if !steps.loads() {
            return Vec::new();
        }
        let named = request.tables.named();
        self.name_up_to(steps, request, steps.start);
        self.states_named(steps, &request.tables, named).collect()
    }

    /// Offers the tier what a step has computed; whether nothing is left to store.
    fn offer(
        &self,
        steps: &RequestSteps<'_>,
        request: &HybridRequest,
        tier: &mut impl LowerTier,
        states: &[u64],
    ) -> bool {
        let is_there = |group: u32, page: u64| {
            let page = page as u32;
            self.has_page(request, group, page) || self.is_loose(group, page)
        };
        tier.store(&PromptStep {
            tokens: request.done.min(request.shape.prompt),
            states,
            first: steps.first_held(),
            low: self.first_other(&request.tables),
            is_there: &is_there,
        })
    }

    /// Whether a group still has the block in which the request computed a page, or found it, by its name.
    fn has_page(&self, request: &HybridRequest, group: u32, page: u32) -> bool {
        let is_found = u64::from(page) < request.found.hits;
        let is_own = |piece: &Piece| {
            groups_of(piece).has(group)
                && (piece.from..piece.to).contains(&page)
                && (is_found || piece.order == request.order)
        };
        self.path.iter().any(|node| {
            let (first, end) = self.tree.span(*node);
            (first..end).contains(&page) && self.tree.pieces(*node).any(|(_, piece)| is_own(piece))
        })
    }
}
