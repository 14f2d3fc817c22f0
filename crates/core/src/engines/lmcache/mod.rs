//! LMCache at one capacity, by its own rules (docs/engines/lmcache.md): in the engine's process, and as a process of
//! its own that several engines share.
//!
//! Both keep chunks of tokens, 256 by default, in one order, of prompts only: LMCache does not store what was
//! generated unless it is told to. Neither is shown to lose no hits with more capacity, so a cache answers for one.

mod cache;
mod flight;
mod held;
mod in_process;
mod multi_process;
mod saved;

pub use cache::{ChunkRules, LmcacheCache};
pub use in_process::LmcacheRules;
pub use multi_process::LmcacheMpRules;
pub use saved::SavedLmcache;
