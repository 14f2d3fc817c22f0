//! What a tier below the pool sees of a request, and what the pool is given by it.

use crate::request::event::RequestEvent;

/// A prompt as the pool has looked it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::engines) struct LookedUpPrompt {
    /// Its tokens.
    pub prompt: u64,
    /// Those of them that may be found: the last one is always computed, where it is known to be the last.
    pub findable: u64,
    /// Leading pages that every group of the pool has.
    pub hits: u64,
    /// Leading pages that the full groups have, where those are more; else 0.
    pub junction: u64,
}

/// What a step of the scheduler has computed of a prompt.
pub(in crate::engines) struct PromptStep<'a> {
    /// Tokens of the prompt that are there after it.
    pub tokens: u64,
    /// Pages whose states got names in it.
    pub states: &'a [u64],
    /// The first page that windows held as the request began.
    pub first: u64,
    /// The first page that they hold now.
    pub low: u64,
    /// Whether a group still has a page between those, given back and not taken by anybody.
    pub is_there: &'a dyn Fn(u32, u64) -> bool,
}

/// A tier that a pool of blocks stores prompts in. Calls come request by request: [`LowerTier::look_up`],
/// [`LowerTier::load`] where the request finds room, [`LowerTier::store`] each step, [`LowerTier::leave`].
pub(in crate::engines) trait LowerTier {
    /// Looks up what follows the pool's pages: the tokens that are there with both.
    fn look_up(&mut self, event: &RequestEvent<'_>, prompt: LookedUpPrompt) -> u64;
    /// Loads what was found.
    fn load(&mut self);
    /// Stores what a step has computed; whether nothing is left to store.
    fn store(&mut self, step: &PromptStep<'_>) -> bool;
    /// Ends the request.
    fn leave(&mut self);
}
