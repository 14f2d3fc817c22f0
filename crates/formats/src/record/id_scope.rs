//! What page ids are unique within.

use std::fmt;
use std::str::FromStr;

/// What the page ids of a trace are unique within.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IdScope {
    /// What the trace declares (weka's `hash_id_scope: local` is the session) and what its rows keep apart
    /// ([`crate::identity`]), else the whole trace.
    #[default]
    Auto,
    /// The whole trace.
    Global,
    /// The session.
    Session,
    /// Requests with the same value of the named field: a top-level string or integer of the row, or
    /// of the session it is part of.
    Field(String),
}

impl IdScope {
    /// The field that scopes ids, where one is named.
    pub(crate) fn field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name.as_str()),
            Self::Auto | Self::Global | Self::Session => None,
        }
    }

    /// Whether each model is a pool of its own: neither told to share nor to be scopes of one pool.
    pub(crate) fn keeps_pools_apart(&self) -> bool {
        match self {
            Self::Auto | Self::Session => true,
            Self::Global => false,
            Self::Field(name) => !["model", "pool"].contains(&name.as_str()),
        }
    }
}

impl fmt::Display for IdScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Global => f.pad("global"),
            Self::Session => f.pad("session"),
            Self::Field(name) => write!(f, "field:{name}"),
        }
    }
}

impl FromStr for IdScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("field:")) {
            ("auto", _) => Ok(Self::Auto),
            ("global", _) => Ok(Self::Global),
            ("session", _) => Ok(Self::Session),
            (_, Some(name)) if !name.is_empty() => Ok(Self::Field(name.to_owned())),
            _ => Err(format!("unknown id scope `{text}`: expected auto, global, session or field:NAME")),
        }
    }
}
