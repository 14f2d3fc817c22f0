//! What is known of the times of a trace, and what of it is said.

use super::options::RowOrder;
use crate::time::{Moment, NumberUnit, TimeForm, words};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known of the times of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeFacts {
    /// The first and the last arrival.
    pub span: Option<(Moment, Moment)>,
    /// What moments count from; none where no row states one.
    pub clock: Option<TraceClock>,
    /// How moments are written, and of how many requests.
    pub forms: BTreeMap<TimeForm, u64>,
    /// Requests of which the log states when they were answered, and not how long that took.
    pub ends_alone: u64,
    /// Numbers with fractions among those that were read as milliseconds from the start.
    pub fractions: u64,
    /// Requests that came before one that stands before them in the trace.
    pub backwards: u64,
    /// The farthest that one did, where it stands, and whether a log that is written when requests end explains that.
    pub farthest: Option<Backwards>,
    /// The farthest that one came before another of its own file which such a log does not explain.
    pub unexplained: Option<Backwards>,
    /// How often the clock of a file begins anew, and the first time that it does.
    pub restarts: u64,
    pub restart: Option<Backwards>,
    /// Files that are newest first from end to end.
    pub newest_first: u64,
    /// Of conversations without times, requests with a longer prompt than the one before, and with a shorter one.
    pub growing: u64,
    pub shrinking: u64,
    /// What the order of a trace without times is that of, where it is none in which requests came.
    pub disorder: Option<String>,
    /// Whether a file has requests that came before those of files before it, as files of one time have.
    pub files_overlap: bool,
    /// Later requests of sessions that state how long they took; those that came before the answer before them had
    /// ended, and those of which that holds where times are of their ends.
    pub timed_turns: u64,
    pub asked_early: u64,
    pub asked_early_by_ends: u64,
    /// Later requests of sessions that begin with the page that their session began with, and those that do not.
    pub same_start: u64,
    pub other_start: u64,
    /// Requests that say how long they took, and how long all of them took together, in milliseconds.
    pub lasting: u64,
    pub lasted_ms: u64,
    /// Requests that state how long they took and how many tokens their answers have, and both in all.
    pub timed_answers: u64,
    pub answer_tokens: u64,
    pub answer_ms: u64,
    /// Requests that were answered before they came, as the log has it.
    pub ended_before: u64,
    /// Sessions that were placed one after another.
    pub placed_sessions: u64,
    /// Files with a clock of their own that were placed behind the files before them.
    pub placed_files: u64,
}

/// How far a log that is written when requests end may run backwards beyond that: writers buffer, and clocks differ.
pub(super) const SLACK: Duration = Duration::from_secs(5);

/// Most times that a clock begins anew in a file: one that falls more often is of another order.
const MOST_RESTARTS: u64 = 7;

/// Durations on average from which on another unit is likelier, where the log is shorter than they are.
const LONG_ON_AVERAGE_MS: u64 = 600_000;

/// Fewest durations that are told.
const FEWEST_DURATIONS: u64 = 10;

impl TimeFacts {
    /// In a few words, what of the times could change the answer by itself.
    pub fn doubt(&self) -> Option<String> {
        if let Some(found) = self.disorder() {
            return Some(format!("{found}, and no row says when its request came"));
        }
        let anew = self.begins_anew().is_some() && self.clock != Some(TraceClock::Epoch);
        if let Some(found) =
            self.shrink().or(anew.then(|| "the clock of a file begins anew within it".to_owned()))
        {
            return Some(found);
        }
        self.long_requests()
    }

    /// In a few words, that requests took longer than the whole log, as they do in another unit.
    fn long_requests(&self) -> Option<String> {
        let (first, last) = self.span?;
        let (span, mean_ms) = (last.since(first), self.lasted_ms.checked_div(self.lasting)?);
        let are_long = self.lasting >= FEWEST_DURATIONS && mean_ms >= LONG_ON_AVERAGE_MS;
        let mean = Duration::from_millis(mean_ms);
        (are_long && mean > span).then(|| {
            format!("requests took {} on average, longer than the log of {}", words(mean), words(span))
        })
    }

    /// That sessions ask again before they were answered, and would not where times are those of ends.
    fn are_of_ends(&self) -> Option<String> {
        const FEWEST: u64 = 3;
        let Self { timed_turns, asked_early, asked_early_by_ends, .. } = *self;
        let are_early = asked_early >= FEWEST && asked_early * 10 >= timed_turns;
        (are_early && asked_early_by_ends * 20 <= asked_early).then(|| {
            format!(
                "{asked_early} of {timed_turns} later requests of sessions came before the one before was answered, and \
                 none where times are of when requests ended: the log seems to state that; write when each came as \
                 `start_time`, or its end as `end_time`"
            )
        })
    }

