//! Of whom a field speaks: of the request, or of what stands beside it, in front of the engine, or within a prompt.

use super::words::{JUDGED, any, words};
use kvset_core::units::names::listed;

/// What else than its requests a service tells of, alongside who [`JUDGED`] the answer: what its model called, and what
/// became of it later.
const BESIDE: [&str; 11] =
    listed("tool tools rating survey annotation annotations billing payment webhook email ticket");
/// What caches keep that are no answers.
const KEPT: [&str; 26] = listed(
    "profile user users session retrieval retriever rag embedding embeddings document documents docs dns db \
        database sql feature features auth image images asset config permission permissions template",
);
/// What stands in front of the engines, whose hosts have none of their caches.
const FRONT: [&str; 15] = listed(
    "gateway gw proxy router ingress lb balancer loadbalancer envoy nginx haproxy edge cdn frontend waf",
);
/// What that says of the engines behind it.
const BEHIND: [&str; 18] = listed(
    "upstream backend target worker engine replica selected destination routed endpoint served dispatched \
        rank dp gpu slot shard deployment",
);
/// Those who ask.
pub(super) const CALLERS: [&str; 8] =
    ["client", "user", "remote", "peer", "caller", "agent", "browser", "db"];
/// Parts of a request or an answer whose members are no log's.
const WITHIN: [&str; 12] =
    listed("messages content contents tools functions arguments schema choices delta params parameters args");

/// The words of the last three names of a path.
pub(super) fn near(path: &str) -> Vec<String> {
    path.rsplit('.').take(3).flat_map(words).collect()
}

/// Whether a field speaks of what stands beside a request: its outcome is none of the request's.
pub(super) fn is_beside_the_request(path: &str) -> bool {
    any(&near(path), &BESIDE) || any(&near(path), &JUDGED)
}

/// Whether a cache keeps what is no answer.
pub(super) fn keeps_no_answers(path: &str) -> bool {
    is_beside_the_request(path) || any(&near(path), &KEPT)
}

/// Whether a field names what stands in front of the engines.
pub(super) fn is_in_front(own: &[&str]) -> bool {
    let names: Vec<String> = own.iter().flat_map(|name| words(name)).collect();
    any(&names, &FRONT) && !any(&names, &BEHIND)
}

/// Whether a field is of those who ask.
pub(super) fn is_of_caller(path: &str) -> bool {
    any(&near(path), &CALLERS)
}

/// Whether a path leads into a prompt, its tools, or an answer.
pub(super) fn is_within(path: &str) -> bool {
    any(&words(path), &WITHIN)
}
