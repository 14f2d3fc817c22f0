//! The options of vLLM's tier in host memory, as they are written behind its size.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which chunks leave first (`eviction_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OffloadPolicy {
    /// Those of the request that used them longest ago.
    #[default]
    Lru,
    /// Adaptive replacement: chunks used once and chunks used again, with ghosts of both (Megiddo and Modha, FAST '03).
    Arc,
}

impl OffloadPolicy {
    /// Every policy with the name users write.
    pub const NAMES: [(&'static str, OffloadPolicy); 2] = [("lru", Self::Lru), ("arc", Self::Arc)];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Arc => "arc",
        }
    }
}

/// The options of the tier (`kv_connector_extra_config`), written as `policy=arc,store_threshold=2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadOptions {
    /// Which chunks leave first.
    pub policy: OffloadPolicy,
    /// How often a chunk must have been offered to be stored; 0 and 1 store at once.
    pub store_threshold: u32,
    /// Pages of the device in one chunk, at least 1.
    pub blocks_per_chunk: u32,
}

impl Default for OffloadOptions {
    fn default() -> Self {
        Self { policy: OffloadPolicy::Lru, store_threshold: 0, blocks_per_chunk: 1 }
    }
}

/// Largest value of an option that is a number.
pub const MAX_OPTION: u32 = 1 << 16;

impl OffloadOptions {
    /// The names under which they are given.
    pub const NAMES: [&str; 3] = ["policy", "store_threshold", "blocks_per_chunk"];

    /// What `kvset tune` tries of them.
    pub const TRIES: [&str; 5] =
        ["policy=lru", "policy=arc", "store_threshold=0", "store_threshold=2", "store_threshold=3"];

    /// Sets one of them, written as `NAME=VALUE`.
    ///
    /// # Errors
    /// What is wrong with the text, and what is expected.
    pub fn set(&mut self, option: &str) -> Result<(), String> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let number = |least: u32| match value.parse() {
            Ok(number) if (least..=MAX_OPTION).contains(&number) => Ok(number),
            _ => Err(format!("`{option}`: expected {name}={least} to {MAX_OPTION}")),
        };
        match name {
            "policy" => {
                let known = OffloadPolicy::NAMES.iter().find(|(known, _)| *known == value);
                self.policy = known.ok_or(format!("`{option}`: expected policy=lru or policy=arc"))?.1;
            }
            "store_threshold" => self.store_threshold = number(0)?,
            "blocks_per_chunk" => self.blocks_per_chunk = number(1)?,
            _ => {
                return Err(format!(
                    "`{option}` is no option of the tier: expected policy=lru or policy=arc, store_threshold=N or \
                     blocks_per_chunk=N"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for OffloadOptions {
    type Err = String;

    /// Reads `NAME=VALUE` pairs, each name once, joined by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        let mut named = Vec::new();
        for option in text.split(',') {
            let name = option.split_once('=').map_or(option, |(name, _)| name);
            if named.contains(&name) {
                return Err(format!("`{name}` is given twice: leave one out"));
            }
            named.push(name);
            options.set(option)?;
        }
        Ok(options)
    }
}

impl fmt::Display for OffloadOptions {
    /// Writes what is not at its default, nothing where all is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let given = [
            (self.policy != default.policy).then(|| format!("policy={}", self.policy.name())),
            (self.store_threshold != default.store_threshold)
                .then(|| format!("store_threshold={}", self.store_threshold)),
            (self.blocks_per_chunk != default.blocks_per_chunk)
                .then(|| format!("blocks_per_chunk={}", self.blocks_per_chunk)),
        ];
        let given: Vec<String> = given.into_iter().flatten().collect();
        f.write_str(&given.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_they_are_read_and_others_are_refused_with_what_is_expected() {
        for text in ["policy=arc", "store_threshold=2", "policy=arc,store_threshold=2,blocks_per_chunk=4"] {
            assert_eq!(text.parse::<OffloadOptions>().expect(text).to_string(), text);
        }
        assert_eq!(OffloadOptions::default().to_string(), "");
        assert_eq!("policy=lru,store_threshold=0".parse(), Ok(OffloadOptions::default()));
        for (text, part) in [
            ("", "is no option"),
            ("policy", "expected policy=lru or policy=arc"),
            ("policy=fifo", "expected policy=lru or policy=arc"),
            ("store_threshold=-1", "expected store_threshold=0 to 65536"),
            ("store_threshold=2x", "expected store_threshold=0 to 65536"),
            ("blocks_per_chunk=0", "expected blocks_per_chunk=1 to 65536"),
            ("policy=arc,policy=arc", "given twice"),
            ("policy=arc,", "is no option"),
            ("tracker=9", "is no option"),
        ] {
            let error = text.parse::<OffloadOptions>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
