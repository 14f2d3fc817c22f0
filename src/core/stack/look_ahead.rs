//! Waiting for memory once for several requests instead of once a step of each.
//!
//! In a pool larger than the processor's caches, a walk is a chain of cache misses: the index says which
//! segment, the segment where its label lies and which slot has it. A processor waits for many misses at once
//! if none depends on another. So the next few requests are walked side by side: a step first reads what all of
//! them need next, then guesses where each goes on from a few of its ids. The walks that count then find it in the cache; what is read here changes nothing.

use super::Stack;
use super::tree::{Place, SegmentId, TOP};
use crate::core::pages::{PageIds, Scope};
use std::hint::black_box;

/// Requests walked side by side: enough to fill the processor's queue of misses, few enough that what they
/// need stays in its nearest caches.
pub const LOOK_AHEAD: usize = 16;

/// Segments followed down a path at most.
const STEPS: usize = 8;

/// Pages of the longest request worth looking ahead at. Comparing a longer one takes so long that the
/// processor finds the time by itself, and its far pages would have to be fetched for the guess alone.
const LONGEST: usize = 64;

/// Segments below which a tree is taken to be in the cache anyway. Tests look ahead in every tree.
const SMALL: usize = if cfg!(test) { 1 } else { 4096 };

/// A request that is about to be made of a stack.
#[derive(Debug, Clone, Copy)]
pub struct Upcoming<'a> {
    stack: &'a Stack,
    scope: Scope,
    pages: PageIds<'a>,
}

impl Stack {
    /// A request that is about to be made; none where looking ahead would not pay.
    pub fn upcoming<'a>(&'a self, scope: Scope, pages: PageIds<'a>) -> Option<Upcoming<'a>> {
        let pays = pages.len() <= LONGEST && self.tree.segment_count() >= SMALL;
        pays.then_some(Upcoming { stack: self, scope, pages })
    }
}

/// How far the guess has followed a request.
#[derive(Clone, Copy)]
struct Walker<'a> {
    request: Upcoming<'a>,
    /// The segment that is on its way from memory.
    next: SegmentId,
    /// Pages of the request above it.
    at: usize,
}

impl Walker<'_> {
    /// Reads what leads on from the segment: the ends of its label, and its slot.
    fn read(&self) -> u64 {
        let Stack { tree, slots, .. } = self.request.stack;
        let (slot, ids) = tree.glance(self.next);
        ids ^ slots.glance(slot)
    }

    /// Guesses where the request goes on; false at its end. Ids are taken to be chained, so that a right one tells
    /// of all above it.
    fn step(&mut self) -> bool {
        let Upcoming { stack: Stack { tree, .. }, pages, .. } = self.request;
        // The first id may be that of another scope's page.
        let shared = tree.shared_chained_pages(self.next, pages.from(self.at + 1));
        self.at += shared;
        let place = Place { segment: self.next, pages: shared as u32 };
        let hash = pages.get(self.at).and_then(|id| tree.hash_of_child(place, id));
        let next = hash.and_then(|hash| tree.guess_child(hash));
        next.inspect(|next| self.next = *next).is_some()
    }
}

/// Has the memory that the walks of up to [`LOOK_AHEAD`] requests need brought near, for all at once.
pub fn look_ahead<'a>(upcoming: impl IntoIterator<Item = Upcoming<'a>>) {
    let mut seen = 0;
    let mut starts: [Option<(Upcoming<'_>, u64)>; LOOK_AHEAD] = [None; LOOK_AHEAD];
    for (start, request) in starts.iter_mut().zip(upcoming) {
        let first = request.pages.get(0).map(|id| request.scope.first_page(id));
        let hash = first.and_then(|first| request.stack.tree.hash_of_child(TOP, first));
        *start = hash.map(|hash| (request, hash));
    }
    let mut walkers: [Option<Walker<'_>>; LOOK_AHEAD] = [None; LOOK_AHEAD];
    let mut walking = 0;
    for (request, hash) in starts.into_iter().flatten() {
        if let Some(next) = request.stack.tree.guess_child(hash) {
            walkers[walking] = Some(Walker { request, next, at: 0 });
            walking += 1;
        }
    }
    for _ in 0..STEPS {
        // Neither loop depends on what it reads, so all of it is under way before the first arrives.
        for walker in walkers[..walking].iter().flatten() {
            seen ^= u64::from(walker.request.stack.tree.touch(walker.next));
        }
        for walker in walkers[..walking].iter().flatten() {
            seen ^= walker.read();
        }
        let mut kept = 0;
        for index in 0..walking {
            if walkers[index].as_mut().is_some_and(Walker::step) {
                walkers[kept] = walkers[index];
                kept += 1;
            }
        }
        walking = kept;
        if walking == 0 {
            break;
        }
    }
    black_box(seen);
}
