//! The full chunks of a prompt: what stores keep in place of an engine's pages.

use crate::request::event::RequestEvent;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use crate::units::pages::{PageIds, Scope};
use xxhash_rust::xxh3::xxh3_64;

/// Groups pages of a log into chunks; its memory is reused from request to request.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    page_size: PageSize,
    /// Pages a chunk.
    pub(super) pages: u32,
    /// The latest request's chunks where they are not its pages as they lie.
    ids: Vec<[u8; 8]>,
}

heap_bytes!(Chunks { ids; page_size, pages });

impl Chunks {
    /// Chunks of so many pages, at least one.
    pub(super) fn new(page_size: PageSize, pages: u32) -> Self {
        Self { page_size, pages, ids: Vec::new() }
    }

    /// Groups the full pages of the prompt into full chunks, the first one keyed by its scope; their ids.
    pub(super) fn take<'a>(&'a mut self, event: &RequestEvent<'a>) -> PageIds<'a> {
        let ids = event.page_ids;
        let page = u64::from(self.page_size.get());
        let full = event.input_tokens.map_or(u64::MAX, |tokens| tokens / page).min(ids.len() as u64);
        let (pages, size) = (ids.first(full as usize), self.pages as usize);
        if size == 1 && event.scope == Scope::GLOBAL {
            return pages;
        }
        self.ids.clear();
        if size == 1 {
            self.ids.extend_from_slice(pages.as_le_bytes());
        } else {
            let chunks = pages.as_packed().chunks_exact(size * size_of::<u64>());
            self.ids.extend(chunks.map(|chunk| xxh3_64(chunk).to_le_bytes()));
        }
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(u64::from_le_bytes(*first)).to_le_bytes();
        }
        PageIds::from_le_bytes(&self.ids)
    }
}
