//! Which conversation a request is of, as it comes, by the tree of pages alone.
//!
//! A request goes on from the deepest page that is known. Where that page is private, the request is of the
//! conversation that used it last. Where it is common, or nothing is known, the request begins a conversation.
//! [`Families`](crate::families::Families) tells the same of a log that ends, and looks at all of it first; here a page
//! is not known to be common until enough different pages have followed it, so the first few conversations behind a new
//! system prompt are taken for one.

use crate::families::{PAGES_PART, hash};
use crate::questions::question::Accepted;
use crate::request::outcome::Outcome;
use crate::request::sample::Sample;
use crate::units::heap::heap_bytes;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Latest requests whose conversations are known. One that goes on after more of them is a conversation of its own.
const LATEST: usize = 1 << 16;

/// Pages at which prompts part that are remembered, at least: those that were parted from last.
const PARTINGS: usize = 1 << 15;

/// What keeps the keys apart of conversations that begin with a page, without one, or whose beginning is forgotten.
const BY_PAGE: u64 = 1;
const BY_PLACE: u64 = 2;
const RESUMED: u64 = 3;

/// The conversations of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conversations {
    /// Keys of the conversations of the latest requests.
    latest: VecDeque<u64>,
    /// Requests before these.
    forgotten: u64,
    partings: Partings,
}

heap_bytes!(Conversations { latest, partings; forgotten });

impl Conversations {
    /// The conversation of a request of a pool that follows this share of its pages: a key that is its alone, and
    /// looks random.
    pub(super) fn of(&mut self, request: &Accepted<'_>, rate: Ratio) -> u64 {
        let Accepted { event, outcome, index, .. } = *request;
        let known = outcome.known_pages().min(outcome.page_accesses);
        let page = |at: u64| page_at(request, rate, at);
        let (last, next) = (known.checked_sub(1).and_then(page), page(known));
        let is_common = |page: &u64| self.partings.next_pages(*page) >= PAGES_PART as u32;
        let own = match last.filter(|last| !is_common(last)) {
            Some(last) => self.of_latest(toucher(outcome, known)).unwrap_or_else(|| hash(&[RESUMED, last])),
            None => match next {
                Some(next) => hash(&[BY_PAGE, next]),
                None => hash(&[BY_PLACE, event.event_time.0 as u64, index]),
            },
        };
        if let Some(last) = last.filter(|_| next.is_some()) {
            self.partings.part(last);
        }
        self.remember(own, index);
        own
    }

    /// The conversation of an earlier request, by its number.
    fn of_latest(&self, request: Option<u64>) -> Option<u64> {
        let place = request?.checked_sub(self.forgotten)?;
        self.latest.get(usize::try_from(place).ok()?).copied()
    }

    fn remember(&mut self, own: u64, index: u64) {
        self.latest.push_back(own);
        if self.latest.len() > LATEST {
            self.latest.pop_front();
        }
        self.forgotten = (index + 1).saturating_sub(self.latest.len() as u64);
    }

    /// Whether this, read back from a snapshot, can be gone on with after so many requests.
    pub(super) fn is_sound(&self, requests: u64) -> bool {
        self.latest.len() <= LATEST
            && self.forgotten.checked_add(self.latest.len() as u64) == Some(requests)
            && self.partings.is_sound()
    }
}

/// The page of a prompt at a place among those that are followed.
fn page_at(request: &Accepted<'_>, rate: Ratio, at: u64) -> Option<u64> {
    let (scope, ids) = (request.event.scope, request.event.page_ids);
    let at = usize::try_from(at).ok().filter(|at| (*at as u64) < request.outcome.page_accesses)?;
    let id = match rate {
        Ratio::ONE => ids.get(at),
        _ => Sample::at(rate).followed(scope, ids).nth(at),
    };
    id.map(|id| scope.key(id))
}

/// Who touched the last of so many known pages last.
fn toucher(outcome: &Outcome, known: u64) -> Option<u64> {
    let mut left = known;
    let runs = outcome.runs.iter().chain(&outcome.unlooked);
    let mut passed = runs.skip_while(|run| {
        let is_before = left > u64::from(run.pages);
        left -= if is_before { u64::from(run.pages) } else { 0 };
        is_before
    });
    passed.next().map(|run| run.last_touched_by)
}

/// How many different pages follow the pages at which prompts part, in two generations of which the older one is
/// forgotten at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Partings {
    young: BTreeMap<u64, u32>,
    old: BTreeMap<u64, u32>,
}

heap_bytes!(Partings { young, old });

impl Partings {
    /// Different next pages of a page; at most one too many, where it was the last one of a prompt at first.
    fn next_pages(&self, page: u64) -> u32 {
        let parted = self.young.get(&page).or_else(|| self.old.get(&page));
        parted.map_or(0, |parted| parted.saturating_add(1))
    }

    /// A page is followed by one that never followed it.
    fn part(&mut self, page: u64) {
        let before = self.old.get(&page).copied().unwrap_or(0);
        let parted = self.young.entry(page).or_insert(before);
        *parted = parted.saturating_add(1);
        if self.young.len() > PARTINGS {
            self.old = std::mem::take(&mut self.young);
        }
    }

    fn is_sound(&self) -> bool {
        self.young.len() <= PARTINGS && self.old.len() <= PARTINGS + 1
    }
}
