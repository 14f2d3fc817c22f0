//! A request in flight: looked up and given its prompt's blocks as it arrives, a block at a time while it decodes,
//! and all of them taken back at its end.

use super::HybridCache;
use super::rules::{HybridLookup, RequestShape, RequestSteps};
use super::table::{FULL, HybridRequest, OTHERS, Tables};
use crate::engines::hits::CacheHits;
use crate::engines::load::{Begun, LoadedCache};
use crate::request::event::RequestEvent;
use crate::stack::runs::NONE;
use crate::units::pages::PageIds;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

impl HybridCache {
    /// Serves one request to its end and says what it found at its start.
    ///
    /// Output pages whose ids the event does not tell are pages nobody shares. Ids beyond the tokens, and
    /// tokens beyond the ids, are left out.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        match self.begin(event) {
            Begun::Runs(mut request, hits) => {
                request.is_alone = true;
                let rules = Arc::clone(&self.rules);
                let steps = RequestSteps::of(&rules, request.shape, request.found);
                while request.done < request.shape.stored && self.decode(&steps, &mut request) {}
                self.end(&steps, request);
                CacheHits { hits, refused: false }
            }
            // Alone nobody waits.
            Begun::Refused | Begun::Waits => CacheHits { hits: 0, refused: true },
        }
    }

    /// Enters the path of a request and looks it up; `None` where it stores more than the pool holds.
    pub(super) fn looked_up(&mut self, event: &RequestEvent<'_>) -> Option<HybridRequest> {
        let shape = RequestShape::of(event, &self.rules);
        if shape.stored.div_ceil(self.rules.page()) > self.capacity {
            self.refused += 1;
            return None;
        }
        self.take_ids(event, &shape);
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(PageIds::from_slice(&self.ids), &mut path);
        self.path = path;
        let found = self.lookup(&shape, self.ids.len() as u32);
        Some(HybridRequest {
            tail: self.path.last().copied().unwrap_or(NONE),
            ids: Vec::new(),
            // At most the pages of the pool, which are counted in 32 bits.
            known: self.ids.len() as u32,
            shape,
            found,
            done: 0,
            is_first: true,
            is_alone: false,
            order: 0,
            tables: self.spare.pop().unwrap_or_default(),
        })
    }

    /// Whether the pool is too small for a request even alone.
    pub(super) fn is_too_large(&self, steps: &RequestSteps<'_>) -> bool {
        !self.surely_holds(steps) && steps.peak() > self.capacity
    }

    /// Lets a request that was looked up go, for good or until there is room.
    pub(super) fn turn_away(&mut self, request: HybridRequest, for_good: bool) {
        self.refused += u64::from(for_good);
        self.tree.release(&self.path);
        self.spare.push(request.tables);
    }

    /// Whether the pool would hold every page in every group, and a state more; then the peak need not be known.
    fn surely_holds(&self, steps: &RequestSteps<'_>) -> bool {
        let pages = steps.rules.begun(steps.shape.stored) + 1;
        pages.saturating_mul(self.rules.attention.groups().len() as u64) <= self.capacity
    }

    /// Whether enough blocks are free for the steps of a prompt.
    fn has_room(&self, steps: &RequestSteps<'_>, tables: &Tables) -> bool {
        let free = self.unnamed + self.queued;
        if self.never_evicts || (free == self.capacity && self.surely_holds(steps)) {
            return true;
        }
        let pinned: u64 =
            [FULL, OTHERS].map(|side| self.counts[side] * tables.found_pages(side)).iter().sum();
        if steps.prefill_peak(|_| 0).max(pinned) <= free {
            return true;
        }
        let hits = steps.found.hits as u32;
        let full = self.shared(FULL, (0, hits));
        let shared = |low: u64| full + self.shared(OTHERS, (low as u32, hits));
        let pinned = pinned - shared(self.first_other(tables));
        steps.prefill_peak(shared).max(pinned) <= free
    }

    /// Takes blocks for a request whose path was entered, step by step for its prompt; whether there is room for it.
    fn start(&mut self, request: &mut HybridRequest) -> bool {
        let rules = Arc::clone(&self.rules);
        let steps = RequestSteps::of(&rules, request.shape, request.found);
        let mut tables = std::mem::take(&mut request.tables);
        tables.begin(request.found, rules.need());
        if !self.has_room(&steps, &tables) {
            tables.begin(HybridLookup::default(), 0);
            request.tables = tables;
            return false;
        }
        request.order = self.requests;
        self.requests += 1;
        match self.never_evicts {
            true => self.refresh(&tables, request.found),
            false => self.pin(&mut tables, request.found),
        }
        request.tables = tables;
        (request.done, request.is_first) = (request.found.hits * rules.page(), true);
        while request.done < request.shape.prompt {
            let next = steps.prefill(request.done);
            let has_room = self.step(&steps, request, next);
            debug_assert!(has_room, "the prompt's steps have room");
            (request.done, request.is_first) = (next, false);
        }
        true
    }

    /// One step, up to `next` tokens; whether there was room for it.
    pub(super) fn step(&mut self, steps: &RequestSteps<'_>, request: &mut HybridRequest, next: u64) -> bool {
        if !request.is_first {
            if !request.is_alone && self.has_private_others(&request.tables) {
                self.name_private(request);
            }
            self.free_passed(steps, &mut request.tables, request.done);
        }
        if !self.take_up_to(steps, &mut request.tables, next) {
            return false;
        }
        self.name_up_to(steps, request, next);
        true
    }

    /// The next token of the output, and those after it that change nothing; whether there was room. The path is the
    /// request's.
    pub(super) fn decode(&mut self, steps: &RequestSteps<'_>, request: &mut HybridRequest) -> bool {
        let done = request.done;
        self.name_up_to(steps, request, done);
        if !self.step(steps, request, done + 1) {
            return false;
        }
        let names = request.known as usize > request.shape.prompt_pages;
        (request.done, request.is_first) = (steps.next_event(done + 1, names), false);
        true
    }

    /// Gives all blocks back. The path is the request's.
    pub(super) fn end(&mut self, steps: &RequestSteps<'_>, mut request: HybridRequest) {
        // All that it stores, but where it ends early.
        let done = request.done;
        self.name_up_to(steps, &mut request, done);
        self.free_all(steps, &mut request.tables);
        self.tree.release(&self.path);
        self.spare.push(request.tables);
    }

    /// Gives pages of the output whose ids the event does not tell ids of the request's own: it looks them up itself
    /// when it goes on.
    fn name_private(&mut self, request: &mut HybridRequest) {
        let Some(pages) = request.tables.private_end().filter(|pages| *pages > request.known) else { return };
        let mut ids = self.tree.ids_of(&self.path, request.known as usize);
        let own = |page: u32| xxh3_64_with_seed(&request.order.to_le_bytes(), u64::from(page));
        ids.extend((request.known..pages).map(own));
        let before = std::mem::take(&mut self.path);
        let mut path = Vec::new();
        self.tree.enter(PageIds::from_slice(&ids), &mut path);
        self.path = path;
        self.tree.release(&before);
        request.tail = self.path.last().copied().unwrap_or(NONE);
        request.known = pages;
        self.name_private_holds(&mut request.tables, request.order);
    }

    /// Finds the path of a request in flight.
    fn find_path(&mut self, request: &HybridRequest) {
        self.tree.path_to(request.tail, &mut self.path);
    }
}

