//! Pages that requests generated, and the prompts that bring them back.
//!
//! Engines keep what they generate, and the next prompt of a conversation contains it. A log that has an answer's
//! length but not its ids does not show which pages of later prompts these are. It bounds them: a prompt that goes on
//! behind the whole of an earlier one may do so with that one's answer, as far as the answer reaches.
//! [`GeneratedPages`] keeps where prompts end and how far their answers reach, and says of a request which of its
//! pages may be an earlier answer's.
//!
//! Where a cache keeps generated pages, they get names: an answer's pages enter the cache under ids made here, and a
//! prompt that brings them back has its own ids of these pages replaced by their names. The cache then treats them as
//! it treats output pages with ids ([`RequestEvent::output_page_ids`]), whatever engine it models. Which pages come
//! back:
//!
//! - Where the log says how much of the prompt was found, the pages found behind the earlier prompt. A request that
//!   found the whole of it and nothing behind does not bring the answer back: it was split into other tokens, or left
//!   out.
//! - Else as many pages as the answer has, or the prompt: what can be found at most.
//!
//! Answers are distinguished by whole pages, as caches do: a prompt that shares all full pages of an earlier one goes
//! on behind it. Of several prompts that end at one page the latest answer that is long enough comes back first, each
//! once. Prompts without a full page all end at the same place, so there only what the log says was found tells.

mod kept;
#[cfg(test)]
mod tests;

use crate::engines::config::CacheConfig;
use crate::request::event::{RequestEvent, full_pages};
use crate::request::sample::Sample;
use crate::units::PageSize;
use crate::units::heap::{flat, heap_bytes};
use crate::units::pages::{PageIds, Scope, mix};
use crate::units::ratio::Ratio;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use kept::SavedGenerated;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Follows the requests of a pool.
#[derive(Debug, Deserialize)]
#[serde(from = "SavedGenerated")]
pub struct GeneratedPages {
    /// Whether pages get names; else only how far answers reach is kept.
    naming: bool,
    /// How much is kept at most ([`Self::weight`]).
    limit: u64,
    /// Requests followed so far; also the number the next one gets.
    requests: u64,
    /// Where prompts ended, by the digest of their full pages.
    ends: HashMap<u64, PromptEnd, FixedState>,
    /// Pages that prompts brought back, by the digest of the prompt up to the first of them.
    returns: HashMap<u64, Return, FixedState>,
    /// The ids that prompts have for these pages, and some that nobody asks for any more.
    returned_ids: Vec<u64>,
    /// Answers in `ends`, and pages in `returns`.
    answers: u64,
    returned: u64,
    request: Request,
}

heap_bytes!(GeneratedPages {
    ends, returns, returned_ids, request;
    naming, limit, requests, answers, returned
});

/// Where the full pages of some prompts end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PromptEnd {
    /// Pages from the root on that the longest of their answers reaches.
    reach: u32,
    /// The last request that ended here, or whose answer was brought back from here.
    used: u64,
    /// Answers that nobody has brought back, from the oldest on.
    answers: Vec<AnswerPages>,
}

heap_bytes!(PromptEnd { answers; reach, used });

/// The pages of an answer that no prompt has brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct AnswerPages {
    /// Number of the request that generated it.
    request: u64,
    /// The first of the pages, counted from the answer's own first one.
    from: u32,
    pages: u32,
}

flat!(AnswerPages);

/// Pages of an answer under the ids of a prompt.
#[derive(Debug, Clone, Copy)]
struct Return {
    answer: AnswerPages,
    /// Where in [`GeneratedPages::returned_ids`] the prompt's ids begin.
    at: usize,
    /// The last request that had them.
    used: u64,
}

flat!(Return);

