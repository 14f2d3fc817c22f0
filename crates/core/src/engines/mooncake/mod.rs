//! Mooncake's store at one capacity, by its own rules and by event time (docs/engines/mooncake.md).
//!
//! An object (a page) may go once its stamp has passed: a put stamps it with the time, being asked about or
//! read with the time and a lease. A put into a full store fails and is not tried again. Every 10 ms the
//! store looks whether it is above its watermark, or a put has failed, and then evicts a batch, the objects
//! with the smallest stamps first; those of one request go in prefix order. More capacity can lose hits, so one
//! [`MooncakeCache`] answers for one capacity.
//!
//! A client asks for all pages of a prompt, reads the leading ones that are there and puts what is missing, at once or,
//! where requests overlap ([`load`](super::load)), when the prompt has been computed.
//! Requests with one time stamp follow each other at 1 ms and 0.03 ms a page, which is about what a client
//! takes. Not modelled: several replicas of an object, pins, objects of several sizes.

mod flight;
mod saved;

pub use saved::SavedMooncake;

use crate::request::event::RequestEvent;
use crate::stack::runs::{MAX_PAGES, NONE, Piece, PieceIndex, RunIndex, RunTree};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use crate::units::ratio::Ratio;
use crate::units::{EventTime, PageCount, PageSize, is_countable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A moment in microseconds, counted so that every event time is above zero.
type Microseconds = u64;

/// Interval of the store's checks.
const CHECK_EVERY: Microseconds = 10_000;

/// What a request takes of the time until the next one with the same time stamp, and each of its pages.
const REQUEST_TAKES: Microseconds = 1_000;
const PAGE_TAKES: Microseconds = 30;

/// What decides a store's answers besides its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MooncakeRules {
    /// Tokens per page; a page is an object.
    pub page_size: PageSize,
    /// How long an object that was asked about stays, in milliseconds.
    pub lease_ms: u64,
    /// Share of the capacity above which batches go.
    pub watermark: Ratio,
    /// Least share of the objects that goes in one batch.
    pub eviction_ratio: Ratio,
}

/// Pages of a node that are not there.
type Missing = (RunIndex, u32, u32);

/// The store.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedMooncake")]
pub struct MooncakeCache {
    rules: MooncakeRules,
    capacity: u64,
    resident: u64,
    tree: RunTree,
    /// The objects by stamp: the list of their runs, and how many they are.
    buckets: BTreeMap<Microseconds, (PieceIndex, u64)>,
    /// A put has failed since the last batch.
    failed: bool,
    /// When the store looked last.
    checked: Microseconds,
    /// The last request's time stamp, when it was served, and when the next one can be.
    last: (Microseconds, Microseconds, Microseconds),
    /// The moment that has come, where requests overlap; not saved.
    now: EventTime,
    /// Puts that found no room, since the start.
    failed_puts: u64,
    /// Puts that found room, since the start; not saved.
    written: u64,
    ids: Vec<u64>,
    path: Vec<RunIndex>,
}

heap_bytes!(MooncakeCache {
    tree, buckets, ids, path;
    rules, capacity, resident, failed, checked, last, now, failed_puts, written
});

