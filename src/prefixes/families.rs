//! The places that make a difference, and what mending them brings, by replay.

use super::bodies::{self, Difference};
use super::kinds::PartingKind;
use super::mending::{apply, edits};
use super::partings::{Grain, Parting, partings};
use super::places::{PartingPlace, places};
use super::shared::shared;
use crate::replay::{PromptTree, Replay, ReplayError, ReplayOptions, RequestLog, parallel};
use kvset_core::estimate::CapacityPoint;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Where requests of a family part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartsAt {
    /// The page, counted from 0.
    pub page: u64,
    /// The token, counted from 0.
    pub token: u64,
    /// The part of the body, where bodies are there.
    pub part: Option<String>,
    /// The characters in that part, of one request of the family: the first, and the one behind the last.
    pub characters: Option<(usize, usize)>,
    /// What differs, where that can be known.
    pub kind: Option<PartingKind>,
}

/// Requests that begin alike, part at one place, and say the same again behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrefixFamily {
    /// Requests that pass through the place.
    pub requests: u64,
    /// Full pages before it.
    pub pages_before: u64,
    /// The place.
    pub parts_at: PartsAt,
    /// Pages behind it that a request could have reused had the place not differed, on average over those that part
    /// there; absent where ids are chained, so that nothing can be compared.
    pub pages_behind: Option<u64>,
    /// Page hits of the whole log as it is.
    pub hit_pages: Option<u64>,
    /// Pages that would hit if what differs stood at the end of each prompt, or a list had one order.
    pub hit_pages_if_mended: Option<u64>,
    /// What two of the requests have there; only where it is to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<[String; 2]>,
}

impl PrefixFamily {
    /// Page hits that mending brings.
    pub fn gain(&self) -> i64 {
        match (self.hit_pages, self.hit_pages_if_mended) {
            (Some(hits), Some(mended)) => mended as i64 - hits as i64,
            _ => 0,
        }
    }
}

/// What a log shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrefixFindings {
    /// Requests that count.
    pub requests: u64,
    /// Those whose prompt is shorter than a page: no cache finds any of it.
    pub requests_below_a_page: u64,
    /// Tokens per page.
    pub page_size: Option<u32>,
    /// Pages of all prompts.
    pub page_accesses: u64,
    /// Pages that hit, at the capacity.
    pub hit_pages: u64,
    /// The capacity, in pages; unlimited where that is none.
    pub capacity_pages: Option<u64>,
    /// Whether what stands behind a place can be compared: not where ids are chained.
    pub can_compare: bool,
    /// The families, the largest gain first; then the largest beginnings that requests share, behind which they say
    /// nothing alike.
    pub families: Vec<PrefixFamily>,
}

/// Most families whose gain is replayed.
const MOST_REPLAYED: usize = 16;

/// Most places whose bodies are looked at.
const MOST_LOOKED_AT: usize = 512;

/// Fewest different things that stand in a place which counts.
const FEWEST_VARIANTS: usize = 3;

/// A family counts where mending finds one page in so many of those that are missed.
const LEAST_SHARE: u64 = 100;

