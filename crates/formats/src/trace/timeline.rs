//! When each request came, on one time line for all files of a trace.
//!
//! A row states a moment, or how long after the answer before it of its session it came, or nothing. What it states
//! counts from the Unix epoch, from its file's start, or from its session's. Everything that needs the rows before it
//! is done here, in the order of the files: [`TraceTimeline::place`] gives each request its moment and notes where
//! moments run backwards.

use super::options::RowOrder;
use super::order_evidence::OrderEvidence;
use crate::record::fault::RowFault;
use crate::record::row::{Draft, RowBatch, StatedTimes};
use crate::time::{Moment, NumberUnit, TimeBase, TimeForm, words};
use kvset_core::units::pages::Scope;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Most sessions whose last answer is remembered.
const MAX_SESSIONS: usize = 1 << 20;

/// How far a log that is written when requests end may run backwards beyond that: writers buffer, and clocks differ.
const SLACK: Duration = Duration::from_secs(5);
/// The same where the log says of no request how long it took.
const LONGEST_REQUEST: Duration = Duration::from_secs(3600);

/// Times of the requests read so far.
#[derive(Debug, Default)]
pub(super) struct TraceTimeline {
    /// The latest moment, and the latest end, so far.
    latest: Option<Moment>,
    latest_end: Moment,
    /// When the request before came, and when it was answered.
    before: (Moment, Moment),
    file: FileClock,
    /// When the last answer of a session was complete, and the first page of its first prompt that has one.
    sessions: HashMap<Scope, (Moment, Option<u64>)>,
    /// When the last request of a session that says how long it took came.
    asked: HashMap<Scope, Moment>,
    /// Tokens of the last prompt of a conversation, where rows state no time.
    lengths: HashMap<u64, u64>,
    /// What the order of rows without times is that of.
    order: OrderEvidence,
    /// Whether the first rows of a file state no moment, while later ones state dates.
    is_stated_late: bool,
    facts: TimeFacts,
}

/// How the moments of a file go on from row to row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OrderOfFile {
    latest: Option<Moment>,
    rises: u64,
    falls: u64,
}

impl OrderOfFile {
    /// Notes the next moment.
    pub fn note(&mut self, moment: Moment) {
        let before = self.latest.replace(moment);
        self.rises += u64::from(before.is_some_and(|before| moment > before));
        self.falls += u64::from(before.is_some_and(|before| moment < before));
    }

    /// Whether the file is newest first from end to end, as far as it was read.
    pub fn falls(&self) -> bool {
        const FEWEST: u64 = 2;
        self.rises == 0 && self.falls >= FEWEST
    }
}

/// Fewest rows before a clock began anew, and behind that.
const FEWEST_OF_A_RUN: u64 = 8;
/// Most times that a clock begins anew in a file: one that falls more often is of another order.
const MOST_RESTARTS: u64 = 7;

/// Rows of a file whose moments go on from one to the next, but for what is written late.
#[derive(Debug, Clone, Copy)]
struct ClockRun {
    first: Moment,
    latest: Moment,
    rows: u64,
    /// The latest moment of the run before, how far before it this one began, and in which line.
    behind: Option<(Moment, Duration, u64)>,
    /// Rows before that moment.
    below: u64,
}

impl ClockRun {
    fn new(first: Moment, behind: Option<(Moment, Duration, u64)>) -> Self {
        Self { first, latest: first, rows: 1, behind, below: u64::from(behind.is_some()) }
    }

    /// Takes the next row in; gives how far back a clock was set, and where, once that is sure. `is_late`: the row is
    /// one of a request that took as long.
    fn note(&mut self, moment: Moment, line: u64, is_late: bool) -> Option<(Duration, u64)> {
        let (by, span) = (self.latest.since(moment), self.latest.since(self.first));
        if by > SLACK && by * 2 >= span && !is_late {
            let is_long = self.rows >= FEWEST_OF_A_RUN;
            *self = Self::new(moment, is_long.then_some((self.latest, by, line)));
            return None;
        }
        (self.rows, self.latest) = (self.rows + 1, self.latest.max(moment));
        let (_, by, line) = self.behind.filter(|(before, ..)| moment < *before)?;
        self.below += 1;
        (self.below == FEWEST_OF_A_RUN).then_some((by, line))
    }
}

