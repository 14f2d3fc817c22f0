//! Requests that part from all earlier ones and later go on as one of them does.

use crate::replay::{LogEntry, RequestLog};
use kvset_core::units::pages::{PageIds, Scope};
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How ids are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grain {
    /// Ids that are looked up together.
    pub gram: usize,
    /// Fewest ids that must be the same behind a place.
    pub least: usize,
    /// Whether a list in another order may be a little longer or shorter: of tokens it may, of pages not.
    pub is_exact: bool,
}

/// Most places that are remembered to be found again; of more every second one, and so on.
const MOST_ANCHORS: usize = 1 << 22;

/// Most ids behind a parting that are searched for a list in another order.
const MOST_REORDERED: usize = 1 << 16;

/// A request that parts from an earlier one at `start`, and goes on behind its `end` as that one does behind
/// `other_end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parting {
    /// The request, by its place in the log.
    pub request: usize,
    /// The earlier one.
    pub reference: usize,
    /// Ids that both begin with.
    pub start: usize,
    /// The end of what differs in the request.
    pub end: usize,
    /// The end of what differs in the reference.
    pub other_end: usize,
    /// Ids that are the same behind that.
    pub behind: usize,
    /// What differs is the same in another order.
    pub is_order: bool,
}

/// Finds the partings of a log, in its order; and how many ids were met behind others than before: nothing of the kind
/// where they are chained.
pub fn partings(log: &RequestLog, grain: Grain) -> (Vec<Parting>, u64) {
    let mut finder = Finder {
        log,
        grain,
        stride: (log.prompts().kept() / MOST_ANCHORS + 1).next_power_of_two() as u64,
        anchors: HashMap::default(),
        at_hand: None,
        reference: Vec::new(),
        index: None,
        met_elsewhere: 0,
    };
    let mut ids = Vec::new();
    let mut found = Vec::new();
    for (at, request) in log.requests().iter().enumerate() {
        log.prompts().read(request.path, &mut ids);
        found.extend(finder.parting(at, request, &ids));
        finder.remember(at, request, &ids);
    }
    (found, finder.met_elsewhere)
}

/// Most ids behind a place that are looked up for who had them first.
const MOST_LOOKED_AT: usize = 1 << 12;

impl Grain {
    /// Whether what is the same behind a place is worth more than what differs there: at the shorter side no more
    /// than a quarter of it, unless that is little in any case.
    fn counts(&self, parting: &Parting) -> bool {
        let Parting { start, end, other_end, behind, .. } = *parting;
        let differs = (end - start).min(other_end - start);
        behind >= self.least && differs <= (behind / 4).max(self.least.min(behind))
    }
}

type Positions = HashMap<u64, Vec<usize>, foldhash::fast::RandomState>;

struct Finder<'l> {
    log: &'l RequestLog,
    grain: Grain,
    /// One in so many grams is remembered.
    stride: u64,
    /// The first request and place of each gram.
    anchors: HashMap<u64, (u32, u32), foldhash::fast::RandomState>,
    /// The earlier request at hand, and its ids.
    at_hand: Option<usize>,
    reference: Vec<u64>,
    /// Where the grams of a reference stand behind a place, for the last one that was searched.
    index: Option<(usize, usize, Positions)>,
    met_elsewhere: u64,
}

