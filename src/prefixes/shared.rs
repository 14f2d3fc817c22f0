//! The largest beginnings that requests share, where they go on in several ways.

use crate::replay::RequestLog;
use std::collections::HashSet;

/// Fewest ways in which requests go on behind a beginning that is reported.
const FEWEST_WAYS: usize = 2;

/// The beginnings that save the most, at most so many, each as the requests that have it and its ids: those whose
/// requests go on in several ways. One that continues another one is reported where fewer than half of its requests
/// went another way.
pub fn shared(log: &RequestLog, most: usize) -> Vec<(u64, usize)> {
    let prompts = log.prompts();
    let (mut requests, mut ways, mut ends) =
        (vec![0u64; prompts.segments()], vec![0usize; prompts.segments()], vec![0usize; prompts.segments()]);
    let mut above = vec![None; prompts.segments()];
    let mut seen = HashSet::new();
    for request in log.requests() {
        for (number, upper, end) in prompts.passed(request.path) {
            ends[number] = end;
            above[number] = upper;
            requests[number] += u64::from(request.path.ids() >= end);
            if seen.insert(number)
                && let Some(above) = upper
            {
                ways[above] += 1;
            }
        }
    }
    let mut found: Vec<usize> =
        (0..prompts.segments()).filter(|at| ways[*at] >= FEWEST_WAYS && requests[*at] >= 2).collect();
    let worth = |at: &usize| (requests[*at] - 1).saturating_mul(ends[*at] as u64);
    found.sort_by_key(|at| (std::cmp::Reverse(worth(at)), *at));
    let mut told: Vec<usize> = Vec::new();
    for at in found {
        let on_one_path = |other: &usize| {
            let is_above = |lower: usize, upper: usize| {
                std::iter::successors(above[lower], |at: &usize| above[*at]).any(|at| at == upper)
            };
            is_above(at, *other) || is_above(*other, at)
        };
        if told.len() < most && !told.iter().any(on_one_path) {
            told.push(at);
        }
    }
    told.into_iter().map(|at| (requests[at], ends[at])).collect()
}
