//! Partings at one place of one earlier request, and all requests that pass through it.

use super::partings::{Grain, Parting};
use crate::replay::RequestLog;
use std::collections::HashMap;

/// A place at which requests differ, and behind which they are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartingPlace {
    /// The request that has been there first.
    pub reference: usize,
    /// Ids before it, the same in all.
    pub start: usize,
    /// Its end in the reference.
    pub end: usize,
    /// What differs is the same in another order.
    pub is_order: bool,
    /// Most ids that are the same behind it.
    pub behind: usize,
    /// The partings that show it.
    pub partings: Vec<Parting>,
    /// Requests that pass through it, ascending, each with the end of the place in it.
    pub members: Vec<(usize, usize)>,
    /// What stands there, the reference's among it: as many as there are different ones.
    pub variants: usize,
    /// Requests that begin anew behind the place, or part there.
    pub openers: usize,
}

impl PartingPlace {
    /// Whether what stands there seems to be made for each request, session or user, and not one of a few that many
    /// share: then one in five that begin anew brings another one.
    pub fn is_variable(&self) -> bool {
        self.variants * 5 >= self.openers
    }
}

/// The places that partings show, in the order of their references.
pub fn places(log: &RequestLog, partings: &[Parting], grain: Grain) -> Vec<PartingPlace> {
    let mut sorted = partings.to_vec();
    sorted.sort_by_key(|parting| (parting.reference, parting.is_order, parting.start, parting.request));
    let mut places: Vec<PartingPlace> = Vec::new();
    for parting in sorted {
        let Parting { reference, start, other_end: end, is_order, behind, .. } = parting;
        let known = places
            .last_mut()
            .filter(|place| (place.reference, place.is_order) == (reference, is_order) && start <= place.end);
        match known {
            Some(place) => {
                (place.end, place.behind) = (place.end.max(end), place.behind.max(behind));
                place.partings.push(parting);
            }
            None => places.push(PartingPlace {
                reference,
                start,
                end,
                is_order,
                behind,
                partings: vec![parting],
                members: Vec::new(),
                variants: 0,
                openers: 0,
            }),
        }
    }
    gather(log, &mut places, grain);
    places
}

/// Finds the requests that pass through each place.
fn gather(log: &RequestLog, places: &mut [PartingPlace], grain: Grain) {
    let (prompts, requests) = (log.prompts(), log.requests());
    // By the segment behind a place: the place, and the end of it there.
    let mut behind: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (number, place) in places.iter_mut().enumerate() {
        let own = (place.reference, place.end);
        let others = place.partings.iter().map(|parting| {
            // Where what the reference has at its end is the same here, the place ends there, too.
            let further = (place.end - parting.other_end).min(parting.behind.saturating_sub(1));
            (parting.request, parting.end + further)
        });
        for (request, end) in std::iter::once(own).chain(others) {
            let Some(segment) = prompts.segment_at(requests[request].path, end + 1) else { continue };
            let known = behind.entry(segment).or_default();
            if !known.contains(&(number, end)) {
                known.push((number, end));
                place.variants += 1;
            }
        }
    }
    for (at, request) in requests.iter().enumerate() {
        let passed: Vec<_> = prompts.passed(request.path).collect();
        for (segment, ..) in passed {
            for (number, end) in behind.get(&segment).into_iter().flatten() {
                let place = &mut places[*number];
                if request.path.ids() <= *end || place.members.last().is_some_and(|(last, _)| *last == at) {
                    continue;
                }
                place.members.push((at, *end));
                let shared = end + place.behind + grain.least;
                place.openers += usize::from(request.known <= shared);
            }
        }
    }
}
