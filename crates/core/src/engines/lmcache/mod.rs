//! LMCache at one capacity, by its own rules (docs/engines.md, section 2): in the engine's process, and as a process of its own that
//! several engines share.
//!
//! Both keep chunks of tokens, 256 by default, in one order, of prompts only: LMCache does not store what was
//! generated unless it is told to. Neither is shown to lose no hits with more capacity, so a cache answers for one.

mod flight;
mod held;
mod in_process;
mod multi_process;
mod saved;

pub use in_process::{LmcacheCache, LmcacheRules};
pub use multi_process::{LmcacheMpCache, LmcacheMpRules};
pub use saved::SavedLmcache;

use crate::units::PageSize;

/// The log's pages cannot be grouped into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a chunk of {chunk_tokens} tokens is not made of whole pages of {page_size} tokens, so what it holds cannot be \
     told: give a multiple of the page as the chunk, or a log with smaller pages"
)]
pub struct ChunkMismatch {
    /// Tokens per chunk.
    pub chunk_tokens: u32,
    /// Tokens per page of the log.
    pub page_size: PageSize,
}

/// Pages a chunk.
///
/// # Errors
/// [`ChunkMismatch`] where it is no whole number of them.
fn pages_a_chunk(chunk_tokens: u32, page_size: PageSize) -> Result<u32, ChunkMismatch> {
    let page = page_size.get();
    match chunk_tokens >= page && chunk_tokens.is_multiple_of(page) {
        true => Ok(chunk_tokens / page),
        false => Err(ChunkMismatch { chunk_tokens, page_size }),
    }
}