/// Finds the families of a log, at most so many. `options` have one capacity or none; texts may be shown where
/// `shows_text`.
///
/// # Errors
/// The log cannot be replayed.
pub fn find(
    log: &RequestLog,
    options: &ReplayOptions,
    most: usize,
    shows_text: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<PrefixFindings, ReplayError> {
    let page_size = log.page_size(options);
    let tokens = page_size.map_or(1, |size| size.get() as usize);
    // Ids within a page.
    let ids_a_page = if log.has_tokens() { tokens } else { 1 };
    let grain = match log.has_tokens() {
        true => Grain { gram: 16, least: tokens.max(32), is_exact: false },
        false => Grain { gram: 1, least: 1, is_exact: true },
    };
    progress("replaying the log");
    let base = log.replay(options, None, &|_, _| {})?;
    let is_chained = !log.has_tokens() && log.requests().iter().any(|request| request.ids_chained());
    progress("looking for places at which prompts part");
    let (found, met_elsewhere) = if is_chained { Default::default() } else { partings(log, grain) };
    let can_compare = log.has_tokens() || met_elsewhere > 0;
    let groups = grouped(log, places(log, &found, grain), options);
    progress("replaying mended logs");
    let measured = Pricing { log, options, ids_a_page, base: hits(&base), unlimited: unlimited(&base) };
    let mended: Result<Vec<_>, ReplayError> =
        parallel::map(options.threads, &groups, |group| measured.family(group, shows_text))
            .into_iter()
            .collect();
    let accesses = base.estimate().page_accesses;
    // By what a cache of any size could find: at a small one a place may matter little, and is there all the same.
    let least = (accesses.saturating_sub(unlimited(&base)) / LEAST_SHARE).max(1);
    let counts = |(_, more): &(PrefixFamily, u64)| *more >= least;
    let mut families: Vec<PrefixFamily> =
        mended?.into_iter().filter(counts).map(|(family, _)| family).collect();
    families.sort_by_key(|family| std::cmp::Reverse(family.gain()));
    families.truncate(most);
    let own = |ids: usize| (ids / ids_a_page, if log.has_tokens() { ids } else { ids * tokens });
    let room = most - families.len();
    let mut natural = shared(log, most);
    natural.retain(|(_, ids)| families.iter().all(|family| family.parts_at.token != own(*ids).1 as u64));
    families.extend(natural.into_iter().take(room).map(|(requests, ids)| {
        let (page, token) = own(ids);
        let hits = can_compare.then_some(hits(&base));
        PrefixFamily {
            requests,
            pages_before: page as u64,
            parts_at: PartsAt {
                page: page as u64,
                token: token as u64,
                part: None,
                characters: None,
                kind: None,
            },
            pages_behind: can_compare.then_some(0),
            hit_pages: hits,
            hit_pages_if_mended: hits,
            texts: None,
        }
    }));
    let is_short = |request: &&crate::replay::LogEntry| request.path.ids() < ids_a_page.max(1);
    Ok(PrefixFindings {
        requests: base.requests - base.warm_up_requests,
        requests_below_a_page: log.requests().iter().filter(is_short).count() as u64,
        page_size: page_size.map(|size| size.get()),
        page_accesses: accesses,
        hit_pages: hits(&base),
        capacity_pages: point(&base).map(|point| point.pages),
        can_compare,
        families,
    })
}

/// The place with most requests: what the family is reported by.
fn largest(group: &[(PartingPlace, Option<Difference>)]) -> Option<&(PartingPlace, Option<Difference>)> {
    group.iter().max_by_key(|(place, _)| (place.members.len(), std::cmp::Reverse(place.reference)))
}

/// Different things that stand in a family's places.
fn variants(group: &[(PartingPlace, Option<Difference>)]) -> usize {
    group.iter().map(|(place, _)| place.variants - 1).sum::<usize>() + 1
}

/// Ids that the partings could have had, as far as one look tells.
fn promise(group: &[(PartingPlace, Option<Difference>)]) -> usize {
    let of = |place: &PartingPlace| place.partings.iter().map(|parting| parting.behind).sum::<usize>();
    group.iter().map(|(place, _)| of(place)).sum()
}

/// What places of one family have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The list that the part of the body is of, and the kind of what differs.
    Named(String, PartingKind),
    /// Where it stands, of a place in which enough different things do.
    At(usize, bool),
    /// A list in another order, and whether something is left out; of places such as there is one in each session.
    Shaped(bool, bool),
}

impl Likeness {
    fn of(place: &PartingPlace, difference: Option<&Difference>) -> Self {
        if let Some(found) = difference {
            let list = found.part.split('[').next().unwrap_or_default();
            return Self::Named(list.to_owned(), found.kind);
        }
        if place.variants >= FEWEST_VARIANTS {
            return Self::At(place.start, place.is_order);
        }
        let is_removed = |of: &Parting| of.end == of.start || of.other_end == of.start;
        Self::Shaped(place.is_order, place.partings.iter().any(is_removed))
    }
}

/// Families of places that are alike: places that are reported as one, each with what its bodies differ in.
fn grouped(
    log: &RequestLog,
    mut places: Vec<PartingPlace>,
    options: &ReplayOptions,
) -> Vec<Vec<(PartingPlace, Option<Difference>)>> {
    places.retain(|place| place.is_variable());
    places.sort_by_key(|place| std::cmp::Reverse(place.partings.len() * place.behind));
    places.truncate(MOST_LOOKED_AT);
    let differences = differences(log, &places, options);
    let mut alike = BTreeMap::<Likeness, Vec<_>>::new();
    for (place, difference) in places.into_iter().zip(differences) {
        let group = alike.entry(Likeness::of(&place, difference.as_ref())).or_default();
        group.push((place, difference));
    }
    let mut groups: Vec<_> = alike.into_values().filter(|group| variants(group) >= FEWEST_VARIANTS).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(promise(group)));
    groups.truncate(MOST_REPLAYED);
    groups
}

/// Where the bodies of each place's first parting differ.
fn differences(
    log: &RequestLog,
    places: &[PartingPlace],
    options: &ReplayOptions,
) -> Vec<Option<Difference>> {
    let requests = log.requests();
    let mut wanted = BTreeMap::<&str, BTreeSet<u64>>::new();
    if log.has_tokens() {
        for parting in places.iter().filter_map(|place| place.partings.first()) {
            for at in [parting.request, parting.reference] {
                wanted.entry(log.file(&requests[at])).or_default().insert(requests[at].line);
            }
        }
    }
    let mut records = BTreeMap::new();
    for (file, lines) in wanted.into_iter().filter(|(file, _)| *file != "-") {
        bodies::records(file, &lines, &mut records);
    }
    let record = |at: usize| {
        let request = &requests[at];
        records.get(&(log.file(request).to_owned(), request.line)).map(Vec::as_slice)
    };
    let difference = |place: &PartingPlace| {
        let parting = place.partings.first()?;
        let uses = place.members.len() as f64 / place.variants.max(1) as f64;
        let at = options.read.places.request.as_ref();
        bodies::difference(record(parting.request)?, record(parting.reference)?, at, uses)
    };
    places.iter().map(difference).collect()
}