/// What the rows of the file at hand count from.
#[derive(Debug, Default)]
struct FileClock {
    name: Arc<str>,
    clock: Option<TimeBase>,
    /// The file's first moment, and where it was placed, where files before it end later.
    placed: Option<(Moment, Moment)>,
    /// Requests before the first with a moment.
    unstated: u64,
    /// The latest moment in it, and the latest end, so far.
    latest: Option<Moment>,
    latest_end: Moment,
    order: OrderOfFile,
    /// The run at hand.
    run: Option<ClockRun>,
}

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

impl TraceTimeline {
    /// Goes to the next file.
    pub fn begin_file(&mut self, name: &Arc<str>) {
        self.file = FileClock { name: Arc::clone(name), ..FileClock::default() };
    }

    /// What was found out.
    pub fn facts(&self) -> &TimeFacts {
        &self.facts
    }

    /// Whether requests came in the order of the trace, and all that state no moment behind one that does.
    pub fn is_in_order(&self) -> bool {
        self.facts.backwards == 0 && !self.is_stated_late
    }

    /// Whether the moments of the file at hand compare with those of the file before it and of the one behind it.
    pub fn compares(&self) -> bool {
        self.facts.clock == Some(TraceClock::Epoch)
    }

    /// Whether a row of the file has stated a moment.
    pub fn is_stated(&self) -> bool {
        self.file.clock.is_some()
    }

    /// Gives the requests of `batch` their moments. One that has none, or none that can be its, is refused; returns
    /// whether all were kept.
    pub fn place(&mut self, batch: &mut RowBatch) -> bool {
        let mut refused = Vec::new();
        let sessions = std::mem::take(&mut batch.sessions);
        let mut next_session = sessions.iter();
        let mut session = next_session.next();
        let mut at = 0;
        loop {
            if let Some(range) = session.filter(|range| range.start == at) {
                self.place_session(&mut batch.drafts[range.clone()]);
                at = range.end;
                session = next_session.next();
                continue;
            }
            if at == batch.drafts.len() {
                break;
            }
            let name = batch.drafts[at].session.clone();
            let name = name.map(|name| Scope::named(batch.text[name].as_bytes()));
            let first_page = batch.ids.get(batch.drafts[at].ids.start).copied();
            let first_page = first_page.filter(|_| !batch.drafts[at].ids.is_empty());
            if let Err(fault) = self.place_request(&mut batch.drafts[at], name, first_page) {
                refused.push((at, fault));
            }
            let draft = &batch.drafts[at];
            if draft.when == StatedTimes::Unstated && self.facts.clock.is_none() && !draft.ids.is_empty() {
                self.order.note(draft, batch, name);
                self.facts.disorder = self.order.told();
            }
            at += 1;
        }
        batch.sessions = sessions;
        batch.sessions.clear();
        let all_kept = refused.is_empty();
        batch.refuse(refused);
        all_kept
    }

