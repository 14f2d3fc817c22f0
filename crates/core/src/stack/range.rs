//! A range of a pool's requests, taken by an empty stack of its own while another stack takes the range before.
//!
//! Where a page was touched before within the range, its distance is final: all that was touched since is of the
//! range. Where it was not, the pool's own stack has to say ([`super::merge`]). Pages that a request touches first are
//! the tail of its path, since whoever touches a page touches its ancestors.

use super::ids::{Place, TOP};
use super::{Access, ChainCheck, ChainPolicy, Stack, StackConfig};
use crate::request::outcome::{Outcome, Run};
use crate::units::heap::{flat, heap_bytes};
use crate::units::pages::{PageIds, Scope};

/// Why requests have to be taken by their pool's stack itself, one after another: ranges of them could find something
/// else, or are not known to find the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InOrder {
    /// What a request is refused for, or trusted in, depends on all requests before it.
    #[error("the chain policy is not to report: each request depends on the violations before it")]
    Policy,
    /// Such ids are read in part only, so that what is found of false ones depends on all requests before.
    #[error("a request's ids are declared chained, so that its stack reads a part of them")]
    Declared,
    /// The stack might have to forget pages within the range.
    #[error("the range could take the stack beyond max_tracked_pages")]
    Bound,
    /// A sample of output pages, which have no ids, goes on where the request before left it.
    #[error("output pages are sampled, each request from where the one before left off")]
    SampledOutputs,
    /// A request is refused, or would be; its pool says why, and counts it.
    #[error("a request does not fit its pool")]
    Refused,
    /// Pages of a request in flight stay where they are, whatever others of its range touch.
    #[error("requests overlap, and that is modelled")]
    Overlap,
    /// There is one cache a capacity in place of a stack.
    #[error("the engine models each capacity on its own")]
    Pointwise,
    /// The stack and the range are kept by different rules, or the stack has to do more than count.
    #[error("the stack is not one that ranges of requests are merged into")]
    Unfit,
}

/// What a range of requests comes to, to be merged into the stack that took all before it.
#[derive(Debug)]
pub struct Range {
    pub(super) config: StackConfig,
    pub(super) steps: Vec<RangeStep>,
    /// What the requests found among the range's pages, in order; they are numbered from the range's first on.
    pub(super) runs: Vec<Run>,
    /// The pages touched first in the range, with ids, request after request.
    pub(super) ids: Vec<u64>,
    /// The requests that own pages in the end, by their number in the range, and how many.
    pub(super) owners: Vec<(u32, u32)>,
    /// Places in the table of the range's segments.
    pub(super) segments: usize,
    /// Distinct pages touched.
    pub(super) pages: u64,
}

heap_bytes!(Range { steps, runs, ids, owners; config, segments, pages });

/// One request of a range.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeStep {
    pub(super) scope: Scope,
    /// Distinct pages of the range that requests before this one touched, and those with it: with the copies they left.
    pub(super) above: u64,
    pub(super) upto: u64,
    /// What it found in the range: so many of [`Range::runs`], those that can be hits first.
    pub(super) runs: u32,
    pub(super) unlooked: u32,
    /// Pages of [`Range::ids`], which hang below `branch` in the range's tree; the path ends at `end`.
    pub(super) first_touches: u32,
    pub(super) branch: Place,
    pub(super) end: Place,
    /// How many of these can be hits.
    pub(super) lookup_limit: u32,
    pub(super) unshared_outputs: u32,
    pub(super) keeps_copies: bool,
}

flat!(RangeStep);

impl RangeStep {
    /// Copies that the request left among the range's pages.
    pub(super) fn own_copies(&self) -> u64 {
        self.upto - self.above - u64::from(self.first_touches) - u64::from(self.unshared_outputs)
    }
}

impl Range {
    /// Requests.
    pub fn requests(&self) -> usize {
        self.steps.len()
    }
}

