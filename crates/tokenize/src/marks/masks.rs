//! Texts that something stands for: a word in brackets, stars, a digest.

use kvset_core::units::names::listed;

/// The longest mask, in bytes.
const LONGEST_MASK: usize = 160;

/// Parts of words for what was masked, in small letters.
const MASKS: [&str; 15] = [
    "redact",
    "mask",
    "hidden",
    "filtered",
    "removed",
    "omitted",
    "scrubbed",
    "anonymi",
    "sanitiz",
    "sensitive",
    "private",
    "stripped",
    "suppressed",
    "elided",
    "not logged",
];

/// Texts that say that there is none.
const PLACEHOLDERS: [&str; 6] = ["n/a", "null", "undefined", "nan", "<none>", "…"];

/// Parts of what is said in brackets in the place of a text that was not kept.
const TELLS: [&str; 6] =
    ["too large", "too long", "binary", "not captured", "not available", "object object"];

/// Whether something stands for the whole of a text.
pub(super) fn is_masked(text: &str) -> bool {
    let text = text.trim();
    if is_filled(text) {
        return true;
    }
    if text.is_empty() || text.len() > LONGEST_MASK {
        return false;
    }
    let is_bracketed = text.starts_with(['[', '<', '(', '{', '*', '_', '#'])
        && text.ends_with([']', '>', ')', '}', '*', '_', '#']);
    let is_word = text.split_whitespace().count() <= 3 && text.chars().all(|c| !c.is_lowercase());
    let is_label = !text.contains(char::is_whitespace) && text.contains(['-', '_', ':']);
    let lower = text.to_lowercase();
    let names_mask = (is_bracketed || is_word || is_label) && MASKS.iter().any(|mask| lower.contains(mask));
    let tells = is_bracketed && TELLS.iter().any(|what| lower.contains(what));
    let counts_chars = is_bracketed && text.contains(|c: char| c.is_ascii_digit()) && lower.contains("char");
    names_mask
        || tells
        || is_note(&lower)
        || counts_chars
        || PLACEHOLDERS.contains(&lower.as_str())
        || is_digest(&lower)
}

/// Whether a few words say of a text, and not as a sentence, that it is not there: `content not logged`.
fn is_note(lower: &str) -> bool {
    const WHAT: [&str; 7] = ["content", "message", "prompt", "payload", "text", "body", "input"];
    const GONE: [&str; 7] = listed("logged recorded captured stored redacted dropped removed");
    const BY: [&str; 5] = ["processor", "policy", "filter", "gateway", "collector"];
    let words: Vec<&str> = lower.split_whitespace().collect();
    let (first, last) =
        (words.first().copied().unwrap_or_default(), words.last().copied().unwrap_or_default());
    let is_gone = GONE.iter().any(|gone| words.contains(gone));
    let is_of_text = WHAT.contains(&first) && (last == "logged" || GONE.contains(&last));
    (2..=5).contains(&words.len()) && is_gone && (is_of_text || (BY.contains(&last) && words.contains(&"by")))
}

/// Whether one letter stands for each of a text, spaces kept or not.
fn is_filled(text: &str) -> bool {
    let mut letters = text.chars().filter(|c| !c.is_whitespace() && !".,;:!?".contains(*c));
    let first = letters.next().filter(|first| "*xX█•#-".contains(*first));
    text.len() >= 3 && first.is_some_and(|first| letters.all(|letter| letter.eq_ignore_ascii_case(&first)))
}

/// Whether a text is the digest of another: `sha256:` or so and hexadecimal digits.
fn is_digest(text: &str) -> bool {
    let digits = text.rsplit([':', '=']).next().unwrap_or_default();
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(digits.len(), 32 | 40 | 64 | 96 | 128) && is_hex(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_told_by_what_they_are() {
        for text in [
            "[REDACTED]",
            "<redacted>",
            "***",
            "REDACTED",
            "[content removed by policy]",
            "xxxxxxxx",
            "[PII_MASKED]",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "████",
            "redacted-by-litellm",
            "N/A",
            "…",
            "Xxx xx, xxxxxx.",
            "<154 chars>",
            "[object Object]",
            "[Message too large to log]",
            "<binary data>",
            "content not logged",
            "dropped by redact processor",
        ] {
            assert!(is_masked(text), "{text}");
        }
        for text in [
            "",
            "x",
            "ok",
            "Remove the hidden file.",
            "[1, 2]",
            "(yes)",
            "What is a mask?",
            "redact this, please",
            "The message was removed",
            "Why was it not logged?",
            "text",
            "--",
        ] {
            assert!(!is_masked(text), "{text}");
        }
    }
}
