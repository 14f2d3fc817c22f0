//! What stands in front of the JSON of a row: when it was written, and the pod, container or host that wrote it.

use super::caches::cache_named_in;
use super::rules::UnreadKind;
use super::scopes::is_in_front;
use super::times::is_moment;
use crate::row_values::FRONT;
use serde_json::Value;

/// The time and the cache that a text in front of a row names.
pub(super) fn named_in(front: &[u8]) -> Vec<(UnreadKind, String)> {
    let text = String::from_utf8_lossy(front);
    let tokens: Vec<&str> = text.split([' ', '\t', '|', ',']).filter(|token| !token.is_empty()).collect();
    let clock = tokens.iter().rposition(|token| is_clock(token));
    let time = match clock {
        Some(at) => Some(tokens[at.saturating_sub(2)..=at].join(" ")),
        None => tokens.iter().find(|token| is_epoch(token)).map(|token| (*token).to_owned()),
    };
    let who = tokens.iter().enumerate().find_map(|(at, token)| {
        let name = token.trim_end_matches(':');
        // A logger puts its thread in brackets, and `kubectl` the way to a pod.
        let name = if name.contains('/') { name.trim_matches(['[', ']']) } else { name };
        // Whoever collects from several puts the name first, or right behind the time.
        let is_placed = at == 0 || clock.is_some_and(|clock| at == clock + 1);
        let named = cache_named_in(FRONT, &Value::from(name)).filter(|_| !name.starts_with('['));
        let named = named.or_else(|| (is_placed && is_name(name)).then(|| name.to_owned()));
        named.filter(|_| !is_in_front(&[name]))
    });
    let time = time.map(|time| (UnreadKind::Time, time));
    time.into_iter().chain(who.map(|who| (UnreadKind::Cache, who))).collect()
}

/// Whether a word has the hours, minutes and seconds of a time.
fn is_clock(token: &str) -> bool {
    let is_time = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(at, byte)| match at {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    };
    token.as_bytes().windows(8).any(is_time)
}

/// Whether a word ends with a time in seconds to nanoseconds since 1970, as Kafka's `CreateTime:1763640000000` does.
fn is_epoch(token: &str) -> bool {
    token.rsplit([':', '=']).next().and_then(|number| number.parse().ok()).is_some_and(is_moment)
}

/// Whether a word is made as names of hosts and pods are: of small letters, with a number or of several parts.
fn is_name(word: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._/".contains(&byte);
    word.starts_with(|first: char| first.is_ascii_lowercase())
        && word.bytes().all(is_letter)
        && word.contains(|letter: char| letter.is_ascii_digit() || letter == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_put_times_and_names_in_front() {
        let told = |front: &str| {
            let named = named_in(front.as_bytes());
            let of = |kind| named.iter().find(|(known, _)| *known == kind).map(|(_, text)| text.clone());
            (of(UnreadKind::Time).is_some(), of(UnreadKind::Cache))
        };
        for (front, has_time, cache) in [
            ("[pod/vllm-0/vllm] ", false, Some("vllm0")),
            ("[pod/decode-7d9f8c-x2vlq/main] ", false, Some("pod/decode-7d9f8c-x2vlq/main")),
            ("decode-7d9f8c-x2vlq main ", false, Some("decode-7d9f8c-x2vlq")),
            ("vllm-1  | ", false, Some("vllm1")),
            ("<14>1 2025-11-20T12:00:00.000Z gpu0 vllm 1234 - - ", true, Some("gpu0")),
            ("Nov 20 12:00:00 ip-10-0-3-4 vllm[812]: ", true, Some("ip-10-0-3-4")),
            ("2025-11-20T12:02:44.000Z stdout F ", true, None),
            ("I1120 12:02:44.000000       1 server.go:1] ", true, None),
            ("2025-11-20 12:02:44,000 INFO  [worker-1] x.Y - ", true, None),
            ("10.0.0.7 - - [20/Nov/2025:12:01:50 +0000] \"POST /v1/chat\" 200 ", true, None),
            ("CreateTime:1763640000000\tkey0\t", true, None),
            ("11\t2025-11-20T12:01:50.000Z\t", true, None),
            ("[pod/gw-0/gateway] ", false, None),
            ("INFO:root:", false, None),
            ("Received request cmpl-7 ", false, None),
            ("(EngineCore_DP1 pid=412) ", false, Some("dp1")),
        ] {
            assert_eq!(told(front), (has_time, cache.map(str::to_owned)), "{front}");
        }
    }
}