impl LoadedCache for HybridCache {
    type Request = HybridRequest;
    type Saved = HybridRequest;

    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<HybridRequest> {
        let Some(mut request) = self.looked_up(event) else { return Begun::Refused };
        let rules = Arc::clone(&self.rules);
        let is_refused = self.is_too_large(&RequestSteps::of(&rules, request.shape, request.found));
        if !is_refused && self.start(&mut request) {
            let hits = request.found.hits;
            return Begun::Runs(request, hits);
        }
        self.turn_away(request, is_refused);
        if is_refused { Begun::Refused } else { Begun::Waits }
    }

    fn next_token(&self, request: &HybridRequest) -> Option<u64> {
        let HybridRequest { shape, done, .. } = request;
        (*done < shape.stored).then(|| done + 1 - shape.first_prompt)
    }

    fn grow(&mut self, request: &mut HybridRequest) -> bool {
        let rules = Arc::clone(&self.rules);
        let steps = RequestSteps::of(&rules, request.shape, request.found);
        self.find_path(request);
        self.decode(&steps, request)
    }

    fn finish(&mut self, request: HybridRequest) {
        let rules = Arc::clone(&self.rules);
        let steps = RequestSteps::of(&rules, request.shape, request.found);
        self.find_path(&request);
        self.end(&steps, request);
    }

    fn preempt(&mut self, request: &mut HybridRequest, tokens: u64) {
        let shape = request.shape;
        request.done = (shape.first_prompt + tokens).clamp(shape.prompt, shape.stored);
        let rules = Arc::clone(&self.rules);
        let steps = RequestSteps::of(&rules, request.shape, request.found);
        self.find_path(request);
        let done = request.done;
        self.name_up_to(&steps, request, done);
        self.name_private(request);
        self.free_all(&steps, &mut request.tables);
    }

    fn stored(&self, request: &HybridRequest) -> (u64, u64) {
        let HybridRequest { shape, done, .. } = request;
        (done - shape.first_prompt, shape.stored - shape.first_prompt)
    }

    fn resume(&mut self, request: &mut HybridRequest) -> bool {
        let before = (request.shape, request.found);
        self.find_path(request);
        let tokens = (request.done + 1).min(request.shape.stored);
        request.shape = request.shape.up_to(tokens, &self.rules);
        request.found = self.lookup(&request.shape, request.known);
        if self.start(request) {
            return true;
        }
        (request.shape, request.found) = before;
        false
    }

    fn abandon(&mut self, request: HybridRequest) {
        self.find_path(&request);
        self.tree.release(&self.path);
        self.refused += 1;
    }

    fn save(&self, request: &HybridRequest) -> HybridRequest {
        let mut path = Vec::new();
        self.tree.path_to(request.tail, &mut path);
        let ids = self.tree.ids_of(&path, request.known as usize);
        HybridRequest { ids, tables: request.tables.each_group(), ..request.clone() }
    }

    fn rejoin(&mut self, mut saved: HybridRequest) -> Option<HybridRequest> {
        let rules = Arc::clone(&self.rules);
        let HybridRequest { shape, found, done, order, known, .. } = saved;
        let is_sound = shape.is_sound(self.capacity, &rules)
            && saved.ids.len() == known as usize
            && found.hits.max(found.junction) <= shape.looked_up
            && (shape.first_prompt..=shape.stored).contains(&done)
            && order < self.requests;
        if !is_sound {
            return None;
        }
        let ids = std::mem::take(&mut saved.ids);
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(PageIds::from_slice(&ids), &mut path);
        self.path = path;
        saved.tail = self.path.last().copied().unwrap_or(NONE);
        let steps = RequestSteps::of(&rules, shape, found);
        self.hold_again(&steps, &saved.tables).then_some(saved)
    }
}
