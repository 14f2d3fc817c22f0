//! The capacity that most requests agree on, restarts taken into account.
//!
//! A request that missed pages only because its cache had been emptied says nothing of how much the cache holds:
//! its interval has no upper end. A cache that hardly evicts shows few other upper ends, so a few such requests
//! would make it look small. Which requests these are depends on the restarts, and which restarts there were on what
//! the cache could have held. A cache that holds everything may have been restarted the most, so what it explains
//! bounds what any capacity can, and capacities are tried from the largest bound on.

use super::intervals::{Agreed, Intervals};
use crate::request::outcome::{BEYOND, Need};

/// Ranges of capacities tried at most; the first ones explain the most nearly always.
const MAX_TRIED: usize = 32;

/// Requests that a capacity explains together with the restarts told at it, less one for each of these; and how few
/// they are: of two explanations the one with fewer restarts is the better.
type Explains = (i64, i64);

/// The capacity that explains the most of these requests together with the restarts told at it, by `explained`
/// ([`Restarts::explained`](super::restarts::Restarts::explained)); of equals the one that the evidence leaves the most
/// room for, where each cache has so many pages `provisioned`. The agreement is that of the requests whose own
/// intervals hold it.
pub(super) fn agreed(
    intervals: &Intervals,
    provisioned: Option<Need>,
    explained: impl Fn(Need) -> (u64, Vec<Need>),
) -> Option<Agreed> {
    let plain = intervals.find(provisioned)?;
    let (_, ends) = explained(BEYOND - 1);
    if ends.is_empty() {
        return Some(plain);
    }
    let explains = |capacity: Need| -> Explains {
        let (restarts, ends) = explained(capacity);
        let requests = intervals.agreeing(capacity).0.saturating_add(ends.len() as u64);
        (count(requests) - count(restarts), -count(restarts))
    };
    let rank = |told: Explains, found: &Agreed| (told, found.standing(provisioned));
    let mut best = (explains(plain.from).max((count(plain.requests), 0)), plain);
    let mut ranges = intervals.ranges_without(&ends);
    // Stable: of several ranges that as many may agree on, and that have the same standing, the smaller one is first.
    ranges.sort_by_key(|range| std::cmp::Reverse((range.requests, range.standing(provisioned), range.pages)));
    for range in ranges.into_iter().take(MAX_TRIED) {
        let (most, _) = best.0;
        if count(range.requests) < most {
            break;
        }
        for found in with_all(range, &ends, provisioned) {
            let told = explains(found.from);
            if rank(told, &found) > rank(best.0, &best.1) {
                best = (told, found);
            }
        }
    }
    let (_, found) = best;
    let (requests, pages) = intervals.agreeing(found.from);
    Some(Agreed { requests, pages, ..found })
}

/// The capacities; those of them that are large enough for all that missed up to these needs to be reported; and those
/// that are so for all that what is provisioned could have held.
fn with_all(found: Agreed, ends: &[Need], provisioned: Option<Need>) -> impl Iterator<Item = Agreed> {
    let larger = move |upto: Need| {
        let from = ends.iter().copied().filter(|end| *end <= upto).max();
        from.filter(|from| *from > found.from).map(|from| Agreed { from, ..found })
    };
    let held = provisioned.filter(|each| found.holds(*each)).and_then(larger);
    [Some(found), larger(found.to.unwrap_or(BEYOND)), held].into_iter().flatten()
}

fn count(requests: u64) -> i64 {
    i64::try_from(requests).unwrap_or(i64::MAX)
}