/// The log as it is, to compare with.
struct Pricing<'a> {
    log: &'a RequestLog,
    options: &'a ReplayOptions,
    ids_a_page: usize,
    /// Its hits at the capacity, and at any.
    base: u64,
    unlimited: u64,
}

impl Pricing<'_> {
    /// A family, and the hits that mending brings at unlimited capacity.
    fn family(
        &self,
        group: &[(PartingPlace, Option<Difference>)],
        shows_text: bool,
    ) -> Result<(PrefixFamily, u64), ReplayError> {
        let Self { log, ids_a_page, .. } = *self;
        // What bodies show to be a list in another order is put into one, however fine its parts are.
        let is_order =
            |found: &Option<Difference>| found.as_ref().is_some_and(|found| found.kind == PartingKind::Order);
        let ordered = |(place, found): &(PartingPlace, Option<Difference>)| PartingPlace {
            is_order: place.is_order || is_order(found),
            ..place.clone()
        };
        let places: Vec<PartingPlace> = group.iter().map(ordered).collect();
        let edits = edits(log, places.iter());
        let whole = |at: usize, ids: &[u64]| log.requests()[at].whole_ids(ids.len());
        let mend = |at: usize, ids: &mut Vec<u64>| {
            if let Some(edits) = edits.get(&at) {
                apply(edits, whole(at, ids), ids);
            }
        };
        let options = ReplayOptions { threads: 1, ..self.options.clone() };
        let mended = log.replay(&options, None, &mend)?;
        let members: BTreeSet<usize> =
            places.iter().flat_map(|place| place.members.iter().map(|(at, _)| *at)).collect();
        let parted: BTreeSet<usize> =
            places.iter().flat_map(|place| place.partings.iter().map(|parting| parting.request)).collect();
        let (place, difference) =
            largest(group).map_or((None, None), |(place, found)| (Some(place), found.as_ref()));
        let start = place.map_or(0, |place| place.start);
        let tokens = log.page_size(self.options).map_or(1, |size| size.get() as usize);
        let family = PrefixFamily {
            requests: members.len() as u64,
            pages_before: (start / ids_a_page) as u64,
            parts_at: PartsAt {
                page: (start / ids_a_page) as u64,
                token: if log.has_tokens() { start } else { start * tokens } as u64,
                part: difference.map(|found| found.part.clone()),
                characters: difference.map(|found| found.characters),
                kind: difference
                    .map(|found| found.kind)
                    .or(place.filter(|place| place.is_order).map(|_| PartingKind::Order)),
            },
            pages_behind: Some(self.pages_behind(&parted, &mend)),
            hit_pages: Some(self.base),
            hit_pages_if_mended: Some(hits(&mended)),
            texts: difference.filter(|_| shows_text).map(|found| found.texts.clone()),
        };
        Ok((family, unlimited(&mended).saturating_sub(self.unlimited)))
    }

    /// Pages that a request which parts would have found in addition, on average.
    fn pages_behind(&self, parted: &BTreeSet<usize>, mend: &dyn Fn(usize, &mut Vec<u64>)) -> u64 {
        let (mut prompts, mut ids, mut more) = (PromptTree::default(), Vec::new(), 0);
        for (at, request) in self.log.requests().iter().enumerate() {
            self.log.prompts().read(request.path, &mut ids);
            mend(at, &mut ids);
            let (_, known) = prompts.add(request.scope, &ids);
            if parted.contains(&at) {
                more += (known / self.ids_a_page).saturating_sub(request.known / self.ids_a_page);
            }
        }
        (more / parted.len().max(1)) as u64
    }
}

/// The point of the curve at the capacity that was given.
fn point(replay: &Replay) -> Option<&CapacityPoint> {
    let whole = replay.whole.as_ref().filter(|_| !replay.config.cache.capacities.is_empty())?;
    whole.capacities.first()
}

/// Prefix hits at the capacity, unlimited where none is given.
fn hits(replay: &Replay) -> u64 {
    point(replay).map_or_else(|| unlimited(replay), |point| point.prefix_hits.unwrap_or(0))
}

/// Prefix hits at unlimited capacity.
fn unlimited(replay: &Replay) -> u64 {
    replay.estimate().theoretical.prefix_hits
}
