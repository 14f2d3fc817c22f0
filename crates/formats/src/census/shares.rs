//! The share of the traffic that a log says it kept.

use super::words::{JUDGED, any, words};
use kvset_core::units::names::listed;
use serde_json::Value;

const SHARES: [&str; 12] =
    listed("rate fraction ratio probability prob percent percentage share weight param factor interval");
/// What is done with a part of the traffic.
const KEPT: [&str; 10] =
    ["keep", "kept", "retained", "log", "logged", "logging", "capture", "captured", "recorded", "ingested"];
/// What is sampled where no traffic is, alongside what is [`JUDGED`] afterwards: sounds.
const OTHERS: [&str; 16] =
    listed("audio voice speech sound hertz hz khz wav pcm tts asr stt microphone video params parameters");
/// One of more is no sample but a rate of a sound.
const LARGEST_STEP: f64 = 10_000.0;

/// The words of a name, with what a sampler's is made of by itself.
fn sampler_words(name: &str) -> Vec<String> {
    let mut all = words(name);
    let parts: Vec<String> = all
        .iter()
        .filter(|word| word.contains("sampl"))
        .flat_map(|word| {
            SHARES.iter().filter(|share| word.ends_with(**share)).map(|share| (*share).to_owned())
        })
        .collect();
    all.extend(parts);
    all
}

/// The share of the traffic that a value says was kept.
pub(super) fn share_of(path: &str, value: &Value) -> Option<f64> {
    let last = path.rsplit('.').next().unwrap_or_default();
    let mut name = sampler_words(last);
    if name.concat().ends_with("tracestate") {
        return value.as_str().and_then(share_of_trace_state);
    }
    if any(&words(path), &OTHERS) || any(&words(path), &JUDGED) {
        return None;
    }
    // Application Insights says so of how many a row stands.
    if path == "itemCount" {
        return value.as_f64().filter(|count| *count > 1.0 && count.fract() == 0.0).map(|count| 1.0 / count);
    }
    if let Some(said) = value.as_str().and_then(share_said) {
        return Some(said);
    }
    let around = path.rsplit('.').nth(1).unwrap_or_default();
    let is_count = name == ["adjusted", "count"] || name == ["representative", "count"];
    if name.len() <= 2 && (any(&name, &SHARES) || is_count) {
        name.extend(sampler_words(around));
    }
    let is_of_buckets = name == ["total", "buckets"] || name == ["num", "buckets"];
    let is_one_in = name.starts_with(&["one".to_owned(), "in".to_owned()]) || is_of_buckets;
    // A weight, a factor or an interval of a log is none of its traffic.
    let is_kept = any(&name, &KEPT) && any(&name, &SHARES[..8]);
    let is_sampled = name.iter().any(|word| word.contains("sampl"))
        || any(&name, &["psr"])
        || is_kept
        || is_one_in
        || is_count;
    let says_percent = value.as_str().is_some_and(|text| text.trim_end().ends_with('%'));
    let names_share = any(&name, &SHARES)
        || name.len() == 1
        || says_percent
        || is_of_buckets
        || any(&name, &["psr", "every", "n", "in", "one", "adjusted", "representative"]);
    if !is_sampled || !names_share {
        return None;
    }
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => number_of(text)?,
        _ => return None,
    };
    let is_percent = any(&name, &["percent", "percentage"]);
    match number {
        _ if is_percent && number > 0.0 && number < 100.0 => Some(number / 100.0),
        _ if number > 0.0 && number < 1.0 => Some(number),
        // One of so many.
        _ if number > 1.0
            && !is_kept
            && number <= LARGEST_STEP
            && number.fract() == 0.0
            && name.len() > 1 =>
        {
            Some(1.0 / number)
        }
        _ => None,
    }
}

/// Whether a value names the rule by which a row was kept, and its share is not told.
pub(super) fn names_sampler(path: &str, value: &Value) -> bool {
    let words = words(path).concat();
    words.contains("tailsampling") && value.as_str().is_some_and(|rule| !rule.is_empty())
}

/// A number as it is written: `0.1`, `5%`, `1/20`, `1:20`.
fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Some((part, whole)) = text.split_once(['/', ':']) {
        let (part, whole) = (part.trim().parse::<f64>().ok()?, whole.trim().parse::<f64>().ok()?);
        return (whole > 0.0).then(|| part / whole);
    }
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

/// What a short text says in words: `sampled 1:100`.
fn share_said(text: &str) -> Option<f64> {
    const SHORT: usize = 48;
    if text.len() > SHORT || !words(text).iter().any(|word| word.starts_with("sampl")) {
        return None;
    }
    let pieces = text.split([' ', '=', ',', '(', ')']).filter(|piece| piece.contains(['/', ':', '%']));
    pieces.filter_map(number_of).find(|share| *share > 0.0 && *share < 1.0)
}

/// OpenTelemetry's `ot=th:...`, a threshold of 56 bits below which traces are dropped; `ot=p:...` in its former form.
fn share_of_trace_state(state: &str) -> Option<f64> {
    let vendor = state.split(',').find_map(|entry| entry.trim().strip_prefix("ot="))?;
    let field = |name: &str| vendor.split(';').find_map(|field| field.strip_prefix(name));
    let share = match (field("th:"), field("p:")) {
        (Some(digits), _) if digits.len() <= 14 => {
            let digits = format!("{digits:0<14}");
            let threshold = u64::from_str_radix(&digits, 16).ok()?;
            1.0 - threshold as f64 / (1u64 << 56) as f64
        }
        (_, Some(exponent)) => 0.5f64.powi(exponent.parse::<u8>().ok()?.into()),
        _ => return None,
    };
    (share > 0.0 && share < 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trace_state_says_what_was_kept() {
        let share = |state: &str| share_of("spans[].traceState", &json!(state));
        assert_eq!(share("ot=th:8"), Some(0.5));
        assert_eq!(share("x=1,ot=rv:1;th:c"), Some(0.25));
        assert_eq!(share("ot=p:3"), Some(0.125));
        assert_eq!(share("ot=th:0"), None);
        assert_eq!(share("vendor=1"), None);
    }

    #[test]
    fn samples_are_told_by_what_was_kept() {
        for (path, value, share) in [
            ("samplerate", json!(10), 0.1),
            ("ce-samplerate", json!(0.1), 0.1),
            ("one_in", json!(50), 0.02),
            ("log_fraction", json!("1/20"), 0.05),
            ("capture_rate", json!(0.02), 0.02),
            ("subsample", json!(0.1), 0.1),
            ("adjusted_count", json!(8), 0.125),
            ("transaction.representative_count", json!(10.0), 0.1),
            ("total_buckets", json!(10), 0.1),
            ("itemCount", json!(8), 0.125),
            ("meta.logger", json!("sampled 1:100"), 0.01),
        ] {
            assert_eq!(share_of(path, &value), Some(share), "{path}");
        }
    }

    #[test]
    fn rates_of_sounds_and_of_evaluations_are_no_samples() {
        for (path, value) in [
            ("audio.sample_rate", json!(8000)),
            ("sample_rate", json!(16000)),
            ("voice.sample_rate_hertz", json!(24000)),
            ("eval_sample_rate", json!(0.05)),
            ("sampling_params.n", json!(2)),
            ("log_level", json!(20)),
        ] {
            assert_eq!(share_of(path, &value), None, "{path}");
        }
    }
}
