//! What is known of a trace once it was read.

use super::options::Format;
use super::time_facts::TimeFacts;
use crate::census::FieldCensus;
use crate::record::repeats::RepeatFacts;
use std::collections::BTreeMap;

/// What a reader found out about a trace.
#[derive(Debug, Clone, Default)]
pub struct TraceFindings {
    /// The formats of its files, each once.
    pub formats: Vec<Format>,
    /// What had to be assumed about it.
    pub notes: Vec<String>,
    /// How many caches its rows name.
    pub replicas: u64,
    /// Requests that may be written more than once.
    pub repeats: RepeatFacts,
    /// Fields that could matter and were not read.
    pub fields: FieldCensus,
    /// What could change the answer by itself, in a few words: it is of other prompts, requests or caches than the
    /// engine's.
    pub doubt: Option<String>,
    /// What could change an answer of nothing to reuse: in a few words, and in a sentence.
    pub doubt_of_nothing: Option<(String, String)>,
    /// What was passed over, by the reason.
    pub passed_over: BTreeMap<&'static str, u64>,
    /// When its requests came.
    pub times: TimeFacts,
    /// Whether they came in the order of their times.
    pub is_in_order: bool,
}