impl MooncakeCache {
    /// An empty store.
    pub fn new(capacity: PageCount, rules: MooncakeRules) -> Self {
        Self {
            rules,
            capacity: capacity.0.min(MAX_PAGES),
            resident: 0,
            tree: RunTree::new(),
            buckets: BTreeMap::new(),
            failed: false,
            checked: 0,
            last: (0, 0, 0),
            now: EventTime::default(),
            failed_puts: 0,
            written: 0,
            ids: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The modelled capacity, in objects.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &MooncakeRules {
        &self.rules
    }

    /// Whether its counts are ones that a log can come to.
    pub(crate) fn is_countable(&self) -> bool {
        is_countable(self.failed_puts)
    }

    /// Objects in the store.
    pub fn resident(&self) -> PageCount {
        PageCount(self.resident)
    }

    /// Puts that found no room, since the start.
    pub fn failed_puts(&self) -> u64 {
        self.failed_puts
    }

    /// Objects written since the start, or since it was restored.
    pub fn written(&self) -> PageCount {
        PageCount(self.written)
    }

    /// Serves one request and says how many leading pages of its prompt it found.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> u64 {
        self.request_after(event, 0)
    }

    /// Serves what is left of a request of which a tier above found so many leading pages: it is asked for those after
    /// them, and says how many of these it found.
    pub fn request_after(&mut self, event: &RequestEvent<'_>, above: u64) -> u64 {
        self.take_ids(event);
        let pages = self.ids.len() as u32;
        let now = self.arrive(event.event_time, pages);
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(PageIds::from_slice(&self.ids), &mut path);
        // At most the pages, which are counted in 32 bits.
        let asked = (above.min(u64::from(pages)) as u32, pages);
        let (found, missing) = self.look_up(&path, asked, now);
        self.put_all(missing, now);
        self.tree.release(&path);
        self.path = path;
        u64::from(found - asked.0)
    }

    /// Asks for the pages `asked` of a path, which leases those that are there; up to where they all are, and what is
    /// missing of them.
    fn look_up(&mut self, path: &[RunIndex], asked: (u32, u32), now: Microseconds) -> (u32, Vec<Missing>) {
        let found = self.tree.run_from(path, |_| true, asked);
        let leased = now.saturating_add(self.rules.lease_ms.saturating_mul(1000));
        let mut missing = Vec::new();
        for node in path {
            self.ask(*node, asked, leased, &mut missing);
        }
        (found, missing)
    }

    /// Puts what is missing, as far as there is room.
    fn put_all(&mut self, missing: Vec<Missing>, now: Microseconds) {
        for (node, from, to) in missing {
            self.put(node, from, to, now);
        }
    }

    /// Copies the ids of the prompt's full pages, the first one keyed by its scope.
    fn take_ids(&mut self, event: &RequestEvent<'_>) {
        let page = u64::from(self.rules.page_size.get());
        let full =
            event.input_tokens.map_or(u64::MAX, |tokens| tokens / page).min(event.page_ids.len() as u64);
        self.ids.clear();
        self.ids.extend(event.page_ids.first(full as usize).iter());
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
    }

    /// When a request is served, the checks before it made: at its time, or, where it has that of the one before it,
    /// after that one. A request that comes late in the log is served with the one before it.
    fn arrive(&mut self, at: EventTime, pages: u32) -> Microseconds {
        const LARGEST: i64 = 1_000_000_000_000_000;
        let stamp = (at.0.clamp(-LARGEST, LARGEST) + LARGEST) as u64 * 1000;
        let (last_stamp, last_now, free) = self.last;
        let now = if stamp <= last_stamp { free } else { stamp.max(last_now) };
        let takes = REQUEST_TAKES + PAGE_TAKES * u64::from(pages);
        self.last = (stamp.max(last_stamp), now, now.saturating_add(takes));
        self.check_up_to(now);
        now
    }

    /// Runs the checks that are due by `now` and can evict something.
    fn check_up_to(&mut self, now: Microseconds) {
        while self.failed || self.resident > self.rules.watermark.share_of(self.capacity) {
            let Some(stamp) = self.buckets.keys().next().copied() else { break };
            let due = (self.checked + 1).max(stamp).next_multiple_of(CHECK_EVERY);
            if due > now {
                break;
            }
            self.checked = due;
            self.evict(due);
        }
        self.checked = self.checked.max(now / CHECK_EVERY * CHECK_EVERY);
    }

    /// Evicts one batch of objects whose stamp has passed.
    fn evict(&mut self, now: Microseconds) {
        let mut left = self.batch();
        while left > 0
            && let Some(mut entry) = self.buckets.first_entry()
            && *entry.key() <= now
            && let Some(oldest) = self.tree.arena.first(entry.get().0)
        {
            let gone = u64::from(self.tree.arena.get(oldest).pages()).min(left);
            self.tree.drop_first(oldest, gone as u32);
            entry.get_mut().1 -= gone;
            self.resident -= gone;
            left -= gone;
            if entry.get().1 == 0 {
                self.tree.arena.drop_list(entry.remove().0);
            }
        }
        self.failed = false;
    }

    /// Objects of one batch: `ceil(objects * max(ratio, used / C - watermark + ratio))`.
    fn batch(&self) -> u64 {
        const PARTS: u64 = 1_000_000_000;
        let (used, capacity) = (u128::from(self.resident), u128::from(self.capacity));
        // Shares have at most nine decimal places, so these are whole.
        let [watermark, ratio] =
            [self.rules.watermark, self.rules.eviction_ratio].map(|share| u128::from(share.share_of(PARTS)));
        let above = (used * u128::from(PARTS)).saturating_sub(watermark * capacity);
        let share = above + ratio * capacity;
        let parts = (u128::from(PARTS) * capacity).max(1);
        (used * share).div_ceil(parts) as u64
    }

    /// Leases the objects of a node among the pages `asked`, and lists what is missing of them.
    fn ask(&mut self, node: RunIndex, asked: (u32, u32), leased: Microseconds, missing: &mut Vec<Missing>) {
        let (first, end) = self.tree.span(node);
        let (first, end) = (first.max(asked.0), end.min(asked.1));
        if first >= end {
            return;
        }
        let mut there: Vec<(u32, PieceIndex)> = self
            .tree
            .pieces(node)
            .filter(|(_, piece)| piece.from < end && piece.to > first)
            .map(|(index, piece)| (piece.from, index))
            .collect();
        there.sort_unstable();
        let (mut at, mut run) = (first, None);
        for (from, piece) in there {
            let piece = if from < first { self.tree.cut(piece, first) } else { piece };
            let from = from.max(first);
            if self.tree.arena.get(piece).to > end {
                self.tree.cut(piece, end);
            }
            if at < from {
                missing.push((node, at, from));
            }
            let to = self.tree.arena.get(piece).to;
            self.remove(piece);
            run = match run {
                Some((start, stop)) if stop == from => Some((start, to)),
                other => {
                    self.add(node, other, leased);
                    Some((from, to))
                }
            };
            at = to;
        }
        self.add(node, run, leased);
        if at < end {
            missing.push((node, at, end));
        }
    }

    /// Puts objects, as many as there is room for.
    fn put(&mut self, node: RunIndex, from: u32, to: u32, now: Microseconds) {
        let room = (self.capacity - self.resident).min(u64::from(to - from)) as u32;
        if room > 0 {
            self.add(node, Some((from, from + room)), now);
            self.written += u64::from(room);
        }
        let lost = to - from - room;
        self.failed |= lost > 0;
        self.failed_puts += u64::from(lost);
    }

    /// Adds a run of objects with a stamp.
    fn add(&mut self, node: RunIndex, run: Option<(u32, u32)>, stamp: Microseconds) {
        let Some(run) = run else { return };
        let piece = self.tree.add_piece(Piece::new(node, 0, run, stamp));
        self.tree.arena.get_mut(piece).ascending = true;
        self.file(piece);
    }

    /// Puts a run into the bucket of its stamp.
    fn file(&mut self, piece: PieceIndex) {
        let (stamp, pages) =
            (self.tree.arena.get(piece).order, u64::from(self.tree.arena.get(piece).pages()));
        let arena = &mut self.tree.arena;
        let (list, in_bucket) = self.buckets.entry(stamp).or_insert_with(|| (arena.new_list(), 0));
        *in_bucket += pages;
        arena.push(*list, piece);
        self.resident += pages;
    }

    /// Takes a run out of its bucket, and drops it.
    fn remove(&mut self, piece: PieceIndex) {
        let (stamp, pages) =
            (self.tree.arena.get(piece).order, u64::from(self.tree.arena.get(piece).pages()));
        self.tree.remove_piece(piece);
        self.resident -= pages;
        if let Some((list, in_bucket)) = self.buckets.get_mut(&stamp) {
            *in_bucket -= pages;
            if *in_bucket == 0 {
                let list = *list;
                self.buckets.remove(&stamp);
                self.tree.arena.drop_list(list);
            }
        }
    }
}

// A run without ids has no node, and a store holds none.
const _: () = assert!(NONE as u64 > MAX_PAGES);
