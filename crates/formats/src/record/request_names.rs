//! The names that records give their requests and samples, wherever they stand.

use aho_corasick::AhoCorasick;
use aho_corasick::packed::Searcher;
use kvset_core::units::names::listed;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

/// Names that logs give a request.
const NAMES: [&str; 9] =
    listed("request_id requestId request-id req_id rid RequestId correlation_id bootstrap_room call_id");
/// Names of what tells samples of one prompt apart.
const SAMPLES: [&str; 7] =
    listed("seed sample_index sample_idx sample_id rollout_index rollout_idx rollout_id");

/// All of these names at once: in many bytes at a time, where the processor can, and one by one where one of them is
/// there.
static NAMED: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(NAMES.iter().chain(&SAMPLES)));

static FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(NAMES.iter().chain(&SAMPLES)).ok());

/// Digests of the name that a record gives its request and of the one that it gives its sample, wherever in it they
/// stand; by the first of the names if it has several.
pub(crate) fn request_names(record: &[u8]) -> (Option<u64>, Option<u64>) {
    if NAMED.as_ref().is_some_and(|names| names.find(record).is_none()) {
        return (None, None);
    }
    let mut best: [Option<(usize, &[u8])>; 2] = [None; 2];
    let found = FINDER.as_ref().into_iter().flat_map(|names| names.find_iter(record));
    for found in found.filter(|found| is_key(record, found.start(), found.len())) {
        let value =
            value_behind(&record[found.end()..]).filter(|value| !value.is_empty() && *value != b"null");
        let rank = found.pattern().as_usize();
        let best = &mut best[usize::from(rank >= NAMES.len())];
        if let Some(value) = value.filter(|_| best.is_none_or(|(known, _)| rank < known)) {
            *best = Some((rank, value));
        }
    }
    let [request, sample] = best.map(|named| named.map(|(_, value)| xxh3_64(value)));
    (request, sample)
}

/// Whether what stands here is the whole of a member's name, also where the object is packed in a text.
fn is_key(record: &[u8], at: usize, length: usize) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'"' | b'\\' | b'.' | b'-'));
    ends(at.checked_sub(1).and_then(|before| record.get(before))) && ends(record.get(at + length))
}

/// The value behind a member's name, without its quotes; nothing of lists and objects.
fn value_behind(rest: &[u8]) -> Option<&[u8]> {
    let start = rest.iter().position(|byte| !matches!(byte, b'"' | b'\\' | b' ' | b':'))?;
    let value = &rest[start..];
    let end =
        value.iter().position(|byte| matches!(byte, b'"' | b'\\' | b',' | b'}' | b']' | b'{' | b'['))?;
    Some(value[..end].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_named_wherever_its_name_stands() {
        let same = [
            &br#"{"request_id": "r1", "token_ids": [1]}"#[..],
            br#"{"a": {"requestId":"r1"}}"#,
            br#"{"log": "{\"request_id\": \"r1\"}"}"#,
            br#"{"headers": {"x-request-id": "r1"}}"#,
        ];
        let names: Vec<_> = same.map(|record| request_names(record).0).to_vec();
        assert!(names[0].is_some() && names.iter().all(|name| *name == names[0]), "{names:?}");
        for other in [&br#"{"prompt": "the request_id of it"}"#[..], br#"{"request_id": null}"#, b"{}"] {
            assert_eq!(request_names(other), (None, None), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn a_sample_is_named_by_its_seed_or_number() {
        let of = |record: &str| request_names(record.as_bytes()).1;
        assert!(of(r#"{"seed": 1}"#).is_some() && of(r#"{"seed": 1}"#) != of(r#"{"seed": 2}"#));
        assert_eq!(of(r#"{"prompt": "a seed of it"}"#), None);
    }
}