/// Takes the requests of a range.
#[derive(Debug)]
pub struct RangeStack {
    stack: Stack,
    range: Range,
    outcome: Outcome,
}

impl RangeStack {
    /// A range without requests, of a pool whose stack has this configuration.
    ///
    /// # Errors
    /// [`InOrder`] where no range of such a pool can be merged.
    pub fn new(config: StackConfig) -> Result<Self, InOrder> {
        if config.chain_policy != ChainPolicy::Report {
            return Err(InOrder::Policy);
        }
        let stack = Stack::new(config);
        let range = Range {
            config: stack.config,
            steps: Vec::new(),
            runs: Vec::new(),
            ids: Vec::new(),
            owners: Vec::new(),
            segments: 0,
            pages: 0,
        };
        Ok(Self { stack, range, outcome: Outcome::default() })
    }

    /// Takes the next request. Needs in the range are those of the pool; its `extra_need` only has to be right where
    /// a request came before it in the range.
    ///
    /// # Errors
    /// [`InOrder`]: the range has not taken it, and can be dropped.
    pub fn access(&mut self, access: &Access<'_>) -> Result<(), InOrder> {
        let Self { stack, range, outcome } = self;
        if access.ids_chained && stack.config.chain_check == ChainCheck::Sampled {
            return Err(InOrder::Declared);
        }
        let (above, pages) = (stack.slots.total(), access.pages.len() as u64);
        if above + pages + u64::from(access.unshared_outputs) > stack.config.max_tracked_pages.0 {
            return Err(InOrder::Bound);
        }
        outcome.clear();
        let (known, branch, end) = stack.access_in_range(&Access { ids_chained: false, ..*access }, outcome);
        range.runs.extend(&outcome.runs);
        range.runs.extend(&outcome.unlooked);
        range.ids.extend(access.pages.from(known).iter());
        range.steps.push(RangeStep {
            scope: access.scope,
            above,
            upto: stack.slots.total(),
            runs: outcome.runs.len() as u32,
            unlooked: outcome.unlooked.len() as u32,
            first_touches: (access.pages.len() - known) as u32,
            branch,
            end,
            lookup_limit: access.lookup_limit.saturating_sub(known).min(access.pages.len()) as u32,
            unshared_outputs: access.unshared_outputs,
            keeps_copies: access.keeps_copies,
        });
        Ok(())
    }

    /// The range of the requests taken.
    pub fn finish(self) -> Range {
        let Self { stack, range, .. } = self;
        // A range has fewer requests than 32 bits count: each keeps a step in memory.
        let owner = |slot| (stack.slots.request_number(slot) as u32, stack.slots.weight(slot) as u32);
        let owners = stack.slots.owners().map(owner).collect();
        Range { owners, segments: stack.tree.table_len(), pages: stack.slots.total(), ..range }
    }
}

impl Stack {
    /// Takes a request of a range. Returns how many of its pages the range had, where the others hang, and where
    /// the last one is.
    fn access_in_range(&mut self, access: &Access<'_>, outcome: &mut Outcome) -> (usize, Place, Place) {
        if let Some(segment) = self.only_page(access) {
            self.touch_only_page(segment, access, outcome);
            let end = Place { segment, pages: 1 };
            return (1, end, end);
        }
        let (known, _) = self.walk(access);
        self.take_path(access, outcome);
        let branch = self.path.last().copied().unwrap_or(TOP);
        let tail = self.take_over(access, known);
        let is_longer = known < access.pages.len();
        let end = if is_longer { Place { segment: tail, pages: self.tree.len(tail) } } else { branch };
        (known, branch, end)
    }
}

impl RangeStep {
    /// Takes its pages off the range's ids.
    pub(super) fn first_touches<'a>(&self, ids: &'a [u64], taken: &mut usize) -> PageIds<'a> {
        let from = *taken;
        *taken += self.first_touches as usize;
        PageIds::from_slice(&ids[from..*taken])
    }
}