impl Finder<'_> {
    /// The gram at `at`, where it is one of those that are remembered.
    fn gram(&self, scope: Scope, ids: &[u64], at: usize) -> Option<u64> {
        let gram = ids.get(at..at + self.grain.gram)?;
        let hash = xxh3_64_with_seed(PageIds::from_slice(gram).as_packed(), scope.value());
        hash.is_multiple_of(self.stride).then_some(hash)
    }

    fn remember(&mut self, at: usize, request: &LogEntry, ids: &[u64]) {
        let first = (request.known + 1).saturating_sub(self.grain.gram);
        for place in first..ids.len() {
            if let Some(gram) = self.gram(request.scope, ids, place) {
                self.anchors.entry(gram).or_insert((at as u32, place as u32));
            }
        }
    }

    /// How a request parts from the first of the earlier ones that it rejoins for long enough.
    fn parting(&mut self, at: usize, request: &LogEntry, ids: &[u64]) -> Option<Parting> {
        let (mut place, mut may_reorder) = (request.known, true);
        while place < ids.len() {
            let Some(anchor) = self.anchor(request.scope, ids, place) else {
                place += 1;
                continue;
            };
            let Some(found) = self.rejoin(at, ids, anchor) else {
                // What the earlier one says there this request said before, too.
                place += 1;
                continue;
            };
            self.met_elsewhere += 1;
            // Who was the first to say what follows is the one that all others are compared with.
            let run = place..place + found.behind.min(MOST_LOOKED_AT);
            let first = run
                .filter_map(|place| self.anchor(request.scope, ids, place))
                .min_by_key(|(_, reference, _)| *reference);
            let earlier = first.filter(|first| first.1 < anchor.1);
            for anchor in earlier.into_iter().chain([anchor]) {
                let Some(parting) = self.rejoin(at, ids, anchor) else { continue };
                if may_reorder && let Some(parting) = self.reordered(at, anchor.1, ids, parting.start) {
                    return Some(parting);
                }
                if self.grain.counts(&parting) {
                    return Some(parting);
                }
            }
            may_reorder = false;
            place = found.end.max(place) + found.behind.max(1);
        }
        None
    }

    /// `place`, and where the ids there were met first: the request, and the place in it.
    fn anchor(&self, scope: Scope, ids: &[u64], place: usize) -> Option<(usize, usize, usize)> {
        let (reference, other) = *self.anchors.get(&self.gram(scope, ids, place)?)?;
        Some((place, reference as usize, other as usize))
    }

    /// How a request goes on as an earlier one does from an anchor on; nothing where they have not parted before it.
    fn rejoin(&mut self, at: usize, ids: &[u64], anchor: (usize, usize, usize)) -> Option<Parting> {
        let (place, reference, other) = anchor;
        if self.at_hand != Some(reference) {
            self.log.prompts().read(self.log.requests()[reference].path, &mut self.reference);
            self.at_hand = Some(reference);
        }
        let start = common(ids, &self.reference);
        let apart = place.min(other).checked_sub(start)?;
        let same = |back: &usize| ids[place - 1 - back] == self.reference[other - 1 - back];
        let back = (0..apart).take_while(same).count();
        let (end, other_end) = (place - back, other - back);
        let behind = common(&ids[end..], &self.reference[other_end..]);
        Some(Parting { request: at, reference, start, end, other_end, behind, is_order: false })
    }

    /// The parting where what follows both from `start` on is the same in another order.
    fn reordered(&mut self, at: usize, reference: usize, ids: &[u64], start: usize) -> Option<Parting> {
        let end = self.reference.len().min(start + MOST_REORDERED);
        let (gram, tail) = (self.grain.gram, &self.reference[start..end]);
        if !matches!(self.index, Some((of, from, _)) if (of, from) == (reference, start)) {
            let mut positions = Positions::default();
            for (at, gram) in tail.windows(gram).enumerate() {
                let all = positions.entry(hash(gram)).or_default();
                if all.len() < MOST_ALIKE {
                    all.push(at);
                }
            }
            self.index = Some((reference, start, positions));
        }
        let (_, _, positions) = self.index.as_ref()?;
        let own = &ids[start..ids.len().min(start + MOST_REORDERED)];
        let (own_end, tail_end) = permutation(own, tail, positions, self.grain)?;
        let (end, other_end) = (start + own_end, start + tail_end);
        let behind = common(&ids[end..], &self.reference[other_end..]);
        // A list counts with what it holds: sorted, it is found itself.
        let behind = behind + own_end;
        Some(Parting { request: at, reference, start, end, other_end, behind, is_order: true })
    }
}

/// Most places of one gram in a reference that are compared.
const MOST_ALIKE: usize = 16;

fn hash(gram: &[u64]) -> u64 {
    xxh3_64_with_seed(PageIds::from_slice(gram).as_packed(), 0)
}

fn common(one: &[u64], other: &[u64]) -> usize {
    PageIds::from_slice(one).common_prefix(PageIds::from_slice(other))
}

/// Most pieces of a list.
const MOST_PIECES: usize = 512;

/// Where leading ids of two tails end that are the same pieces in another order: the shortest, if there are any.
fn permutation(own: &[u64], other: &[u64], positions: &Positions, grain: Grain) -> Option<(usize, usize)> {
    let (mut at, mut pieces, mut loose) = (0, Vec::<(usize, usize)>::new(), 0);
    let mut is_reordered = false;
    while at + grain.gram <= own.len() {
        let alike = positions.get(&hash(&own[at..at + grain.gram])).map_or(&[][..], Vec::as_slice);
        let is_free = |place: &&usize| pieces.iter().all(|(from, end)| **place < *from || *end <= **place);
        let longest = |place: &&usize| (common(&own[at..], &other[**place..]), usize::MAX - **place);
        let Some(place) = alike.iter().filter(is_free).max_by_key(longest).copied() else {
            (at, loose) = (at + 1, loose + 1);
            // Too much that the other one does not have: this is another text.
            if loose > at / 4 + 4 * grain.gram {
                return None;
            }
            continue;
        };
        // A piece that was taken ends this one.
        let taken = pieces.iter().filter(|(from, _)| *from >= place).map(|(from, _)| from - place).min();
        let length = common(&own[at..], &other[place..]).min(taken.unwrap_or(usize::MAX));
        is_reordered |= pieces.last().is_some_and(|(_, end)| place < *end);
        pieces.push((place, place + length));
        at += length;
        let covered: usize = pieces.iter().map(|(from, end)| end - from).sum();
        let last = pieces.iter().map(|(_, end)| *end).max()?;
        if is_reordered && is_closed(covered, at, last, grain) {
            return Some((at, last));
        }
        if pieces.len() == MOST_PIECES {
            return None;
        }
    }
    None
}

/// Whether the pieces are all of both tails so far, but for what joins them.
fn is_closed(covered: usize, end: usize, other_end: usize, grain: Grain) -> bool {
    match grain.is_exact {
        true => covered == end && covered == other_end,
        false => covered * 10 >= end.max(other_end) * 9,
    }
}