/// What is known of the request at hand.
#[derive(Debug, Clone, Default)]
struct Request {
    /// The prompt's listed pages by their names, where any has one.
    ids: Vec<u64>,
    is_renamed: bool,
    /// The digest of each number of its full pages, from none on, where pages get names and any could be met.
    prefixes: Vec<u64>,
    /// The answer's pages.
    outputs: Vec<u64>,
    /// Followed pages of the prompt that the pool had seen in prompts, those among them that it had before.
    known: Option<u64>,
}

heap_bytes!(Request { ids, prefixes, outputs; is_renamed, known });

impl GeneratedPages {
    /// Follows no request yet, of a pool that is configured like this.
    pub fn new(config: &CacheConfig) -> Self {
        Self {
            naming: config.caches_outputs(),
            limit: config.sample_rate.whole_of(config.max_tracked_pages.0),
            requests: 0,
            ends: HashMap::default(),
            returns: HashMap::default(),
            returned_ids: Vec::new(),
            answers: 0,
            returned: 0,
            request: Request::default(),
        }
    }

    /// The same, but that pages get no names.
    pub fn of_lengths(config: &CacheConfig) -> Self {
        Self { naming: false, ..Self::new(config) }
    }

    /// Whether generated pages get names.
    pub fn is_naming(&self) -> bool {
        self.naming
    }

