//! A log as it would be were a place mended: what differs comes at the prompt's end, a list in one order.

use super::places::PartingPlace;
use crate::replay::RequestLog;
use std::collections::HashMap;
use std::sync::Arc;

/// A change of one prompt.
#[derive(Debug, Clone)]
pub struct Edit {
    start: usize,
    end: usize,
    /// What comes in its place; where that is nothing, the ids move to the end.
    order: Option<Arc<[u64]>>,
}

/// What mends places, by request: of a list, the order is that of the first request that had it.
pub fn edits<'p>(
    log: &RequestLog,
    places: impl Iterator<Item = &'p PartingPlace>,
) -> HashMap<usize, Vec<Edit>> {
    let mut all = HashMap::<usize, Vec<Edit>>::new();
    let mut ids = Vec::new();
    for place in places {
        log.prompts().read(log.requests()[place.reference].path, &mut ids);
        let order: Option<Arc<[u64]>> = place.is_order.then(|| ids[place.start..place.end].into());
        for (request, end) in &place.members {
            let edit = Edit { start: place.start, end: *end, order: order.clone() };
            all.entry(*request).or_default().push(edit);
        }
    }
    // From the last place to the first, so that no edit moves another one's place.
    all.values_mut().for_each(|edits| edits.sort_by_key(|edit| std::cmp::Reverse(edit.start)));
    all
}

/// Mends the prompt of a request, whose first `whole` ids are of whole pages.
pub fn apply(edits: &[Edit], whole: usize, ids: &mut Vec<u64>) {
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
