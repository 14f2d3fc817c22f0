//! What providers cache by rules of their own, and no engine that is modelled does.

use super::Replay;
use kvset_core::questions::measured::Verdict;

/// Fewest tokens of a prompt that OpenAI caches.
const LEAST_CACHED: u64 = 1024;

/// Whether a model is OpenAI's own by its name.
fn is_of_openai(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    let is_open = name.starts_with("gpt-oss") || name.starts_with("gpt-j") || name.starts_with("gpt-neo");
    let digits = name.strip_prefix('o').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_reasoning = digits.is_some_and(|rest| rest.len() == 1 || rest[1..].starts_with('-'));
    !is_open && (name.starts_with("gpt-") || name.starts_with("chatgpt-") || is_reasoning)
}

/// Says of measured prompts of a provider's model that it caches none that are so short.
pub(super) fn say_least_cached(model: Option<&str>, replay: &mut Replay) {
    let measured = replay.whole.as_ref().and_then(|whole| whole.measured.as_ref());
    let Some(measured) = measured.filter(|_| model.is_some_and(is_of_openai)) else { return };
    let mean = measured.ledger.prompt_tokens / measured.requests.max(1);
    if mean >= LEAST_CACHED || !matches!(measured.verdict, Some(Verdict::Engine | Verdict::NothingFound)) {
        return;
    }
    let found = format!(
        "OpenAI caches no prompt of fewer than {LEAST_CACHED} tokens, and these have {mean} on average"
    );
    replay.notes.push(format!("{found}: what they did not find there was not lost in an engine"));
    replay.doubt.get_or_insert(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_openai_are_recognised_by_their_names() {
        for model in ["gpt-4o", "openai/gpt-4.1-mini", "o3-mini", "o1", "chatgpt-4o-latest"] {
            assert!(is_of_openai(model), "{model}");
        }
        for model in ["gpt-oss-120b", "openai/gpt-oss-20b", "llama-70b", "o", "olmo-2", "qwen3"] {
            assert!(!is_of_openai(model), "{model}");
        }
    }
}