    /// Follows a request that lists all its pages. `known` tells how many followed pages of a prompt the pool has seen;
    /// it is asked only where pages get names.
    pub fn follow(
        &mut self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        sample_rate: Ratio,
        known: impl FnOnce(&RequestEvent<'_>) -> u64,
    ) {
        // The request was accepted, so its ids fit its tokens.
        let full = full_pages(event, page_size, false).unwrap_or(event.page_ids).len();
        let answer = stored_pages(event, page_size, full);
        self.request.clear();
        if self.naming {
            // A log that tells of no answers costs no look at its pages.
            let meets_names = answer > 0 || !(self.ends.is_empty() && self.returns.is_empty());
            if meets_names {
                self.read(event, full);
            }
            let known = known(&RequestEvent { output_page_ids: PageIds::EMPTY, ..self.named(event) });
            self.request.known = Some(known);
            if meets_names {
                self.bring_back(event, page_size, self.depths(event, full, known, sample_rate));
            }
        }
        if answer > 0 {
            self.keep_answer(event, full, answer);
        }
        self.requests += 1;
        if self.weight() > self.limit {
            self.forget();
        }
    }

    /// The request at hand, each generated page by its name. `event` is the one that was followed last.
    pub fn named<'a>(&'a self, event: &RequestEvent<'a>) -> RequestEvent<'a> {
        let Request { ids, is_renamed, outputs, .. } = &self.request;
        RequestEvent {
            page_ids: if *is_renamed { PageIds::from_slice(ids) } else { event.page_ids },
            // A name tells nothing of what comes before it.
            ids_chained: event.ids_chained && !is_renamed,
            output_page_ids: if outputs.is_empty() {
                event.output_page_ids
            } else {
                PageIds::from_slice(outputs)
            },
            ..*event
        }
    }

    /// Leading followed pages of the request at hand that a cache may have found, of which `reusable` were touched in
    /// it before: these, and those after them that the answers to prompts among them explain.
    pub fn explained(
        &self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        reusable: u64,
        sample_rate: Ratio,
    ) -> u64 {
        if self.ends.is_empty() {
            return reusable;
        }
        let full = full_pages(event, page_size, false).unwrap_or(event.page_ids).len();
        let (_, deepest) = self.depths(event, full, reusable, sample_rate);
        let kept = &self.request.prefixes;
        let prefixes = match self.naming {
            true => Cow::Borrowed(&kept[..=deepest]),
            false => prefix_digests(event.scope, event.page_ids.first(deepest)).collect(),
        };
        let reach =
            prefixes.iter().filter_map(|prefix| self.ends.get(prefix)).map(|end| end.reach as usize).max();
        let Some(reach) = reach.filter(|reach| *reach > deepest) else { return reusable };
        let pages = self.named(event).page_ids.first(reach.min(full));
        reusable.max(followed(event.scope, pages, sample_rate))
    }

    /// Followed pages of the prompt that the pool had seen before the request at hand, without those that came back
    /// with it; nothing where pages get no names.
    pub fn known(&self) -> Option<u64> {
        self.request.known
    }

    /// Takes in the prompt: digests its full pages, and names those that earlier prompts brought back.
    fn read(&mut self, event: &RequestEvent<'_>, full: usize) {
        let Self { returns, returned_ids, request, requests, .. } = self;
        let pages = event.page_ids.first(full);
        let (mut prefix, mut at) = (digest_of(event.scope), 0);
        request.prefixes.push(prefix);
        while let Some(id) = pages.get(at) {
            prefix = prefix.wrapping_add(part(at, id));
            request.prefixes.push(prefix);
            let Some(found) = returns.get_mut(&prefix) else {
                at += 1;
                continue;
            };
            found.used = *requests;
            let brought = &returned_ids[found.at..found.at + found.answer.pages as usize];
            let same = PageIds::from_slice(brought).common_prefix(pages.from(at)).max(1);
            request.rename(event);
            found.answer.write_names(&mut request.ids[at..at + same]);
            for place in at + 1..at + same {
                prefix = prefix.wrapping_add(part(place, brought[place - at]));
                request.prefixes.push(prefix);
            }
            at += same;
        }
    }

    /// Between which numbers of full pages, both among them, the first page lies that was not among so many leading
    /// followed pages.
    fn depths(
        &self,
        event: &RequestEvent<'_>,
        full: usize,
        leading: u64,
        sample_rate: Ratio,
    ) -> (usize, usize) {
        let leading = usize::try_from(leading).unwrap_or(usize::MAX);
        if sample_rate == Ratio::ONE {
            return (leading.min(full), leading.min(full));
        }
        let pages = self.named(event).page_ids.first(full);
        let sample = Sample::at(sample_rate);
        let is_followed = |(_, id): &(usize, u64)| sample.follows(event.scope, *id);
        let mut places = pages.iter().enumerate().filter(is_followed).map(|(place, _)| place);
        let last = leading.checked_sub(1).and_then(|before| places.nth(before));
        (last.map_or(0, |last| last + 1), places.next().unwrap_or(full))
    }

    /// Gives the pages that the request at hand brings back their names. Its pages are known up to one of these
    /// `depths`.
    fn bring_back(&mut self, event: &RequestEvent<'_>, page_size: PageSize, depths: (usize, usize)) {
        let size = u64::from(page_size.get());
        let found =
            event.cached_tokens.count().map(|tokens| usize::try_from(tokens / size).unwrap_or(usize::MAX));
        let full = self.request.prefixes.len() - 1;
        let prefixes = &self.request.prefixes;
        let has_answer =
            |depth: &usize| self.ends.get(&prefixes[*depth]).is_some_and(|end| !end.answers.is_empty());
        let Some(depth) = (depths.0..=depths.1).rev().find(has_answer) else { return };
        let upto = match found {
            Some(found) if found > depth => found.min(full),
            Some(found) if found == depth => return,
            // Prompts without a full page would all go on behind one another.
            _ if depth == 0 => return,
            _ => full,
        };
        let room = (upto - depth) as u32;
        let wanted = found.filter(|found| *found > depth).map(|_| room);
        let Some(end) = self.ends.get_mut(&prefixes[depth]).filter(|_| room > 0) else { return };
        let Some(answer) = end.take(wanted) else { return };
        (end.used, self.answers) = (self.requests, self.answers - 1);
        let (reach, pages) = (end.reach, answer.pages.min(room));
        let behind = depth + pages as usize;
        if pages < answer.pages {
            let left = AnswerPages { from: answer.from + pages, pages: answer.pages - pages, ..answer };
            self.end_at(self.request.prefixes[behind], reach).answers.push(left);
            self.answers += 1;
        }
        self.name_pages(event, (depth, behind), AnswerPages { pages, ..answer });
    }

    /// Gives the pages between these depths, which are of an answer, their names, here and in later prompts.
    fn name_pages(&mut self, event: &RequestEvent<'_>, (from, to): (usize, usize), answer: AnswerPages) {
        let found = Return { answer, at: self.returned_ids.len(), used: self.requests };
        self.returned_ids.extend(event.page_ids.first(to).from(from).iter());
        self.returned += (to - from) as u64;
        if let Some(former) = self.returns.insert(self.request.prefixes[from + 1], found) {
            self.returned -= u64::from(former.answer.pages);
        }
        if self.returned_ids.len() as u64 > 2 * self.returned + SLACK {
            self.compact();
        }
        self.request.rename(event);
        answer.write_names(&mut self.request.ids[from..to]);
    }

    /// Notes where the prompt at hand, of `full` pages, ends and how far its answer of so many `pages` reaches, and
    /// names those of the answer's pages that have no ids.
    fn keep_answer(&mut self, event: &RequestEvent<'_>, full: usize, pages: u32) {
        // Without names it is a matter of reach alone, from where the prompt ends: the cache may keep no output pages.
        let ids = if self.naming { event.output_page_ids.first(pages as usize) } else { PageIds::EMPTY };
        let places = (full..).zip(ids.iter());
        let behind = places.map(|(place, id)| part(place, id)).fold(0, u64::wrapping_add);
        let prompt = match self.naming {
            true => self.request.prefixes[full],
            false => prefix_digests(event.scope, event.page_ids.first(full)).last().unwrap_or_default(),
        };
        let prefix = prompt.wrapping_add(behind);
        let (request, naming) = (self.requests, self.naming);
        let end = self.end_at(prefix, (full as u32).saturating_add(pages));
        if !naming {
            return;
        }
        let answer = AnswerPages { request, from: ids.len() as u32, pages: pages - ids.len() as u32 };
        if answer.pages > 0 {
            end.answers.push(answer);
            self.answers += 1;
            let outputs = &mut self.request.outputs;
            outputs.extend(ids.iter());
            outputs.resize(pages as usize, 0);
            answer.write_names(&mut outputs[ids.len()..]);
        }
    }

    /// The end at this place, from which an answer reaches so many pages.
    fn end_at(&mut self, prefix: u64, reach: u32) -> &mut PromptEnd {
        let end = self.ends.entry(prefix).or_default();
        (end.reach, end.used) = (end.reach.max(reach), self.requests);
        end
    }

    /// What is kept, in words of memory or a few.
    fn weight(&self) -> u64 {
        (self.ends.len() + self.returns.len()) as u64 + self.answers + self.returned
    }

    /// Lets half of what is kept go: what was used longest ago.
    fn forget(&mut self) {
        let ends = self.ends.values().map(|end| (end.used, 1 + end.answers.len() as u64));
        let returns = self.returns.values().map(|found| (found.used, 1 + u64::from(found.answer.pages)));
        let mut by_use: Vec<(u64, u64)> = ends.chain(returns).collect();
        by_use.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut left = self.limit / 2;
        let too_old = by_use.into_iter().find(|(_, weight)| match left.checked_sub(*weight) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        let Some((too_old, _)) = too_old else { return };
        self.ends.retain(|_, end| {
            end.answers.retain(|answer| answer.request > too_old);
            end.used > too_old
        });
        self.answers = self.ends.values().map(|end| end.answers.len() as u64).sum();
        self.returns.retain(|_, found| found.used > too_old);
        self.returned = self.returns.values().map(|found| u64::from(found.answer.pages)).sum();
        self.compact();
    }

    /// Drops the ids that nobody asks for any more.
    fn compact(&mut self) {
        let all = std::mem::take(&mut self.returned_ids);
        let mut kept: Vec<&mut Return> = self.returns.values_mut().collect();
        kept.sort_unstable_by_key(|found| found.at);
        for found in kept {
            let ids = &all[found.at..found.at + found.answer.pages as usize];
            found.at = self.returned_ids.len();
            self.returned_ids.extend_from_slice(ids);
        }
    }
}

impl Request {
    /// Forgets the one before, but for its room.
    fn clear(&mut self) {
        (self.is_renamed, self.known) = (false, None);
        [&mut self.ids, &mut self.prefixes, &mut self.outputs].into_iter().for_each(Vec::clear);
    }

    /// Has ids of its own to write names into.
    fn rename(&mut self, event: &RequestEvent<'_>) {
        if !self.is_renamed {
            self.ids.extend(event.page_ids.iter());
            self.is_renamed = true;
        }
    }
}

impl PromptEnd {
    /// Takes the latest answer of at least `wanted` pages, else the longest; the latest where no length is wanted.
    fn take(&mut self, wanted: Option<u32>) -> Option<AnswerPages> {
        let wanted = wanted.unwrap_or(0);
        let enough = self.answers.iter().rposition(|answer| answer.pages >= wanted);
        let longest = || (0..self.answers.len()).max_by_key(|at| self.answers[*at].pages);
        enough.or_else(longest).map(|at| self.answers.remove(at))
    }
}

impl AnswerPages {
    /// Writes the names of its pages. No two pages of a trillion requests have the same one, and an id that is a hash
    /// is one of them as seldom as it is another page's.
    fn write_names(&self, ids: &mut [u64]) {
        let first = (self.request << 24) + u64::from(self.from);
        ids.iter_mut().zip(first..).for_each(|(id, number)| *id = mix(number ^ NAMES));
    }
}

/// What tells numbers of generated pages from others before they are mixed.
const NAMES: u64 = 0x6765_6e65_7261_7465;

/// Ids that nobody asks for any more and that are kept all the same.
const SLACK: u64 = 4096;

/// The digest of no page in this scope.
fn digest_of(scope: Scope) -> u64 {
    mix(scope.value() ^ NAMES)
}

/// What a page at this place adds to the digest of those before it. The parts of a prompt are summed, so that a
/// processor need not wait for one to begin with the next. A digest has 64 bits, as a page id has, so two prompts
/// have one digest as seldom as they have one id.
#[inline]
fn part(place: usize, id: u64) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(id ^ NAMES) * u128::from((place as u64).wrapping_mul(SPREAD) | 1);
    (product as u64) ^ (product >> 64) as u64
}

/// The digests of the first none, one, ... of these pages, up to all of them.
fn prefix_digests(scope: Scope, pages: PageIds<'_>) -> impl Iterator<Item = u64> {
    let further = pages.iter().enumerate().scan(digest_of(scope), |sum, (place, id)| {
        *sum = sum.wrapping_add(part(place, id));
        Some(*sum)
    });
    std::iter::once(digest_of(scope)).chain(further)
}

/// Pages that the answer to a prompt of `full` pages fills.
fn stored_pages(event: &RequestEvent<'_>, page_size: PageSize, full: usize) -> u32 {
    let size = u64::from(page_size.get());
    let tokens = event.input_tokens.unwrap_or(full as u64 * size);
    // The last token generated is never stored.
    let stored = tokens.saturating_add(event.output_tokens.unwrap_or(0).saturating_sub(1));
    u32::try_from(stored / size - tokens / size).unwrap_or(u32::MAX)
}

/// How many of these pages are followed.
fn followed(scope: Scope, pages: PageIds<'_>, sample_rate: Ratio) -> u64 {
    match sample_rate {
        Ratio::ONE => pages.len() as u64,
        rate => Sample::at(rate).followed(scope, pages).count() as u64,
    }
}
