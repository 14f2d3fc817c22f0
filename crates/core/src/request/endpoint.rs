//! Which endpoints of an API answer a prompt with text: the one place that decides by a path or a URL.

use crate::units::names::listed;

/// What the last step of a path asks for, in small letters and digits, where that is no text of an engine.
const OTHERS: [&str; 37] = listed(
    "embed embeddings embedall embedsparse embedcontent batchembedcontents rerank rank score pooling classify similarity \
        moderations generations edits variations transcriptions translations speech counttokens tokenize chattokenize \
        detokenize encode render applytemplate models files batches health healthz ping metrics version info \
        props slots",
);
/// Steps of a path below which no text is made of a prompt.
const GROUPS: [&str; 7] = listed("images audio videos embeddings moderations files batches");
/// Endpoints that engines have at their root, without a version in front.
const AT_ROOT: [&str; 13] = listed(
    "embed embedall embedsparse rerank score pooling classify similarity tokenize chattokenize detokenize render \
        applytemplate",
);

/// The letters and digits of a step of a path, in small letters.
fn folded(step: &str) -> String {
    step.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// The steps of a path or a URL, without what is asked there.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path =
        path.split_once("://").map_or(path, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    path.split('/').filter(|step| !step.is_empty())
}

/// Whether requests of this path are answered without a text that is generated of their prompt. Their bodies look like
/// those that are.
pub fn generates_no_text(path: &str) -> bool {
    let last = steps(path).last().and_then(|last| last.rsplit(':').next()).map(folded);
    last.is_some_and(|last| OTHERS.contains(&last.as_str())) || is_of_group(path)
}

/// Whether a path leads into a group of endpoints behind its version.
fn is_of_group(path: &str) -> bool {
    let mut behind = steps(path).skip_while(|step| !is_version(step)).skip(1);
    behind.next().is_some_and(|group| GROUPS.contains(&group))
}

/// `v1`, `v1beta`.
fn is_version(step: &str) -> bool {
    step.strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.len() < 8)
}

/// Whether a text, whatever it is called, is the path of such an endpoint: `/v1/embeddings`, or
/// `POST https://host/v1/messages/count_tokens HTTP/1.1`.
pub fn asks_for_no_text(text: &str) -> bool {
    const LONGEST: usize = 256;
    if text.len() > LONGEST {
        return false;
    }
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    let path = if first.bytes().all(|byte| byte.is_ascii_uppercase()) { words.next() } else { Some(first) };
    let Some(path) = path.filter(|path| path.starts_with('/') || path.contains("://")) else { return false };
    if words.next().is_some_and(|protocol| !protocol.starts_with("HTTP/")) {
        return false;
    }
    let mut steps_of = steps(path);
    let is_at_root = steps_of.next().is_some_and(|step| AT_ROOT.contains(&folded(step).as_str()))
        && steps_of.next().is_none();
    (is_at_root || steps(path).any(is_version)) && generates_no_text(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_generate_no_text_are_recognised_by_their_last_step() {
        for path in [
            "/v1/embeddings",
            "/v1/messages/count_tokens?beta=1",
            "/llm/v1/rerank/",
            "/v1/chat/completions/render",
            "/apply-template",
            "/v1/images/generations",
            "/v1/audio/speech",
            "/v1beta/models/gemini:countTokens",
            "/v1/files/f7/content",
        ] {
            assert!(generates_no_text(path), "{path}");
        }
        for path in [
            "/v1/chat/completions",
            "/v1/messages",
            "/any/route",
            "",
            "/v1/responses?x=/models",
            "/v1beta/models/gemini:generateContent",
            "/openai/deployments/audio/chat/completions",
        ] {
            assert!(!generates_no_text(path), "{path}");
        }
    }

    #[test]
    fn a_text_of_any_field_is_a_path_by_how_it_looks() {
        for text in [
            "/tokenize",
            "https://host:8000/detokenize",
            "POST /v1/embeddings HTTP/1.1",
            "http://v/v1/messages/count_tokens",
        ] {
            assert!(asks_for_no_text(text), "{text}");
        }
        for text in [
            "embeddings",
            "/home/user/files",
            "https://example.org/models",
            "/v1/chat/completions",
            "see /v1/embeddings for that",
            "POST /v1/embeddings is slow",
        ] {
            assert!(!asks_for_no_text(text), "{text}");
        }
    }
}