    /// Where the clock of a file begins anew, where it does so a few times.
    pub fn begins_anew(&self) -> Option<&Backwards> {
        self.restart.as_ref().filter(|_| self.restarts <= MOST_RESTARTS)
    }

    /// The same in a sentence.
    fn sentence_of_restarts(&self) -> Option<String> {
        let Backwards { by, file, line } = self.begins_anew()?;
        let times = if self.restarts == 1 { String::new() } else { format!(" {} times", self.restarts) };
        let means = match self.clock {
            Some(TraceClock::Epoch) => {
                "where two logs were joined, their requests are of one time, as they were taken; where a clock was set back, \
                 write the true times"
            }
            _ => {
                "the requests of several runs were taken as of one time; give each run as a file of its own, in their order"
            }
        };
        Some(format!("times begin anew{times} at {file}, line {line}, {} back: {means}", words(*by)))
    }

    /// In a few words, what the order is that of, where no row states a moment and it is none in which requests came.
    pub fn disorder(&self) -> Option<&str> {
        self.disorder.as_deref().filter(|_| self.clock.is_none())
    }

    /// In a few words, that conversations without times get shorter, as in a file that is newest first.
    fn shrink(&self) -> Option<String> {
        const FEWEST: u64 = 3;
        let Self { growing, shrinking, .. } = *self;
        let is_told = self.clock.is_none() && self.disorder.is_none();
        (is_told && shrinking >= FEWEST && shrinking >= growing * 9).then(|| {
            format!(
                "{shrinking} of {} later prompts of conversations are shorter than the one before",
                growing + shrinking
            )
        })
    }

    /// What of the times cannot be, or hardly, as of times in another unit or of something else.
    fn implausible(&self) -> Vec<String> {
        let own =
            [self.far_apart(), self.at_once(), self.may_be_seconds(), self.too_short(), self.of_speed()];
        own.into_iter().chain([self.ended_early()]).flatten().collect()
    }

    /// How long the log is, where its moments are of one clock.
    fn length(&self) -> Option<Duration> {
        let is_one_clock = matches!(self.clock, Some(TraceClock::Epoch | TraceClock::Start));
        self.span.filter(|_| is_one_clock).map(|(first, last)| last.since(first))
    }

    fn far_apart(&self) -> Option<String> {
        const LONG: Duration = Duration::from_secs(366 * 24 * 3600);
        let length = self.length().filter(|length| *length > LONG)?;
        Some(format!(
            "the log is {} long, longer than logs are: its times may be in another unit; --time-unit names the unit of \
             times that are numbers",
            words(length)
        ))
    }

    /// That all requests came within a second, as in a wrong unit, or at the time when a log was written.
    fn at_once(&self) -> Option<String> {
        const SHORT: Duration = Duration::from_secs(1);
        const FEWEST: u64 = 20;
        let requests: u64 = self.forms.values().sum();
        let length = self.length().filter(|length| *length < SHORT && requests >= FEWEST)?;
        let within =
            if length.is_zero() { "at one time".to_owned() } else { format!("within {}", words(length)) };
        Some(format!(
            "all {requests} requests came {within}: their times may be in another unit, or say when the log was written; \
             windows, lifetimes and rates mean nothing then. --time-unit names the unit of times that are numbers; else \
             log when each request arrived"
        ))
    }

    /// That milliseconds from the start may be seconds: they have fractions, or more requests came than services get.
    fn may_be_seconds(&self) -> Option<String> {
        const FEWEST: u64 = 20;
        const MOST_A_SECOND: u128 = 200;
        const FAR_APART_MS: u128 = 3000;
        let are_ms = self.forms.contains_key(&TimeForm::Number(NumberUnit::Milliseconds));
        let requests: u64 = self.forms.values().sum();
        let is_start = self.clock == Some(TraceClock::Start) && are_ms && requests >= FEWEST;
        let length = self.length().filter(|_| is_start && self.at_once().is_none())?;
        let (ms, count) = (length.as_millis(), u128::from(requests));
        let have_fractions = self.fractions * 2 >= requests && ms < count * FAR_APART_MS;
        (have_fractions || count * 1000 > ms * MOST_A_SECOND).then(|| {
            format!(
                "{requests} requests came within {}, as their times are numbers from a start and were read as milliseconds: \
                 they may be seconds; --time-unit s reads them so",
                words(length)
            )
        })
    }

    fn too_short(&self) -> Option<String> {
        const SHORTEST_MS: u64 = 5;
        let mean_ms =
            self.lasted_ms.checked_div(self.lasting).filter(|_| self.lasting >= FEWEST_DURATIONS)?;
        (self.lasted_ms > 0 && mean_ms < SHORTEST_MS).then(|| {
            format!(
                "requests took {mean_ms} ms on average, less than an engine takes for one token: their durations may be \
                 in seconds; write `duration_ms` in milliseconds"
            )
        })
    }

