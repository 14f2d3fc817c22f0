//! A request in flight in SGLang: its prompt is in the tree, locked, from its look-up on; what its output takes is
//! its own until its end, which inserts it.

use super::SglangCache;
use super::host::HostTier;
use super::node::{NodeIndex, ROOT};
use super::one_pool::PlainRules;
use super::shape::PagedRequest;
use crate::engines::load::{Begun, LoadedCache};
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// A request in flight, or one that was preempted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engines) struct SglangRequest {
    /// Where its prompt ends in the tree, which it has locked; of a snapshot's no use.
    #[serde(skip)]
    tail: NodeIndex,
    /// Whether it has.
    is_locked: bool,
    /// The ids of its prompt, where it was preempted or in a snapshot.
    prompt: Vec<u64>,
    /// Those of its output, as far as they are known.
    outputs: Vec<u64>,
    shape: PagedRequest,
    /// Tokens of its output stored so far.
    done: u64,
    /// Pages that it holds and that are in no node.
    held: u64,
}

heap_bytes!(SglangRequest { prompt, outputs; tail, is_locked, shape, done, held });

impl SglangRequest {
    /// Whether it takes a page for a token of its output, counted from 1.
    fn takes_page(&self, token: u64, page: u64) -> bool {
        (self.shape.prompt + token - 1).is_multiple_of(page)
    }
}

impl<H: HostTier> SglangCache<PlainRules, H> {
    fn page(&self) -> u64 {
        u64::from(self.rules.page_size.get())
    }

    /// The ids of the path that ends at a node.
    fn ids_to(&self, tail: NodeIndex) -> Vec<u64> {
        let mut path = Vec::new();
        self.tree.path_to(tail, &mut path);
        path[1..].iter().flat_map(|node| self.tree.label(*node)).copied().collect()
    }

    /// Lets go of what a request holds apart from its own pages, which are gone then.
    fn let_go(&mut self, request: &mut SglangRequest) {
        self.held -= std::mem::take(&mut request.held);
        if std::mem::take(&mut request.is_locked) {
            self.tree.unlock(request.tail);
        }
    }
}

impl<H: HostTier> LoadedCache for SglangCache<PlainRules, H> {
    type Request = SglangRequest;
    type Saved = SglangRequest;

    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<SglangRequest> {
        let shape = self.shape(event);
        if shape.least_capacity() > self.capacity.0 {
            self.refuse();
            return Begun::Refused;
        }
        let mut ids = Vec::new();
        self.take_ids(event, &shape, &mut ids);
        let outputs = ids.split_off(shape.prompt_pages);
        let Some((hits, tail)) = self.place_prompt(&ids, shape.hit_limit, shape.prompt_slots) else {
            return Begun::Waits;
        };
        let held = shape.prompt_slots - shape.prompt_pages as u64;
        self.held += held;
        self.tree.compact();
        let request =
            SglangRequest { tail, is_locked: true, prompt: Vec::new(), outputs, shape, done: 0, held };
        Begun::Runs(request, hits)
    }

    /// A free page is wanted before every token, so besides tokens that take one the first and those behind them count.
    fn next_token(&self, request: &SglangRequest) -> Option<u64> {
        let (SglangRequest { shape, done, .. }, page) = (request, self.page());
        let next = done + 1;
        let is_next = *done == 0 || request.takes_page(*done, page);
        let token = match is_next {
            true => next,
            false => (shape.prompt + done).next_multiple_of(page) + 1 - shape.prompt,
        };
        (token <= shape.stored - shape.prompt).then_some(token)
    }

    fn before_tokens(&mut self, in_flight: usize) {
        self.evict_until_free(in_flight as u64);
    }

    fn grow(&mut self, request: &mut SglangRequest) -> bool {
        let Some(token) = self.next_token(request) else { return true };
        if request.takes_page(token, self.page()) {
            self.evict_until_free(1);
            if self.free() == 0 {
                return false;
            }
            self.held += 1;
            request.held += 1;
        }
        request.done = token;
        true
    }

    fn finish(&mut self, mut request: SglangRequest) {
        let is_whole = self.next_token(&request).is_none();
        self.held -= std::mem::take(&mut request.held);
        let outputs = std::mem::take(&mut request.outputs);
        // One that ends early leaves its prompt alone. Pages fit: `least_capacity` was checked against a capacity of
        // 32 bits.
        let (outputs, private) = match is_whole {
            true => (&outputs[..], request.shape.private_outputs as u32),
            false => (&[][..], 0),
        };
        self.place_outputs(request.tail, request.shape.prompt_pages as u64, outputs, private);
        self.let_go(&mut request);
        self.tree.compact();
    }

    fn preempt(&mut self, request: &mut SglangRequest, tokens: u64) {
        request.prompt = self.ids_to(request.tail);
        request.done = request.done.max(tokens).min(request.shape.stored - request.shape.prompt);
        self.let_go(request);
    }

    fn stored(&self, request: &SglangRequest) -> (u64, u64) {
        (request.done, request.shape.stored - request.shape.prompt)
    }

    fn resume(&mut self, request: &mut SglangRequest) -> bool {
        let (shape, page) = (request.shape, self.page());
        let tokens = (shape.prompt + request.done + 1).min(shape.stored);
        let prompt = std::mem::take(&mut request.prompt);
        let limit = prompt.len().min(usize::try_from(tokens.saturating_sub(1) / page).unwrap_or(usize::MAX));
        let slots = tokens.div_ceil(page);
        let begun = self.place_prompt(&prompt, limit, slots);
        let Some((_, tail)) = begun else {
            request.prompt = prompt;
            return false;
        };
        (request.tail, request.is_locked) = (tail, true);
        request.held = slots - prompt.len() as u64;
        request.done = tokens - shape.prompt;
        self.held += request.held;
        true
    }

    fn abandon(&mut self, _: SglangRequest) {
        self.refuse();
    }

    fn save(&self, request: &SglangRequest) -> SglangRequest {
        let mut saved = request.clone();
        if request.is_locked {
            saved.prompt = self.ids_to(request.tail);
        }
        saved
    }

    fn rejoin(&mut self, mut saved: SglangRequest) -> Option<SglangRequest> {
        let shape = saved.shape;
        let is_sound = shape.least_capacity() <= self.capacity.0
            && shape.prompt <= shape.stored
            && saved.prompt.len() == shape.prompt_pages
            && saved.outputs.len() == shape.known_outputs
            && saved.done <= shape.stored - shape.prompt
            && shape.private_outputs <= self.capacity.0
            && saved.held <= self.free();
        if !is_sound {
            return None;
        }
        self.held += saved.held;
        if saved.is_locked {
            let prompt = std::mem::take(&mut saved.prompt);
            let mut path = vec![ROOT];
            let clock = self.tree.clock();
            let matched = self.tree.descend(&mut path, &prompt);
            // A node that is cut gets a new stamp; the prompts of requests in flight end where nodes do.
            if matched < prompt.len() || self.tree.clock() != clock {
                return None;
            }
            saved.tail = path.last().copied().unwrap_or(ROOT);
            self.tree.lock(saved.tail);
        }
        Some(saved)
    }
}
