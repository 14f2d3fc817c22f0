//! LMCache at one capacity, by its own rules (docs/engines/lmcache.md): in the engine's process, and as a process of
//! its own that several engines share.
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

use crate::engines::hybrid::RulesError;
use crate::units::PageSize;

/// Pages a chunk.
///
/// # Errors
/// [`RulesError::StoredChunk`] where it is no whole number of them.
fn pages_a_chunk(chunk_tokens: u32, page_size: PageSize) -> Result<u32, RulesError> {
    let page = page_size.get();
    match chunk_tokens >= page && chunk_tokens.is_multiple_of(page) {
        true => Ok(chunk_tokens / page),
        false => Err(RulesError::StoredChunk { chunk_tokens, page_size }),
    }
}
