//! A log as it would be were a place mended: what differs comes at the prompt's end, a list in one order.

use super::places::PartingPlace;
use crate::replay::RequestLog;
use std::collections::HashMap;
use std::sync::Arc;

/// What is changed in the prompts of a log.
#[derive(Debug, Default)]
pub struct Mending {
    edits: HashMap<usize, Vec<Edit>>,
}

/// A change of one prompt.
#[derive(Debug, Clone)]
struct Edit {
    start: usize,
    end: usize,
    /// What comes in its place; where that is nothing, the ids move to the end.
    order: Option<Arc<[u64]>>,
}

impl Mending {
    /// Mends places: of a list, the order is that of the first request that had it.
    pub fn of<'p>(log: &RequestLog, places: impl Iterator<Item = &'p PartingPlace>) -> Self {
        let mut mending = Self::default();
        let mut ids = Vec::new();
        for place in places {
            log.prompts().read(log.requests()[place.reference].path, &mut ids);
            let order: Option<Arc<[u64]>> = place.is_order.then(|| ids[place.start..place.end].into());
            for (request, end) in &place.members {
                let edit = Edit { start: place.start, end: *end, order: order.clone() };
                mending.edits.entry(*request).or_default().push(edit);
            }
        }
        // From the last place to the first, so that no edit moves another one's place.
        mending.edits.values_mut().for_each(|edits| edits.sort_by_key(|edit| std::cmp::Reverse(edit.start)));
        mending
    }

    /// Mends the prompt of a request, whose first `whole` ids are of whole pages.
    pub fn apply(&self, request: usize, whole: usize, ids: &mut Vec<u64>) {
        let Some(edits) = self.edits.get(&request) else { return };
        let (mut moved, mut least) = (Vec::new(), usize::MAX);
        for edit in edits {
            // Two places of which one lies in the other are mended as the first.
            if edit.end > least || edit.end > ids.len() || edit.start > edit.end {
                continue;
            }
            least = edit.start;
            match &edit.order {
                Some(order) => drop(ids.splice(edit.start..edit.end, order.iter().copied())),
                None => moved.push(ids.drain(edit.start..edit.end).collect::<Vec<u64>>()),
            }
        }
        let taken: usize = moved.iter().map(Vec::len).sum();
        let partial = ids.split_off((whole.saturating_sub(taken)).min(ids.len()));
        ids.extend(moved.into_iter().rev().flatten());
        ids.extend(partial);
    }
}
