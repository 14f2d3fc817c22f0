//! One spelling for each known name: `promptTokens`, `PromptTokens` and `prompt-tokens` are `prompt_tokens`.
//!
//! Clients in Go, Java and JavaScript write names in camel case, exports of databases in capitals. A name in small
//! letters is as it is, so rows that are written the usual way cost nothing.

use hashbrown::HashMap;

/// The longest name that is looked up, in bytes.
const MAX_BYTES: usize = 48;

/// Known names by their letters.
pub(crate) struct Spellings(HashMap<Vec<u8>, &'static str, foldhash::fast::FixedState>);

impl Spellings {
    /// These names, in the usual spelling; of two with the same letters the first holds.
    pub fn of(names: impl Iterator<Item = &'static str>) -> Self {
        let mut known = HashMap::default();
        names.for_each(|name| {
            known.entry(folded(name).collect()).or_insert(name);
        });
        Self(known)
    }

    /// The known name that `key` spells in another way; `key` itself where there is none.
    pub fn standard<'k>(&self, key: &'k str) -> &'k str {
        let is_usual = key.bytes().all(|byte| !byte.is_ascii_uppercase() && byte != b'-');
        if is_usual || key.len() > MAX_BYTES {
            return key;
        }
        let (mut letters, mut length) = ([0; MAX_BYTES], 0);
        for letter in folded(key) {
            letters[length] = letter;
            length += 1;
        }
        self.0.get(&letters[..length]).copied().unwrap_or(key)
    }
}

/// The letters and digits of a name, in small letters.
fn folded(name: &str) -> impl Iterator<Item = u8> + '_ {
    name.bytes().filter(|byte| !matches!(byte, b'_' | b'-' | b'@')).map(|byte| byte.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_another_case_is_the_known_one() {
        let names = ["prompt_tokens", "start_time", "startTime", "timestamp", "isl", "@timestamp"];
        let spellings = Spellings::of(names.into_iter());
        for (key, name) in [
            ("promptTokens", "prompt_tokens"),
            ("PromptTokens", "prompt_tokens"),
            ("prompt-tokens", "prompt_tokens"),
            ("startTime", "start_time"),
            ("TIMESTAMP", "timestamp"),
            ("ISL", "isl"),
            ("prompt_tokens", "prompt_tokens"),
            ("prompttokens", "prompttokens"),
            ("@timestamp", "@timestamp"),
            ("somethingElse", "somethingElse"),
            ("", ""),
        ] {
            assert_eq!(spellings.standard(key), name);
        }
        let long = "PromptTokens".repeat(9);
        assert_eq!(spellings.standard(&long), long);
    }
}
