//! What a model's layers keep: groups of layers that share one pool of blocks.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most groups of a model.
pub const MAX_GROUPS: usize = 32;

/// What the layers of one group keep of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Every page.
    Full,
    /// The pages of the last so many tokens.
    Window(u32),
    /// One state, of the size of a page.
    Mamba,
}

/// Why a list of groups is none a cache can be modelled for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttentionError {
    /// A part is no group.
    #[error(
        "`{0}` is no group: expected `full`, `window:TOKENS` or `mamba`, with `COUNT*` before it where there are several"
    )]
    Group(String),
    /// Nothing holds the whole prompt.
    #[error(
        "no group is `full`: a model whose every layer forgets is not modelled; name the full group first"
    )]
    NoFull,
    /// Lookups of such a model go another way.
    #[error("the groups alongside `full` are of several kinds: windows of one size, or mamba, are modelled")]
    Mixed,
    /// Too many.
    #[error("{0} groups: at most {MAX_GROUPS}")]
    TooMany(usize),
}

/// The groups, in the order in which they take and give back blocks.
///
/// Written `full+5*window:1024`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Attention {
    groups: Vec<GroupKind>,
}

impl Default for Attention {
    /// Full attention alone.
    fn default() -> Self {
        Self { groups: vec![GroupKind::Full] }
    }
}

impl Attention {
    /// Groups in this order.
    ///
    /// # Errors
    /// [`AttentionError`] for groups that no cache is modelled for.
    pub fn new(groups: Vec<GroupKind>) -> Result<Self, AttentionError> {
        if groups.len() > MAX_GROUPS {
            return Err(AttentionError::TooMany(groups.len()));
        }
        if !groups.contains(&GroupKind::Full) {
            return Err(AttentionError::NoFull);
        }
        let mut others = groups.iter().filter(|kind| **kind != GroupKind::Full);
        if let Some(first) = others.next()
            && others.any(|kind| kind != first)
        {
            return Err(AttentionError::Mixed);
        }
        Ok(Self { groups })
    }

    /// The groups.
    pub fn groups(&self) -> &[GroupKind] {
        &self.groups
    }

    /// Whether every layer attends to the whole prompt: then the cache has one group, whose hits a stack tells.
    pub fn is_full(&self) -> bool {
        self.groups == [GroupKind::Full]
    }

    /// How many groups are full, and how many are not.
    pub fn counts(&self) -> (u64, u64) {
        let full = self.groups.iter().filter(|kind| **kind == GroupKind::Full).count();
        (full as u64, (self.groups.len() - full) as u64)
    }

    /// What the groups alongside the full ones keep; `None` where there are no others.
    pub fn other(&self) -> Option<GroupKind> {
        self.groups.iter().copied().find(|kind| *kind != GroupKind::Full)
    }
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.groups.chunk_by(|a, b| a == b).enumerate() {
            f.write_str(if index > 0 { "+" } else { "" })?;
            if run.len() > 1 {
                write!(f, "{}*", run.len())?;
            }
            match run[0] {
                GroupKind::Full => f.write_str("full")?,
                GroupKind::Window(tokens) => write!(f, "window:{tokens}")?,
                GroupKind::Mamba => f.write_str("mamba")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Attention {
    type Err = AttentionError;

    fn from_str(text: &str) -> Result<Self, AttentionError> {
        let mut groups = Vec::new();
        for part in text.split('+') {
            let unknown = || AttentionError::Group(part.chars().take(40).collect());
            let (count, name) = match part.split_once('*') {
                Some((count, name)) => (count.trim().parse::<usize>().map_err(|_| unknown())?, name),
                None => (1, part),
            };
            let kind = kind(name.trim()).filter(|_| count > 0).ok_or_else(unknown)?;
            if count > MAX_GROUPS {
                return Err(AttentionError::TooMany(count));
            }
            groups.extend(std::iter::repeat_n(kind, count));
        }
        Self::new(groups)
    }
}

fn kind(name: &str) -> Option<GroupKind> {
    match name {
        "full" => Some(GroupKind::Full),
        "mamba" => Some(GroupKind::Mamba),
        // A window of one token keeps nothing that a lookup could ask for.
        _ => name.strip_prefix("window:")?.parse().ok().filter(|tokens| *tokens > 1).map(GroupKind::Window),
    }
}

impl From<Attention> for String {
    fn from(attention: Attention) -> String {
        attention.to_string()
    }
}

impl TryFrom<String> for Attention {
    type Error = AttentionError;

    fn try_from(text: String) -> Result<Self, AttentionError> {
        text.parse()
    }
}

/// Which pages of windows and states keep their names once their block is free
/// (vLLM's `prefix_cache_retention_interval`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum BlockRetention {
    /// Those at the prompt's end and at a junction with an earlier prompt (0, the default).
    #[default]
    Ends,
    /// All of them (`none`).
    All,
    /// Those at the ends, and at each multiple of so many tokens.
    Every(u32),
}

impl fmt::Display for BlockRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends => f.write_str("0"),
            Self::All => f.write_str("none"),
            Self::Every(tokens) => write!(f, "{tokens}"),
        }
    }
}

impl FromStr for BlockRetention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no retention interval: expected `none`, 0 or a number of tokens");
        match text {
            "none" => Ok(Self::All),
            _ => match text.parse().map_err(|_| wrong())? {
                0 => Ok(Self::Ends),
                tokens => Ok(Self::Every(tokens)),
            },
        }
    }
}

impl From<BlockRetention> for String {
    fn from(retention: BlockRetention) -> String {
        retention.to_string()
    }
}

impl TryFrom<String> for BlockRetention {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_written_as_they_are_read() {
        for text in ["full", "full+window:128", "full+5*window:1024", "full+3*mamba", "2*full+mamba"] {
            assert_eq!(text.parse::<Attention>().map(|read| read.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("full + 2*mamba".parse::<Attention>().map(|read| read.groups().len()), Ok(3));
        for (text, part) in [
            ("", "`` is no group"),
            ("full+0*mamba", "`0*mamba` is no group"),
            ("full+window:1", "`window:1` is no group"),
            ("full+window", "is no group"),
            ("window:128", "no group is `full`"),
            ("full+mamba+window:16", "several kinds"),
            ("full+window:16+window:32", "several kinds"),
            ("full+99*mamba", "99 groups: at most 32"),
            ("full+31*mamba+mamba", "33 groups"),
        ] {
            let error = text.parse::<Attention>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn retention_is_written_as_vllm_writes_it() {
        for (text, retention) in
            [("none", BlockRetention::All), ("0", BlockRetention::Ends), ("64", BlockRetention::Every(64))]
        {
            assert_eq!((text.parse(), retention.to_string()), (Ok(retention), text.to_owned()));
        }
        assert!("-1".parse::<BlockRetention>().is_err_and(|error| error.contains("no retention interval")));
    }
}
