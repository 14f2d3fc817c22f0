//! The full chunks of a prompt: what stores keep in place of an engine's pages.

use crate::request::event::RequestEvent;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use xxhash_rust::xxh3::xxh3_64;

/// Groups pages of a log into chunks; its memory is reused from request to request.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    page_size: PageSize,
    /// Pages a chunk.
    pub(super) pages: u32,
    /// The latest request's chunks, by id.
    pub(super) ids: Vec<u64>,
    /// The pages of one chunk, as they are hashed.
    hashed: Vec<u8>,
}

heap_bytes!(Chunks { ids, hashed; page_size, pages });

impl Chunks {
    /// Chunks of so many pages, at least one.
    pub(super) fn new(page_size: PageSize, pages: u32) -> Self {
        Self { page_size, pages, ids: Vec::new(), hashed: Vec::new() }
    }

    /// Groups the full pages of the prompt into full chunks, the first one keyed by its scope.
    pub(super) fn take(&mut self, event: &RequestEvent<'_>) {
        let ids = event.page_ids;
        let page = u64::from(self.page_size.get());
        let full = event.input_tokens.map_or(u64::MAX, |tokens| tokens / page).min(ids.len() as u64);
        let (pages, size) = (ids.first(full as usize), self.pages as usize);
        self.ids.clear();
        if size == 1 {
            self.ids.extend(pages.iter());
        } else {
            let starts = (0..pages.len() / size).map(|chunk| chunk * size);
            let id = |start| {
                self.hashed.clear();
                self.hashed.extend_from_slice(pages.from(start).first(size).as_packed());
                xxh3_64(&self.hashed)
            };
            self.ids.extend(starts.map(id));
        }
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
    }
}