    /// That answers had more tokens in a second than any engine makes of one, or hardly any.
    fn of_speed(&self) -> Option<String> {
        const FASTEST: u64 = 10_000;
        const SLOWEST_MS: u64 = 100_000;
        let Self { answer_tokens, answer_ms, .. } = *self;
        let is_fast = answer_tokens.saturating_mul(1000) > answer_ms.saturating_mul(FASTEST);
        let is_slow = answer_ms > answer_tokens.saturating_mul(SLOWEST_MS);
        let is_told = self.timed_answers >= FEWEST_DURATIONS && answer_tokens > 0 && answer_ms > 0;
        (is_told && (is_fast || is_slow) && self.too_short().is_none()).then(|| {
            format!(
                "answers had {:.3} tokens in a second of their requests on average, which no engine has: their durations \
                 may be in another unit; write `duration_ms` in milliseconds",
                answer_tokens as f64 * 1000.0 / answer_ms as f64
            )
        })
    }

    fn ended_early(&self) -> Option<String> {
        const ONE_IN: u64 = 20;
        (self.ended_before > 0 && self.ended_before * ONE_IN >= self.forms.values().sum()).then(|| {
            format!(
                "{} requests were answered before they came, by the times of the log, so nothing says how long they took: \
                 its clocks differ, or its fields are exchanged; write `duration_ms` in milliseconds",
                self.ended_before
            )
        })
    }

    /// What is to be said of the times of a trace, and of the order that its requests are handed out in.
    pub fn notes(&self, order: RowOrder) -> Vec<String> {
        let mut notes = Vec::new();
        if self.placed_files > 0 {
            notes.push(format!(
                "{} files count their times from their own start: each was placed behind the files before it",
                self.placed_files
            ));
        }
        if let Some(farthest) = &self.farthest {
            let taken = match order {
                RowOrder::Written => "requests were taken in the order of the trace all the same",
                RowOrder::Arrival | RowOrder::Expected => "requests were taken in the order of arrival",
            };
            notes.push(format!(
                "{} requests stand in the trace behind ones that came later, by up to {}: {taken}",
                self.backwards,
                words(farthest.by)
            ));
        }
        let of_restarts = self.sentence_of_restarts();
        if let Some(unexplained) = self.unexplained.as_ref().filter(|_| of_restarts.is_none()) {
            notes.push(format!(
                "times run backwards by {} at {}, line {}, which a log that is written when requests end does not explain: it \
                 is newest first, several logs in one, or of clocks that differ",
                words(unexplained.by),
                unexplained.file,
                unexplained.line
            ));
        }
        notes.extend(of_restarts);
        if self.newest_first > 0 && order != RowOrder::Written {
            let files = if self.newest_first == 1 { "a file is" } else { "files are" };
            notes.push(format!(
                "{files} newest first from end to end: requests were taken the other way round, those of one time, too"
            ));
        }
        notes.extend(self.disorder().map(|found| {
            format!(
                "{found}, and no row says when its request came: no cache sees requests in such an order, so hits and \
                 capacities are of another traffic; log `timestamp`, or put the rows in the order in which requests came"
            )
        }));
        notes.extend(self.shrink().map(|found| {
            format!(
                "{found}, and no row says when its request came: such a file is newest first, and its hits are those of \
                 the way back; turn it round with `tac`, or log `timestamp`"
            )
        }));
        notes.extend(self.are_of_ends());
        if self.ends_alone > 0 {
            notes.push(format!(
                "{} requests state when they were answered, and neither when they came nor how long they took: they were taken \
                 to have come then",
                self.ends_alone
            ));
        }
        if let Some(count) = self.forms.get(&TimeForm::DateWithoutZone) {
            notes.push(format!("{count} times have no zone and were read as UTC"));
        }
        notes.extend(self.implausible());
        notes.extend(self.long_requests().map(|found| {
            format!(
                "{found}: their durations may be written in another unit; write `duration_ms` in milliseconds"
            )
        }));
        if self.forms.len() > 1 {
            let forms: Vec<_> = self.forms.iter().map(|(form, count)| format!("{count} {form}")).collect();
            notes.push(format!("times are written in several ways: {}", forms.join(", ")));
        }
        notes
    }
}

/// What the moments of a trace count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceClock {
    /// The Unix epoch.
    Epoch,
    /// The trace's start.
    Start,
    /// Each session's own start.
    Sessions,
    /// Several of these: what does not compare was placed one after another.
    Mixed,
}

/// A request that came before one that stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backwards {
    /// How long before.
    pub by: Duration,
    /// Its file and line.
    pub file: Arc<str>,
    pub line: u64,
}
