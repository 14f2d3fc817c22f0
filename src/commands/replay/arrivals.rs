//! When the requests of a trace came, and in which order they were taken.

use crate::present::words::{elapsed, moment};
use kvset_formats::trace::{TimeFacts, TraceClock};
use serde::Serialize;

/// The order that requests were taken in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrderResult {
    /// `arrival`; `session`: whole sessions in the order of the trace, whose requests are in the order of arrival;
    /// `trace`: nothing says when requests came.
    pub by: &'static str,
    /// Requests that stand in the trace behind ones that came later.
    pub reordered_requests: u64,
    /// By how much at most, in milliseconds.
    pub backwards_ms: u64,
    /// By how much those stand behind that a log which is written when requests end does not explain.
    pub unexplained_ms: u64,
}

/// When the requests came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimesResult {
    /// What times count from: `epoch`, `start` (of the trace), `sessions` (each from its own), `mixed`.
    pub clock: &'static str,
    /// The first and the last arrival, in milliseconds.
    pub first_ms: i64,
    pub last_ms: i64,
    /// Both as dates in UTC, where times count from the epoch.
    pub first: Option<String>,
    pub last: Option<String>,
    /// From the first to the last.
    pub span_ms: i64,
    /// How the trace writes them, the most common way first.
    pub written: Vec<String>,
}

impl OrderResult {
    pub(super) fn of(times: &TimeFacts) -> Self {
        let ms = |backwards: &Option<kvset_formats::trace::Backwards>| {
            backwards.as_ref().map_or(0, |found| u64::try_from(found.by.as_millis()).unwrap_or(u64::MAX))
        };
        Self {
            by: match times.clock {
                None => "trace",
                Some(TraceClock::Sessions) => "session",
                Some(_) => "arrival",
            },
            reordered_requests: times.backwards,
            backwards_ms: ms(&times.farthest),
            unexplained_ms: ms(&times.unexplained),
        }
    }

    /// The order in words.
    pub(super) fn words(&self) -> String {
        match (self.by, self.reordered_requests) {
            ("session", _) => "whole sessions, as the trace has them".to_owned(),
            ("trace", _) => "of the trace, which has no times".to_owned(),
            (_, 0) => "of arrival, as the trace has it".to_owned(),
            (_, count) => format!("of arrival; the trace has {count} requests behind later ones"),
        }
    }
}

impl TimesResult {
    /// `None` where no row says when its request came.
    pub(super) fn of(times: &TimeFacts) -> Option<Self> {
        let ((first, last), clock) = (times.span?, times.clock?);
        let is_dated = clock == TraceClock::Epoch;
        let mut written: Vec<_> = times.forms.iter().collect();
        written.sort_by_key(|(form, count)| (std::cmp::Reverse(**count), **form));
        Some(Self {
            clock: match clock {
                TraceClock::Epoch => "epoch",
                TraceClock::Start => "start",
                TraceClock::Sessions => "sessions",
                TraceClock::Mixed => "mixed",
            },
            first_ms: first.ms(),
            last_ms: last.ms(),
            first: is_dated.then(|| first.date()),
            last: is_dated.then(|| last.date()),
            span_ms: last.ms().saturating_sub(first.ms()),
            written: written.into_iter().map(|(form, _)| form.to_string()).collect(),
        })
    }

    /// The times in words.
    pub(super) fn words(&self) -> String {
        let (first, last, span) = (moment(self.first_ms), moment(self.last_ms), elapsed(self.span_ms));
        match self.clock {
            "sessions" => format!("{span}, sessions one after another"),
            _ => format!("{first} to {last}: {span}, written as {}", self.written.join(" and ")),
        }
    }
}
