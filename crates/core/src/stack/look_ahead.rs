//! Waiting for memory once for several requests instead of once a step of each.
//!
//! In a pool larger than the processor's caches, a walk is a chain of cache misses: the index says which
//! segment, the segment where its label lies and which slot has it. Memory serves many misses at once if none
//! depends on another. So the next few requests are walked side by side: each step asks for what all of them
//! need next, without waiting for it, and reads what the step before requested; where a request goes on is guessed
//! from a few of its ids. The walks that count then find it in the cache; what is done here changes nothing.

use super::Stack;
use super::ids::{Place, ROOT, SegmentId, TOP};
use super::keys::ChildKey;
use super::prefetch::{LINE, prefetch};
use crate::units::pages::{PageIds, Scope};

/// Requests walked side by side: enough to fill the processor's queue of misses, few enough that what they
/// need stays in its nearest caches.
pub const LOOK_AHEAD: usize = 16;

/// Segments followed down a path at most.
const STEPS: usize = 8;

/// Pages of the longest request worth looking ahead at if every id of it is read. Comparing a longer one takes so
/// long that the processor finds the time by itself, and its far pages would have to be fetched for the guess alone.
/// Tests have longer ones too.
const LONGEST: usize = if cfg!(test) { 4 } else { 64 };

/// Ids of a long request requested where it leaves a segment. Those after them come in so steady a rhythm that the
/// processor asks for them by itself.
const FIRST_NEW: usize = 32;

/// Segments below which a tree is taken to be near anyway. Tests look ahead in every tree.
const SMALL: usize = if cfg!(test) { 1 } else { 1 << 9 };

/// Segments below which only the index's first lines are requested: the rest is in a processor's second cache, and
/// following requests takes longer than waiting for that.
const FAR: usize = if cfg!(test) { 1 } else { 1 << 14 };

/// A request that is about to be made of a stack.
#[derive(Debug, Clone, Copy)]
pub struct Upcoming<'a> {
    stack: &'a Stack,
    scope: Scope,
    pages: PageIds<'a>,
    /// Whether it is longer than [`LONGEST`], and few of its ids are read.
    is_long: bool,
}

impl Stack {
    /// A request that is about to be made, and whether its ids are declared chained; none where looking ahead would
    /// not pay.
    pub fn upcoming<'a>(
        &'a self,
        scope: Scope,
        pages: PageIds<'a>,
        ids_chained: bool,
    ) -> Option<Upcoming<'a>> {
        let is_long = pages.len() > LONGEST;
        let pays = if is_long {
            !self.tree.labels.are_near() && !self.reads_every_page(ids_chained)
        } else {
            self.tree.segment_count() >= SMALL
        };
        pays.then_some(Upcoming { stack: self, scope, pages, is_long })
    }
}

/// How far the guess has followed a request.
#[derive(Clone, Copy)]
struct Walker<'a> {
    request: Upcoming<'a>,
    /// Pages of the request above the next segment.
    at: usize,
    /// By which the index finds the next segment.
    key: ChildKey,
    /// The next segment.
    next: SegmentId,
}

impl<'a> Walker<'a> {
    /// Asks for where the index has a request's first segment; none where to follow it further would not pay.
    fn at_top(request: Upcoming<'a>) -> Option<Self> {
        let first = request.scope.first_page(request.pages.get(0)?);
        let key = request.stack.tree.key_of_child(TOP, first)?;
        request.stack.tree.prefetch_child(key);
        let goes_on = request.is_long || request.stack.tree.segment_count() >= FAR;
        goes_on.then_some(Self { request, at: 0, key, next: ROOT })
    }

    /// Guesses the next segment; false if there seems to be none.
    fn guess(&mut self) -> bool {
        let child = self.request.stack.tree.guess_child(self.key);
        child.inspect(|child| self.next = *child).is_some()
    }

    /// Asks for what leads on from the segment: its slot, and the ends of its label or, of a long request, what says
    /// where the ids of the label lie.
    #[inline]
    fn ask(&self) {
        let Upcoming { stack: Stack { tree, slots, .. }, is_long, .. } = self.request;
        let slot = if is_long { tree.prefetch_places(self.next) } else { tree.prefetch_ids(self.next) };
        slots.prefetch(slot);
    }

    /// Asks for the ids by which a long request is told to follow the segment or not.
    fn ask_for_ids(&self) {
        let Upcoming { stack: Stack { tree, .. }, pages, .. } = self.request;
        let rest = pages.from(self.at + 1);
        let guess = tree.prefetch_guess(self.next, rest.len());
        if let Some(id) = guess.and_then(|page| rest.as_le_bytes().get(page)) {
            prefetch(id);
        }
    }

    /// Finds where the request goes on below the segment; false at its end. Ids are taken to be chained, so that
    /// a right one tells of all above it.
    fn leave(&mut self) -> bool {
        let Upcoming { stack: Stack { tree, .. }, pages, is_long, .. } = self.request;
        // The first id may be that of another scope's page.
        let rest = pages.from(self.at + 1);
        if rest.is_empty() {
            return false;
        }
        let shared = tree.shared_chained_pages(self.next, rest);
        self.at += shared;
        if is_long {
            let new = pages.from(self.at).first(FIRST_NEW).as_le_bytes();
            new.chunks(LINE / size_of::<u64>()).for_each(|line| prefetch(&line[0]));
        }
        let place = Place { segment: self.next, pages: shared as u32 };
        let key = pages.get(self.at).and_then(|id| tree.key_of_child(place, id));
        key.inspect(|key| {
            tree.prefetch_child(*key);
            self.key = *key;
        })
        .is_some()
    }
}

/// Moves the walkers that go on to the front; returns them.
fn keep<'w, 'a>(
    walkers: &'w mut [Option<Walker<'a>>],
    goes_on: impl Fn(&mut Walker<'a>) -> bool,
) -> &'w mut [Option<Walker<'a>>] {
    let mut kept = 0;
    for index in 0..walkers.len() {
        if walkers[index].as_mut().is_some_and(&goes_on) {
            if kept < index {
                walkers[kept] = walkers[index];
            }
            kept += 1;
        }
    }
    &mut walkers[..kept]
}

/// Has the memory that the walks of up to [`LOOK_AHEAD`] requests need brought near, for all at once.
pub fn look_ahead<'a>(upcoming: impl IntoIterator<Item = Upcoming<'a>>) {
    let mut count = 0;
    let mut walkers = [None; LOOK_AHEAD];
    for (place, walker) in walkers.iter_mut().zip(upcoming.into_iter().filter_map(Walker::at_top)) {
        *place = Some(walker);
        count += 1;
    }
    let mut walking = &mut walkers[..count];
    for _ in 0..STEPS {
        // By the time a loop comes to what the one before requested, that has arrived.
        walking = keep(walking, Walker::guess);
        walking.iter().flatten().for_each(Walker::ask);
        walking.iter().flatten().filter(|walker| walker.request.is_long).for_each(Walker::ask_for_ids);
        walking = keep(walking, Walker::leave);
        if walking.is_empty() {
            break;
        }
    }
}
