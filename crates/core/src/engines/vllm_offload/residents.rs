//! The chunks that the tier holds, whatever its policy.

use crate::stack::runs::{RunIndex, RunTree};
use std::fmt;

/// Chunks of one request, counted from its first, up to the second one.
pub(super) type ChunkSpan = (u32, u32);

/// The chunks held, by one policy. Calls come request by request: [`Residents::enter`], at most one
/// [`Residents::load`], one [`Residents::offer`] a step, [`Residents::leave`].
pub(super) trait Residents: fmt::Debug {
    /// Begins a request with these chunks.
    fn enter(&mut self, ids: &[u64]);

    /// Up to which of its chunks, from the first one of the span on, all are there.
    fn found(&self, span: ChunkSpan) -> u32;

    /// Reads chunks that are there.
    fn load(&mut self, span: ChunkSpan);

    /// One step of the scheduler: chunks that are there are used, the others stored, as far as `admitted` (all of them
    /// where that is `None`), all of them or none. Whether there was room.
    fn offer(&mut self, span: ChunkSpan, admitted: Option<&[ChunkSpan]>) -> bool;

    /// Ends the request.
    fn leave(&mut self);

    /// Chunks stored since the start.
    fn stored(&self) -> u64;

    /// Chunks held.
    fn held(&self) -> u64;

    /// Bytes of memory held, nearly.
    fn memory_bytes(&self) -> usize;
}

/// A tree with the path of the request being served.
#[derive(Debug)]
pub(super) struct ResidentPath {
    pub tree: RunTree,
    pub nodes: Vec<RunIndex>,
}

impl ResidentPath {
    pub fn new(tree: RunTree) -> Self {
        Self { tree, nodes: Vec::new() }
    }

    pub fn enter(&mut self, ids: &[u64]) {
        self.tree.enter(ids, &mut self.nodes);
    }

    pub fn leave(&mut self) {
        self.tree.release(&self.nodes);
    }

    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.nodes.capacity() * size_of::<RunIndex>()
    }
}

/// What of runs in ascending order lies in one of these spans; all of it where there are none.
pub(super) fn clip(
    runs: Vec<(RunIndex, u32, u32)>,
    spans: Option<&[ChunkSpan]>,
) -> Vec<(RunIndex, u32, u32)> {
    let Some(spans) = spans else { return runs };
    let of_run = |(node, from, to): &(RunIndex, u32, u32)| {
        let (node, from, to) = (*node, *from, *to);
        let parts = spans.iter().map(move |(start, end)| (node, from.max(*start), to.min(*end)));
        parts.filter(|(_, from, to)| from < to)
    };
    runs.iter().flat_map(of_run).collect()
}

/// Chunks in all of these runs.
pub(super) fn total(runs: &[(RunIndex, u32, u32)]) -> u64 {
    runs.iter().map(|(_, from, to)| u64::from(to - from)).sum()
}
