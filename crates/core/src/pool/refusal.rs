//! Why a pool turns a request or a snapshot away.

use crate::engines::hybrid::RulesError;
use crate::engines::one_pass::EngineRefusal;
use crate::estimate::config::PoolConfigError;
use crate::request::event::{ImpossibleNumber, PageCountMismatch};
use crate::request::id_scheme::IdScheme;
use crate::stack::ChainViolation;
use crate::units::PageSize;

/// Why a request was refused. The pool's stack and windows are as they were before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Neither the event nor the configuration nor an earlier event says how large a page is.
    #[error("the page size is unknown: neither the event nor the pool's configuration names one")]
    UnknownPageSize,
    /// Ids of pages of different sizes cannot be compared.
    #[error("the event has {found} tokens per page, its pool has {expected}")]
    PageSizeMismatch { expected: PageSize, found: PageSize },
    /// Ids of different schemes never match.
    #[error(
        "the event's page ids are of scheme {found}, its pool's of {expected}, and ids of two schemes never match: give each \
         scheme a pool of its own, or log both with one scheme"
    )]
    IdSchemeMismatch { expected: IdScheme, found: IdScheme },
    /// What names a scheme is no name.
    #[error("id_scheme is no name of 1 to {} visible ASCII characters", IdScheme::MAX_BYTES)]
    InvalidIdScheme,
    /// The engine cannot be modelled at this page size.
    #[error(transparent)]
    UnfitPage(#[from] RulesError),
    /// The request is larger than the configured limit.
    #[error("the request has {pages} pages: at most {limit} are accepted")]
    TooManyPages { pages: u64, limit: u32 },
    /// It says a number that no request has, or that more of its prompt came from a cache than it has.
    #[error(transparent)]
    Number(#[from] ImpossibleNumber),
    /// The ids cannot be those of the prompt's pages.
    #[error(transparent)]
    PageCountMismatch(#[from] PageCountMismatch),
    /// Equal ids stand under different prefixes, and the policy is to refuse such a request.
    #[error(transparent)]
    Chain(#[from] ChainViolation),
}

impl From<EngineRefusal> for Refusal {
    fn from(refusal: EngineRefusal) -> Self {
        match refusal {
            EngineRefusal::PageCount(mismatch) => Self::PageCountMismatch(mismatch),
            EngineRefusal::Chain(violation) => Self::Chain(violation),
        }
    }
}

impl Refusal {
    /// A short name out of a fixed set, for dead letters and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownPageSize => "unknown_page_size",
            Self::PageSizeMismatch { .. } => "page_size_mismatch",
            Self::IdSchemeMismatch { .. } | Self::InvalidIdScheme => "id_scheme_mismatch",
            Self::UnfitPage(_) => "invalid_page_size",
            Self::TooManyPages { .. } => "too_many_pages",
            Self::Number(ImpossibleNumber::OutOfBounds { .. }) => "invalid_number",
            Self::Number(ImpossibleNumber::CachedTokens { .. }) => "invalid_cached_tokens",
            Self::PageCountMismatch(_) => "page_count_mismatch",
            Self::Chain(_) => "chain_violation",
        }
    }
}

/// Why a pool cannot go on from a snapshot.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] PoolConfigError),
    /// State is never reinterpreted under another configuration.
    #[error(
        "the pool's snapshot was made under configuration {found}, not {expected}: rebuild it from the log"
    )]
    Fingerprint { expected: String, found: String },
    /// The counts do not fit together.
    #[error(
        "the counts in the pool's snapshot do not fit together, or not its configuration: rebuild it from the log"
    )]
    Inconsistent,
}
