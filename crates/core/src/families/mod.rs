//! Families: requests that share more than what everybody shares.
//!
//! How certain a figure is, and what more traffic would need, both depend on what of a log is independent of the rest.
//! Requests are not, since those of a conversation come together. Conversations are not where they share documents.
//! So the unit is the family:
//!
//! - A page is *common* where at least [`SESSIONS_PART`] sessions go on from it with different next pages. A page's
//!   session is the one that touched it first. Where no request names a session, a page is common that has at least
//!   [`PAGES_PART`] different next pages. Every page before a common page is common, too.
//! - Requests are of one *family* where they are of one session, or both touch a page that is not common.
//!
//! [`Families::of`] finds them, [`overlay`] says how more or fewer of them would come, and [`certainty`] how much a
//! figure depends on which of them came.

pub mod certainty;
mod hash;
pub mod overlay;
#[cfg(test)]
mod tests;

use crate::request::prompts::{PromptPath, PromptTree};
use crate::units::EventTime;
use crate::units::pages::Scope;
pub(crate) use hash::hash;
use std::collections::HashMap;

/// Sessions that go on from a common page with different next pages.
pub const SESSIONS_PART: usize = 4;

/// Next pages of a common page where no request names a session: a conversation that was edited, or a document with
/// several questions, has fewer.
pub const PAGES_PART: usize = 8;

/// A request, as far as its family depends on it.
#[derive(Debug, Clone, Copy)]
pub struct FamilyMember {
    /// Its pages, those of its answer behind those of its prompt.
    pub path: PromptPath,
    /// What their ids are unique within.
    pub scope: Scope,
    /// When it came.
    pub time: EventTime,
    /// A hash of the name of its session, where it has one; of whatever else takes the place of a session.
    pub session: Option<u64>,
}

/// The families of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Families {
    /// By request, its family and its leading pages that are common.
    requests: Vec<(u32, u32)>,
    /// By family, in the order of their first requests.
    families: Vec<FamilyFacts>,
    common_pages: u64,
    has_sessions: bool,
}

/// One family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyFacts {
    /// A hash of its first page that is not common, else of time and place of its first request: what chance goes by.
    pub key: u64,
    /// Its requests.
    pub requests: u64,
}

/// Nothing: no segment, no request.
const NONE: u32 = u32::MAX;

impl Families {
    /// The families of requests in the order of their times. The order of equal times makes no difference, except for
    /// the key of a family whose first request has common pages only.
    pub fn of(log: &[FamilyMember], prompts: &PromptTree) -> Self {
        let has_sessions = log.iter().any(|member| member.session.is_some());
        let common = common_segments(log, prompts, has_sessions);
        let private = first_private(prompts, &common);
        let mut union = Union::new(log.len());
        let (mut by_session, mut by_segment) = (HashMap::new(), vec![NONE; prompts.segments()]);
        let mut requests: Vec<(u32, u32)> = Vec::with_capacity(log.len());
        for (at, member) in log.iter().enumerate() {
            let at = at as u32;
            if let Some(session) = member.session {
                union.join(at, *by_session.entry(session).or_insert(at));
            }
            let last = prompts.passed(member.path).next().map(|(last, ..)| last);
            let own = last.map_or(NONE, |last| private[last]);
            let all = member.path.ids() as u32;
            let common = if own == NONE { all } else { prompts.segment(own as usize).1.start as u32 };
            if own != NONE {
                // Whoever has a page of the path behind it has the first page of this segment, too.
                let first = &mut by_segment[own as usize];
                *first = if *first == NONE { at } else { *first };
                union.join(at, *first);
            }
            requests.push((own, common));
        }
        let families = number(log, prompts, &mut union, &mut requests);
        let of_segment = |(number, is_common): (usize, &bool)| match is_common {
            true => prompts.segment(number).1.len() as u64,
            false => 0,
        };
        let common_pages = common.iter().enumerate().map(of_segment).sum();
        Self { requests, families, common_pages, has_sessions }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.families.len()
    }

    /// The families, in the order of their first requests.
    pub fn all(&self) -> &[FamilyFacts] {
        &self.families
    }

    /// The family of a request, by its place in the log.
    pub fn of_request(&self, request: usize) -> usize {
        self.requests[request].0 as usize
    }

    /// Leading pages of a request that are common.
    pub fn common_of(&self, request: usize) -> usize {
        self.requests[request].1 as usize
    }

    /// Common pages.
    pub fn common_pages(&self) -> u64 {
        self.common_pages
    }

    /// Whether they were told by the names of sessions; else by the tree of pages alone.
    pub fn has_sessions(&self) -> bool {
        self.has_sessions
    }

    /// The share of the requests that the largest one has.
    pub fn largest_share(&self) -> f64 {
        let most = self.families.iter().map(|family| family.requests).max().unwrap_or(0);
        most as f64 / (self.requests.len() as f64).max(1.0)
    }
}

