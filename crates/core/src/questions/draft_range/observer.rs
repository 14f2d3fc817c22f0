//! The other model of SGLang with a draft head, alongside its own.

use super::tally::{DraftRangeShare, DraftRangeTally};
use super::{DraftRangeEstimate, DraftRangePoint};
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::engines::rules::EngineRules;
use crate::questions::question::{
    Accepted, ProvisionedCache, Question, QuestionFigures, QuestionNeeds, QuestionPool,
};
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use crate::units::{PageCount, PageSize};

/// Follows a pool of SGLang's with a draft head.
#[derive(Debug)]
pub struct DraftRangeObserver {
    /// Trees of plain pages: at the capacities that can be known, and last without limit.
    bank: CacheBank,
    /// Those capacities, in followed pages, and the tracked bound.
    capacities: Vec<u64>,
    /// The cache without its head.
    plain: CacheConfig,
    page_size: PageSize,
    /// Room for the pages behind a prompt.
    behind: Vec<u64>,
}

heap_bytes!(DraftRangeObserver { bank, capacities, behind; plain, page_size });

impl DraftRangeObserver {
    fn at(pool: QuestionPool<'_>) -> Option<Self> {
        let QuestionPool { cache: ProvisionedCache { cache, .. }, capacities, page_size, .. } = pool;
        let rules = EngineRules { draft_tokens: 0, ..cache.rules.clone() };
        let plain = CacheConfig { rules, ..cache.clone() };
        let capacities: Vec<u64> = capacities.iter().copied().chain([cache.max_tracked_pages.0]).collect();
        let bank = CacheBank::new(&capacities, page_size, &plain).ok()?;
        Some(Self { bank, capacities, plain, page_size, behind: Vec::new() })
    }

    /// Whether the token behind a page that may be found is not known.
    fn is_open(&self, event: &RequestEvent<'_>) -> bool {
        let page = u64::from(self.page_size.get());
        let tokens = event.input_tokens.unwrap_or_else(|| event.prompt_pages().saturating_mul(page));
        event.tokens_behind.is_empty() && page > 1 && tokens > page
    }
}

impl Question for DraftRangeObserver {
    type Setting = bool;
    type Kept = CacheBank;
    type Tally = DraftRangeTally;
    type Answer = Option<DraftRangeEstimate>;

    const NEEDS: QuestionNeeds = QuestionNeeds::nothing("draft_range");

    fn new(is_enabled: &bool, pool: QuestionPool<'_>) -> Option<Self> {
        is_enabled.then(|| Self::at(pool)).flatten()
    }

    fn shape(&self) -> usize {
        self.capacities.len() - 1
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut DraftRangeShare) {
        let (event, found) = (request.event, request.outcome.reusable_prefix());
        let is_open = self.is_open(event);
        if event.tokens_behind.is_empty() {
            let Self { bank, plain, page_size, behind, .. } = self;
            bank.request(&a_token_shorter(event, *page_size, behind), found, plain, *page_size);
        }
        let (unlimited, hits) = match self.bank.last_hits().split_last().filter(|_| is_open) {
            Some((unlimited, hits)) => (*unlimited, hits),
            None => (request.own.last_ceiling().unwrap_or(found), request.own.last_hits()),
        };
        *room =
            DraftRangeShare { open: u64::from(is_open), without_head: found, unlimited, hits: hits.to_vec() };
    }

    fn kept(&self) -> &CacheBank {
        &self.bank
    }

    fn resumed(self, mut bank: CacheBank, _: QuestionPool<'_>, _: &Engine) -> Option<Self> {
        let is_sound = bank.resume(&self.capacities, self.page_size, &self.plain);
        is_sound.then_some(Self { bank, ..self })
    }

    fn answer(&self, tally: &DraftRangeTally, figures: &QuestionFigures<'_>) -> Option<DraftRangeEstimate> {
        let cache = figures.config.cache;
        let whole = |pages| cache.sample_rate.whole_of(pages);
        let at_most = |pages: u64| {
            let place = self.capacities.binary_search(&cache.followed_pages(PageCount(pages))).ok()?;
            Some(DraftRangePoint { pages, page_hits: whole(*tally.hits.get(place)?) })
        };
        (tally.open > 0).then(|| DraftRangeEstimate {
            requests: tally.open,
            page_hits: whole(tally.unlimited),
            page_hits_without_head: whole(tally.without_head),
            capacities: figures.capacities.iter().filter_map(|point| at_most(point.pages)).collect(),
        })
    }
}

/// The request without the last token of its prompt; a page that it fills is then one of its output. Where the prompt's
/// tokens are not counted, more may follow its last page.
fn a_token_shorter<'a>(
    event: &RequestEvent<'a>,
    page_size: PageSize,
    behind: &'a mut Vec<u64>,
) -> RequestEvent<'a> {
    let Some(tokens) = event.input_tokens else { return *event };
    let page = u64::from(page_size.get());
    let shorter = tokens.saturating_sub(1);
    // A prompt's pages are counted in 32 bits.
    let page_ids = event.page_ids.first((shorter / page) as usize);
    behind.clear();
    if tokens > 0 && tokens.is_multiple_of(page) {
        behind.extend(event.page_ids.len().checked_sub(1).and_then(|last| event.page_ids.get(last)));
    }
    behind.extend(event.output_page_ids.iter());
    let output_page_ids = PageIds::from_slice(behind);
    RequestEvent { input_tokens: Some(shorter), page_ids, output_page_ids, ..*event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_a_prompt_fills_is_found_with_the_token_behind_it() {
        let page_size = PageSize::new(16).expect("not zero");
        let shorter = |ids: &[u64], tokens, answer: &[u64]| {
            let event = RequestEvent {
                page_ids: PageIds::from_slice(ids),
                input_tokens: tokens,
                output_page_ids: PageIds::from_slice(answer),
                ..RequestEvent::default()
            };
            let mut behind = Vec::new();
            let event = a_token_shorter(&event, page_size, &mut behind);
            let list = |ids: PageIds<'_>| ids.iter().collect::<Vec<_>>();
            (list(event.page_ids), event.input_tokens, list(event.output_page_ids))
        };
        assert_eq!(shorter(&[1, 2], Some(32), &[3]), (vec![1], Some(31), vec![2, 3]));
        assert_eq!(shorter(&[1, 2], Some(33), &[3]), (vec![1, 2], Some(32), vec![3]));
        assert_eq!(shorter(&[1, 2, 9], Some(40), &[]), (vec![1, 2], Some(39), vec![]), "9 is not full");
        assert_eq!(shorter(&[1, 2], None, &[3]), (vec![1, 2], None, vec![3]));
        assert_eq!(shorter(&[], Some(0), &[]), (vec![], Some(0), vec![]));
    }
}
