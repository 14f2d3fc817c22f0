//! How many pages of which kind one request brings.

use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::PageSize;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A request in pages. A *slot* is a page of memory, whether its tokens fill it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engines) struct PagedRequest {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the prompt and of the stored outputs.
    pub stored: u64,
    /// Full pages of the prompt.
    pub prompt_pages: usize,
    /// Leading prompt pages that may be hits: the prompt's last token is always computed.
    pub hit_limit: usize,
    /// Slots the prompt takes.
    pub prompt_slots: u64,
    /// Slots the prompt and the stored outputs take.
    pub all_slots: u64,
    /// Whether the last token stored is not the first of its slot, so that a step of decoding follows the one that
    /// took the slot.
    pub decodes_on: bool,
    /// Full pages after the prompt's whose ids are known.
    pub known_outputs: usize,
    /// Full pages after those, shared with nobody.
    pub private_outputs: u64,
}

/// Pages that room is made for alongside those that a prompt takes: one, whether its last page has room or not; none
/// where pages are tokens, as they are by default (`alloc_for_extend`).
pub(in crate::engines) fn spare_pages(page_size: PageSize) -> u64 {
    u64::from(page_size.get() > 1)
}

impl PagedRequest {
    /// The shape of a request; with a draft head a page is keyed with the token behind it, so that the last token
    /// that is there belongs to no page.
    pub(in crate::engines) fn of(
        event: &RequestEvent<'_>,
        page_size: PageSize,
        outputs: Outputs,
        drafts: bool,
    ) -> Self {
        let behind = u64::from(drafts);
        let page = u64::from(page_size.get());
        let covered = (event.page_ids.len() as u64).saturating_mul(page);
        // A log may leave the partial last page out.
        let input = event.input_tokens.map_or(covered, |tokens| tokens.min(covered.saturating_add(page - 1)));
        let sampled = match outputs {
            Outputs::Cached => event.output_tokens.unwrap_or(0),
            Outputs::Ignored => 0,
        };
        let stored = input.saturating_add(sampled.saturating_sub(1));
        let keyed = |tokens: u64| tokens.saturating_sub(behind) / page;
        // A prompt that ends at a page's edge may lack the token behind its last page, which the output brings.
        let late = input / page - keyed(input);
        let output_pages = keyed(stored) - keyed(input);
        let known_outputs = (event.output_page_ids.len() as u64 + late).min(output_pages);
        // Where the tokens are unknown the last page may be followed by more, as in the stack profiles.
        let looked_up = if event.input_tokens.is_none() { input } else { input.saturating_sub(1) };
        Self {
            prompt: input,
            stored,
            // Both are at most the number of ids, so they fit.
            prompt_pages: keyed(input) as usize,
            hit_limit: keyed(looked_up) as usize,
            prompt_slots: input.div_ceil(page),
            all_slots: stored.div_ceil(page),
            decodes_on: stored > input && !(stored - 1).is_multiple_of(page),
            known_outputs: known_outputs as usize,
            private_outputs: output_pages - known_outputs,
        }
    }

    /// Copies the request's ids, prompt then known outputs, the first one keyed by its scope.
    pub(in crate::engines) fn take_ids(&self, event: &RequestEvent<'_>, ids: &mut Vec<u64>) {
        ids.clear();
        ids.extend(event.page_ids.first(self.prompt_pages).iter());
        ids.extend(event.output_page_ids.first(self.known_outputs).iter());
        if let Some(first) = ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
    }

    /// The same with a draft head, each page keyed with the token behind it; where the event has no tokens, with the
    /// page behind it in place of that. Where that is not known either, `unshared` stands for it, which no other
    /// request has.
    pub(in crate::engines) fn take_keyed_ids(
        &self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        unshared: u64,
        ids: &mut Vec<u64>,
    ) {
        let page = u64::from(page_size.get());
        let full =
            event.input_tokens.map_or(u64::MAX, |tokens| tokens / page).min(event.page_ids.len() as u64);
        ids.clear();
        ids.extend(event.page_ids.first(full as usize).iter());
        ids.extend(event.output_page_ids.iter());
        if let Some(first) = ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
        ids.truncate(self.prompt_pages + self.known_outputs + 1);
        ids.push(unshared);
        let tokens = event.tokens_behind;
        for at in 0..ids.len() - 1 {
            let page = if tokens.is_empty() { ids[at + 1] } else { unshared };
            ids[at] = xxh3_64_with_seed(&ids[at].to_le_bytes(), tokens.get(at).unwrap_or(page));
        }
        ids.truncate(self.prompt_pages + self.known_outputs);
    }

    /// The smallest cache the request can run in alone: the scheduler lets a prompt in that leaves a page
    /// free, and every slot is held at once in the end.
    pub(in crate::engines) fn least_capacity(&self) -> u64 {
        self.all_slots.max(self.prompt_slots.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::pages::PageIds;

    fn shape(ids: usize, input: Option<u64>, output: Option<u64>, outputs: Outputs) -> PagedRequest {
        let ids = vec![7; ids];
        let event = RequestEvent {
            page_ids: PageIds::from_slice(&ids),
            input_tokens: input,
            output_tokens: output,
            ..RequestEvent::default()
        };
        PagedRequest::of(&event, PageSize::new(16).expect("not zero"), outputs, false)
    }

    #[test]
    fn a_whole_number_of_pages_keeps_its_last_page_to_compute() {
        let whole = shape(2, Some(32), Some(1), Outputs::Cached);
        assert_eq!((whole.prompt_pages, whole.hit_limit, whole.prompt_slots), (2, 1, 2));
        assert_eq!(whole.all_slots, 2, "the only sampled token stores nothing");
        assert_eq!(whole.least_capacity(), 3);
    }

    #[test]
    fn outputs_fill_the_partial_page_first() {
        let grown = shape(3, Some(40), Some(26), Outputs::Cached);
        assert_eq!((grown.prompt_pages, grown.prompt_slots, grown.all_slots), (2, 3, 5));
        assert_eq!(grown.private_outputs, 2, "65 tokens are 4 full pages");
        let ignored = shape(3, Some(40), Some(26), Outputs::Ignored);
        assert_eq!((ignored.private_outputs, ignored.all_slots), (0, 3));
    }

    #[test]
    fn what_the_log_gets_wrong_or_leaves_out_is_bounded_by_its_ids() {
        let empty = shape(0, None, None, Outputs::Cached);
        assert_eq!((empty.prompt_slots, empty.hit_limit, empty.least_capacity()), (0, 0, 1));
        let overlong = shape(2, Some(u64::MAX), Some(0), Outputs::Cached);
        assert_eq!((overlong.prompt_pages, overlong.prompt_slots), (2, 3), "the third is partial");
        let unlogged = shape(2, Some(40), Some(0), Outputs::Cached);
        assert_eq!((unlogged.hit_limit, unlogged.prompt_slots), (2, 3), "its partial page has no id");
        assert_eq!(shape(2, None, None, Outputs::Cached).hit_limit, 2);
        assert_eq!(shape(2, None, Some(u64::MAX), Outputs::Cached).all_slots, u64::MAX.div_ceil(16));
    }
}