/// Which segments have common pages: pages part at the end of a segment only, so all of a segment or none of it.
fn common_segments(log: &[FamilyMember], prompts: &PromptTree, has_sessions: bool) -> Vec<bool> {
    let count = prompts.segments();
    let parts = match has_sessions {
        true => sessions_by_segment(log, prompts),
        false => {
            let mut parts = vec![0; count];
            (0..count).filter_map(|number| prompts.segment(number).0).for_each(|above| parts[above] += 1);
            parts
        }
    };
    let least = if has_sessions { SESSIONS_PART } else { PAGES_PART };
    let mut common = vec![false; count];
    for (number, _) in parts.iter().enumerate().filter(|(_, parts)| **parts >= least) {
        let mut next = Some(number);
        while let Some(number) = next.filter(|number| !common[*number]) {
            common[number] = true;
            next = prompts.segment(number).0;
        }
    }
    common
}

/// How many sessions go on behind each segment with different next pages.
fn sessions_by_segment(log: &[FamilyMember], prompts: &PromptTree) -> Vec<usize> {
    // Who touched the first page of a segment first; of several at one time the smallest.
    let mut first: Vec<Option<(EventTime, u64)>> = vec![None; prompts.segments()];
    for member in log {
        let Some(own) = member.session.map(|session| (member.time, session)) else { continue };
        for (number, ..) in prompts.passed(member.path) {
            // Who was before here was before on the whole way.
            if first[number].is_some_and(|known| known <= own) {
                break;
            }
            first[number] = Some(own);
        }
    }
    let behind = |(number, first): (usize, &Option<(EventTime, u64)>)| {
        Some((prompts.segment(number).0?, first.as_ref()?.1))
    };
    let mut behind: Vec<(usize, u64)> = first.iter().enumerate().filter_map(behind).collect();
    behind.sort_unstable();
    behind.dedup();
    let mut sessions = vec![0; prompts.segments()];
    behind.into_iter().for_each(|(above, _)| sessions[above] += 1);
    sessions
}

/// By segment, the first one on the way to it that is not common.
fn first_private(prompts: &PromptTree, common: &[bool]) -> Vec<u32> {
    let mut known: Vec<Option<u32>> = vec![None; common.len()];
    let mut way = Vec::new();
    for number in 0..common.len() {
        let mut next = Some(number);
        let mut found = NONE;
        while let Some(number) = next {
            if let Some(above) = known[number] {
                found = above;
                break;
            }
            way.push(number);
            next = prompts.segment(number).0;
        }
        for number in way.drain(..).rev() {
            found = if found == NONE && !common[number] { number as u32 } else { found };
            known[number] = Some(found);
        }
    }
    known.into_iter().map(|found| found.unwrap_or(NONE)).collect()
}

/// Numbers the families; turns each request's first segment that is not common into the number of its family.
fn number(
    log: &[FamilyMember],
    prompts: &PromptTree,
    union: &mut Union,
    requests: &mut [(u32, u32)],
) -> Vec<FamilyFacts> {
    let mut numbers = vec![NONE; log.len()];
    let mut families: Vec<(FamilyFacts, EventTime, Option<u64>)> = Vec::new();
    for (at, member) in log.iter().enumerate() {
        let root = union.root(at as u32) as usize;
        if numbers[root] == NONE {
            numbers[root] = families.len() as u32;
            let key = hash(&[2, member.time.0 as u64, at as u64]);
            families.push((FamilyFacts { key, requests: 0 }, member.time, None));
        }
        let own = std::mem::replace(&mut requests[at].0, numbers[root]);
        let (family, first, page) = &mut families[numbers[root] as usize];
        family.requests += 1;
        if own != NONE && *first == member.time {
            let own = whole_id(prompts.first_id(own as usize), member.scope);
            *page = Some(page.map_or(own, |page| page.min(own)));
        }
    }
    let keyed = |(family, _, page): (FamilyFacts, EventTime, Option<u64>)| FamilyFacts {
        key: page.map_or(family.key, |page| hash(&[1, page])),
        ..family
    };
    families.into_iter().map(keyed).collect()
}

/// An id that tells scopes apart.
fn whole_id(id: u64, scope: Scope) -> u64 {
    if scope == Scope::GLOBAL { id } else { hash(&[id, scope.value()]) }
}

/// Sets of requests.
struct Union(Vec<u32>);

impl Union {
    fn new(requests: usize) -> Self {
        Self((0..requests as u32).collect())
    }

    fn root(&mut self, mut at: u32) -> u32 {
        while self.0[at as usize] != at {
            self.0[at as usize] = self.0[self.0[at as usize] as usize];
            at = self.0[at as usize];
        }
        at
    }

    /// The first request of a set stands for it.
    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}
