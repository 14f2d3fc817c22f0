//! `kvset doctor`: what a log can tell of the cache that it needs, and what it cannot.
//!
//! The log is replayed as `kvset replay` replays it. What the reader, the pools and the ledger of rows found on the
//! way, and a [`Census`] of the rows, become one [`Finding`] on each [`Subject`].

mod census;
mod finding;
mod names;
mod pages;
mod repeats;
mod rows;
mod times;

pub use census::{Census, NameCounts};
pub use finding::{Finding, FindingVerdict, Subject};

use crate::replay::{PoolReplay, ReplayError, ReplayOptions, mend_rows, replay_counted};
use kvset_formats::trace::{ReadProgress, Recording, TraceError};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is known of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Whether a replay of the log gives an answer.
    pub answer: bool,
    /// Why it does not.
    pub why_not: Option<String>,
    /// Requests that a pool took.
    pub requests: u64,
    /// One on each subject, in their order.
    pub findings: Vec<Finding>,
    /// What the reader had to assume about the log.
    pub notes: Vec<String>,
}

/// Records of a topic that are no rows, and where its rows lie.
#[derive(Debug, Default)]
pub struct TopicFacts {
    /// Records that could not be decoded, by the reason.
    pub undecodable: BTreeMap<String, u64>,
    /// What was read of the topic, in words.
    pub read: String,
}

/// What was found while the log was replayed.
pub(crate) struct LogEvidence<'a> {
    pub(crate) census: &'a Census,
    /// The pools of the log, or why there is no answer.
    pub(crate) pools: &'a Result<Vec<PoolReplay>, ReplayError>,
    pub(crate) topic: Option<&'a TopicFacts>,
    pub(crate) may_skip: bool,
}

impl LogEvidence<'_> {
    /// The pools, where there are some.
    pub(crate) fn pools(&self) -> &[PoolReplay] {
        self.pools.as_ref().map(Vec::as_slice).unwrap_or_default()
    }

    /// Records of a topic that are no rows.
    pub(crate) fn undecodable(&self) -> u64 {
        self.topic.map_or(0, |topic| topic.undecodable.values().sum())
    }

    /// Requests that a pool took.
    pub(crate) fn accepted(&self) -> u64 {
        self.pools().iter().map(|pool| pool.replay.requests).sum()
    }

    /// Why a replay gives no answer.
    fn why_not(&self) -> Option<String> {
        let rejected = self.census.ledger.rejected + self.undecodable();
        match self.pools {
            Err(error) => Some(error.to_string()),
            Ok(_) if self.accepted() == 0 => Some("no request was read".to_owned()),
            Ok(_) if rejected > 0 && !self.may_skip => {
                let rows = self.census.ledger.rows + self.undecodable();
                Some(format!("{rejected} of {rows} rows cannot be used: {}", mend_rows(rejected, rows)))
            }
            Ok(_) => None,
        }
    }
}

/// Replays a log, or the records of a topic in place of files, and says what it can tell. Rows that cannot be used are
/// always passed over here; whether a replay may pass over them is for the options to say.
///
/// # Errors
/// The log is not there, or what the options ask for cannot be had: that is no finding.
pub fn examine(
    options: &ReplayOptions,
    topic: Option<(&Recording, &TopicFacts)>,
    progress: &mut dyn FnMut(ReadProgress),
) -> Result<Diagnosis, ReplayError> {
    let may_skip = options.skip_bad_rows;
    let options = ReplayOptions { skip_bad_rows: true, ..options.clone() };
    let mut census = Census::default();
    let recording = topic.map(|(recording, _)| recording);
    let pools = replay_counted(&options, recording, &mut census, progress);
    if let Err(
        error @ (ReplayError::Trace(TraceError::Open { .. } | TraceError::NoPlaces { .. })
        | ReplayError::NoSuchPool { .. }),
    ) = pools
    {
        return Err(error);
    }
    let topic = topic.map(|(_, facts)| facts);
    Ok(Diagnosis::of(&LogEvidence { census: &census, pools: &pools, topic, may_skip }))
}

impl Diagnosis {
    fn of(evidence: &LogEvidence<'_>) -> Self {
        let why_not = evidence.why_not();
        let mut findings = vec![rows::usable(evidence), rows::format(evidence)];
        findings.extend(match evidence.census.requests {
            0 => OF_REQUESTS
                .map(|(subject, _)| subject.with([]).no("no request was read", "nothing can be reported")),
            _ => OF_REQUESTS.map(|(_, look)| look(evidence)),
        });
        Self {
            answer: why_not.is_none(),
            why_not,
            requests: evidence.accepted(),
            findings,
            notes: evidence.census.findings.notes.clone(),
        }
    }

    /// How many findings have this verdict.
    pub fn count(&self, verdict: FindingVerdict) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }
}

/// How a subject is looked at.
type Look = fn(&LogEvidence<'_>) -> Finding;

/// What can be known of requests, in the order in which it is shown, and who looks at it.
const OF_REQUESTS: [(Subject, Look); 16] = [
    (Subject::Models, names::models),
    (Subject::Ids, pages::ids),
    (Subject::PageSize, pages::size),
    (Subject::PromptTokens, pages::prompt_tokens),
    (Subject::CachedTokens, pages::cached_tokens),
    (Subject::Times, times::stated),
    (Subject::Durations, times::durations),
    (Subject::Order, times::order),
    (Subject::Gaps, times::gaps),
    (Subject::Duplicates, rows::duplicates),
    (Subject::Replicas, names::replicas),
    (Subject::Sessions, names::sessions),
    (Subject::Tenants, names::tenants),
    (Subject::Scopes, names::scopes),
    (Subject::Outputs, pages::outputs),
    (Subject::Fields, rows::fields),
];