    fn place_request(
        &mut self,
        draft: &mut Draft,
        session: Option<Scope>,
        first_page: Option<u64>,
    ) -> Result<(), RowFault> {
        let moment = match draft.when {
            StatedTimes::At { clock, form } => {
                let moment = self.of_file(draft.moment, clock)?;
                *self.facts.forms.entry(form).or_default() += 1;
                self.facts.fractions += u64::from(is_start_ms(clock, form) && draft.moment.has_fraction());
                self.facts.ends_alone += u64::from(draft.is_end);
                moment
            }
            StatedTimes::AfterAnswer(delay) => {
                self.note_clock(TraceClock::Start);
                let answered = match session {
                    Some(session) => self.sessions.get(&session).map(|(answered, _)| *answered),
                    None => Some(self.before.1),
                };
                // Nothing says when a session began.
                self.facts.placed_sessions += u64::from(answered.is_none());
                answered.map_or(self.latest_end, |answered| answered.after(delay))
            }
            StatedTimes::Unstated => {
                self.file.unstated += u64::from(self.file.clock.is_none());
                self.before.0
            }
        };
        draft.moment = moment;
        let end = moment.after(Duration::from_millis(draft.duration_ms.unwrap_or(0)));
        self.facts.lasting += u64::from(draft.duration_ms.is_some());
        self.facts.ended_before += u64::from(draft.is_backward);
        if let Some((tokens, ms)) = draft.output_tokens.zip(draft.duration_ms) {
            self.facts.timed_answers += 1;
            self.facts.answer_tokens = self.facts.answer_tokens.saturating_add(tokens);
            self.facts.answer_ms = self.facts.answer_ms.saturating_add(ms);
        }
        self.facts.lasted_ms = self.facts.lasted_ms.saturating_add(draft.duration_ms.unwrap_or(0));
        match draft.when {
            StatedTimes::Unstated => self.note_length(draft, session),
            StatedTimes::At { .. } => self.note_direction(moment),
            StatedTimes::AfterAnswer(_) => {}
        }
        if matches!(draft.when, StatedTimes::At { .. }) {
            self.note_run(draft, end);
        }
        self.note_order(draft, end);
        self.note(moment, end);
        if draft.when != StatedTimes::Unstated || self.file.clock.is_some() {
            self.note_span(moment);
        }
        if let Some(session) = session
            && (self.sessions.len() < MAX_SESSIONS || self.sessions.contains_key(&session))
        {
            self.note_turn(session, draft);
            self.note_session(session, end, first_page);
        }
        Ok(())
    }

    /// Notes how a prompt compares with the one before it of its session, or else of what its chat began with.
    fn note_length(&mut self, draft: &Draft, session: Option<Scope>) {
        let Some(conversation) = session.map(Scope::value).or(draft.opening) else { return };
        if self.lengths.len() >= MAX_SESSIONS && !self.lengths.contains_key(&conversation) {
            return;
        }
        let tokens = draft.input_tokens.unwrap_or(draft.ids.len() as u64);
        let before = self.lengths.insert(conversation, tokens);
        self.facts.growing += u64::from(before.is_some_and(|before| before < tokens));
        self.facts.shrinking += u64::from(before.is_some_and(|before| before > tokens));
    }

    /// Notes whether a turn came before the answer before it had ended, as where times are those of ends.
    fn note_turn(&mut self, session: Scope, draft: &Draft) {
        let Some(length) = draft.duration_ms.map(Duration::from_millis) else { return };
        if self.asked.len() >= MAX_SESSIONS && !self.asked.contains_key(&session) {
            return;
        }
        let before = self.asked.insert(session, draft.moment);
        let Some((before, (answered, _))) = before.zip(self.sessions.get(&session).copied()) else { return };
        self.facts.timed_turns += 1;
        self.facts.asked_early += u64::from(draft.moment < answered);
        self.facts.asked_early_by_ends += u64::from(draft.moment.before(length) < before);
    }

    /// Notes whether the file at hand is still newest first.
    fn note_direction(&mut self, moment: Moment) {
        let fell = self.file.order.falls();
        self.file.order.note(moment);
        match (fell, self.file.order.falls()) {
            (false, true) => self.facts.newest_first += 1,
            (true, false) => self.facts.newest_first -= 1,
            _ => {}
        }
    }

    fn note_session(&mut self, session: Scope, answered: Moment, first_page: Option<u64>) {
        let (known, first) = self.sessions.entry(session).or_insert((answered, None));
        *known = answered;
        match (*first, first_page) {
            (Some(first), Some(page)) if first == page => self.facts.same_start += 1,
            (Some(_), Some(_)) => self.facts.other_start += 1,
            (None, _) => *first = first_page,
            (Some(_), None) => {}
        }
    }

