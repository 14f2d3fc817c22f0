//! Pages of a recorded request, at the size that is wanted.

use super::LogEntry;
use kvset_core::units::PageSize;
use kvset_core::units::hashing::{PageHasher, tokens_behind};
use kvset_core::units::pages::{PageIds, Scope};
use xxhash_rust::xxh3::xxh3_64;

/// Whether pages of `wanted` tokens can be made of those of `logged` tokens.
///
/// # Errors
/// They cannot.
pub fn check_page_size(logged: PageSize, wanted: PageSize) -> Result<(), String> {
    let (logged, wanted) = (logged.get(), wanted.get());
    if wanted.is_multiple_of(logged) {
        return Ok(());
    }
    Err(format!(
        "the log has ids of pages of {logged} tokens: what lies within one is not known, so only multiples of that can be \
         replayed, not {wanted}"
    ))
}

/// Makes pages.
pub(super) struct Pager {
    /// Of tokens.
    hasher: Option<PageHasher>,
    page_size: Option<PageSize>,
    tokens: Vec<u32>,
    answer: Vec<u32>,
    ids: Vec<u64>,
    outputs: Vec<u64>,
    /// Whether the tokens behind pages are told, and these.
    keeps_behind: bool,
    behind: Vec<u64>,
}

/// The pages of a request.
pub(super) struct Pages<'a> {
    pub page_size: Option<PageSize>,
    pub ids: &'a [u64],
    pub outputs: &'a [u64],
    /// The token behind each of these; empty where the log has no tokens, or nobody looks at them.
    pub tokens_behind: &'a [u64],
    pub ids_chained: bool,
}

impl Pager {
    /// A pager for pages of `page_size`; for those of the log where that is none. `keeps_behind` if somebody looks at
    /// the tokens behind them.
    pub fn new(page_size: Option<PageSize>, keeps_behind: bool) -> Self {
        Self {
            hasher: page_size.map(PageHasher::new),
            page_size,
            tokens: Vec::new(),
            answer: Vec::new(),
            ids: Vec::new(),
            outputs: Vec::new(),
            keeps_behind,
            behind: Vec::new(),
        }
    }

    /// The pages of a request with these ids and outputs.
    pub fn page<'a>(&'a mut self, request: &LogEntry, ids: &'a [u64], outputs: &'a [u64]) -> Pages<'a> {
        let Self { hasher, page_size, .. } = self;
        match (hasher, *page_size, request.page_size) {
            (Some(_), Some(wanted), _) if request.are_tokens => self.hash(wanted, request, ids, outputs),
            (_, Some(wanted), Some(logged))
                if wanted > logged && wanted.get().is_multiple_of(logged.get()) =>
            {
                self.merge((wanted, logged), request, ids, outputs)
            }
            _ => {
                let ids_chained = request.ids_chained;
                Pages { page_size: request.page_size, ids, outputs, tokens_behind: &[], ids_chained }
            }
        }
    }

    fn hash(&mut self, wanted: PageSize, request: &LogEntry, ids: &[u64], outputs: &[u64]) -> Pages<'_> {
        self.ids.clear();
        self.outputs.clear();
        self.behind.clear();
        let token = |id: &u64| *id as u32;
        self.tokens.clear();
        self.tokens.extend(ids.iter().map(token));
        // The last token of an answer is never stored: it is left out of the log's, and of the pages.
        self.answer.clear();
        self.answer.extend(outputs.iter().map(token).chain([0]));
        if self.keeps_behind {
            tokens_behind(wanted, &self.tokens, &self.answer, &mut self.behind);
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.hash(Scope::GLOBAL, &self.tokens, true, &mut self.ids);
            if !outputs.is_empty() {
                let prompt = (self.tokens.as_slice(), self.ids.as_slice());
                hasher.hash_answer(Scope::GLOBAL, prompt, &self.answer, &mut self.outputs);
            }
        }
        Pages {
            page_size: Some(wanted),
            ids: &self.ids,
            outputs: &self.outputs,
            tokens_behind: &self.behind,
            ids_chained: request.ids_chained,
        }
    }

    /// One page of several: known where all of them are.
    fn merge(
        &mut self,
        (wanted, logged): (PageSize, PageSize),
        request: &LogEntry,
        ids: &[u64],
        outputs: &[u64],
    ) -> Pages<'_> {
        let each = (wanted.get() / logged.get()) as usize;
        self.ids.clear();
        self.outputs.clear();
        let one = |ids: &[u64]| xxh3_64(PageIds::from_slice(ids).as_packed());
        self.ids.extend(ids.chunks(each).map(one));
        if request.input_tokens.is_none() && !ids.len().is_multiple_of(each) {
            // Nothing says that the last page is a partial one.
            self.ids.pop();
        }
        if !outputs.is_empty() {
            // An answer goes on in the page that the prompt began.
            let full =
                request.input_tokens.map_or(usize::MAX, |tokens| (tokens / u64::from(logged.get())) as usize);
            let full = full.min(ids.len());
            let behind: Vec<u64> = ids[full - full % each..full].iter().chain(outputs).copied().collect();
            self.outputs.extend(behind.chunks_exact(each).map(one));
        }
        Pages {
            page_size: Some(wanted),
            ids: &self.ids,
            outputs: &self.outputs,
            tokens_behind: &[],
            ids_chained: request.ids_chained,
        }
    }
}
