//! One thing that a log can tell, in part, or not at all.

use serde::Serialize;
use std::collections::BTreeMap;

/// Whether the log can tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingVerdict {
    /// It can.
    Yes,
    /// It can of some requests, or less exactly.
    Partly,
    /// It cannot.
    No,
}

impl FindingVerdict {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::No => "no",
        }
    }

    /// Yes where it holds of all, no where of none.
    pub const fn of_part(part: u64, all: u64) -> Self {
        match part {
            0 => Self::No,
            _ if part >= all => Self::Yes,
            _ => Self::Partly,
        }
    }
}

/// What is looked at, in the order in which it is shown. Every diagnosis has a finding on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Whether rows can be read and used.
    Rows,
    /// What kind of log it is.
    Format,
    /// Which models it is of, each a pool.
    Models,
    /// What page ids stand for.
    Ids,
    /// Tokens of a page.
    PageSize,
    /// Tokens of prompts.
    PromptTokens,
    /// What the engine's cache found.
    CachedTokens,
    /// When requests came.
    Times,
    /// How long they took.
    Durations,
    /// The order of the rows.
    Order,
    /// Times without a request.
    Gaps,
    /// Rows that say the same.
    Duplicates,
    /// Which cache served.
    Replicas,
    /// Which requests are of one conversation.
    Sessions,
    /// On whose behalf.
    Tenants,
    /// What keeps equal prompts apart: salts, adapters.
    Scopes,
    /// What was generated.
    Outputs,
    /// What else rows say, and nobody reads.
    Fields,
}

impl Subject {
    /// What is found on it, whose evidence has these figures.
    pub fn with(self, numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Examined {
        Examined { subject: self, numbers: numbers.into_iter().collect() }
    }

    /// The name for people and for scripts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Format => "format",
            Self::Models => "models",
            Self::Ids => "ids",
            Self::PageSize => "page_size",
            Self::PromptTokens => "prompt_tokens",
            Self::CachedTokens => "cached_tokens",
            Self::Times => "times",
            Self::Durations => "durations",
            Self::Order => "order",
            Self::Gaps => "gaps",
            Self::Duplicates => "duplicates",
            Self::Replicas => "replicas",
            Self::Sessions => "sessions",
            Self::Tenants => "tenants",
            Self::Scopes => "scopes",
            Self::Outputs => "outputs",
            Self::Fields => "fields",
        }
    }
}

/// What was found on a subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub subject: Subject,
    pub verdict: FindingVerdict,
    /// What in the log says so, with its figures in words.
    pub evidence: String,
    /// What follows for the answer of a replay or of the service.
    pub meaning: String,
    /// What to do; nothing where nothing is amiss.
    pub cure: Option<String>,
    /// The figures of the evidence by name.
    pub numbers: BTreeMap<&'static str, u64>,
}

/// A subject with the figures of its evidence, on which the verdict is open.
#[derive(Debug, Clone)]
pub struct Examined {
    subject: Subject,
    numbers: BTreeMap<&'static str, u64>,
}

impl Examined {
    /// The log can tell it.
    pub fn yes(&self, evidence: impl Into<String>, meaning: impl Into<String>) -> Finding {
        self.finding(FindingVerdict::Yes, evidence, meaning)
    }

    /// It can in part.
    pub fn partly(&self, evidence: impl Into<String>, meaning: impl Into<String>) -> Finding {
        self.finding(FindingVerdict::Partly, evidence, meaning)
    }

    /// It cannot.
    pub fn no(&self, evidence: impl Into<String>, meaning: impl Into<String>) -> Finding {
        self.finding(FindingVerdict::No, evidence, meaning)
    }

    /// A finding without a cure.
    pub fn finding(
        &self,
        verdict: FindingVerdict,
        evidence: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Finding {
        let Self { subject, numbers } = self.clone();
        Finding { subject, verdict, evidence: evidence.into(), meaning: meaning.into(), cure: None, numbers }
    }
}

impl Finding {
    /// Says what follows from it.
    #[must_use]
    pub fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn cured_by(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }

    /// Adds further figures.
    #[must_use]
    pub fn with(mut self, numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        self.numbers.extend(numbers);
        self
    }
}