    /// A moment of the file at hand on the line of all files.
    fn of_file(&mut self, moment: Moment, clock: TimeBase) -> Result<Moment, RowFault> {
        let file = &mut self.file;
        match file.clock {
            None => {
                file.clock = Some(clock);
                let behind = self.latest.filter(|latest| clock == TimeBase::Start && moment < *latest);
                file.placed = behind.map(|_| (moment, self.latest_end));
                self.facts.placed_files += u64::from(behind.is_some());
                self.is_stated_late |= file.unstated > 0 && clock == TimeBase::Epoch;
                self.note_clock(match clock {
                    TimeBase::Epoch => TraceClock::Epoch,
                    TimeBase::Start => TraceClock::Start,
                });
            }
            Some(other) if other != clock => {
                return Err(RowFault::OtherClock { is_date: clock == TimeBase::Epoch });
            }
            Some(_) => {}
        }
        Ok(self.file.placed.map_or(moment, |(first, at)| moment.moved(first, at)))
    }

    fn note_clock(&mut self, clock: TraceClock) {
        let known = self.facts.clock.get_or_insert(clock);
        if *known != clock {
            *known = TraceClock::Mixed;
        }
    }

    /// Notes whether the clock of the file at hand began anew.
    fn note_run(&mut self, draft: &Draft, end: Moment) {
        let Some(run) = &mut self.file.run else {
            self.file.run = Some(ClockRun::new(draft.moment, None));
            return;
        };
        let is_late = draft.duration_ms.is_some() && self.file.latest_end.since(end) <= SLACK;
        let Some((by, line)) = run.note(draft.moment, draft.line, is_late) else { return };
        self.facts.restarts += 1;
        self.facts.restart.get_or_insert_with(|| Backwards { by, file: Arc::clone(&self.file.name), line });
    }

    /// Notes a request that comes before one that stands before it.
    fn note_order(&mut self, draft: &Draft, end: Moment) {
        let Some(latest) = self.latest.filter(|latest| draft.moment < *latest) else { return };
        let backwards = |by| Backwards { by, file: Arc::clone(&self.file.name), line: draft.line };
        self.facts.backwards += 1;
        farthest(&mut self.facts.farthest, latest.since(draft.moment), backwards);
        // Files may be of one time, as those of several replicas are: each is held against itself.
        let Some(latest) = self.file.latest.filter(|latest| draft.moment < *latest) else {
            self.facts.files_overlap = true;
            return;
        };
        let slack = if draft.duration_ms.is_some() { SLACK } else { LONGEST_REQUEST };
        let beyond = self.file.latest_end.since(end);
        if beyond > slack {
            farthest(&mut self.facts.unexplained, latest.since(draft.moment), backwards);
        }
    }

    fn note(&mut self, moment: Moment, end: Moment) {
        self.before = (moment, end);
        self.latest = self.latest.max(Some(moment));
        self.latest_end = self.latest_end.max(end);
        self.file.latest = self.file.latest.max(Some(moment));
        self.file.latest_end = self.file.latest_end.max(end);
    }

    fn note_span(&mut self, moment: Moment) {
        let (first, last) = self.facts.span.get_or_insert((moment, moment));
        (*first, *last) = ((*first).min(moment), (*last).max(moment));
    }

    /// Places a session, whose moments count from its own start, where everything before it ended.
    fn place_session(&mut self, drafts: &mut [Draft]) {
        self.facts.placed_sessions += 1;
        self.note_clock(TraceClock::Sessions);
        let Some(first) = drafts.first().map(|draft| draft.moment) else { return };
        // A date says when a session began, but not on the clock of the others.
        let from = if first >= Moment::FIRST_DATE { first } else { first.min(Moment::default()) };
        let to = self.latest_end;
        for draft in drafts {
            draft.moment = draft.moment.moved(from, to);
            let end = draft.moment.after(Duration::from_millis(draft.duration_ms.unwrap_or(0)));
            self.note(draft.moment, end);
            self.note_span(draft.moment);
        }
    }
}

/// Whether a number was read as milliseconds from a start.
fn is_start_ms(clock: TimeBase, form: TimeForm) -> bool {
    clock == TimeBase::Start && form == TimeForm::Number(NumberUnit::Milliseconds)
}

fn farthest(known: &mut Option<Backwards>, by: Duration, backwards: impl Fn(Duration) -> Backwards) {
    if known.as_ref().is_none_or(|known| by > known.by) {
        *known = Some(backwards(by));
    }
}
