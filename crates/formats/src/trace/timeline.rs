//! When each request came, on one time line for all files of a trace.
//!
//! A row states a moment, or how long after the answer before it of its session it came, or nothing. What it states
//! counts from the Unix epoch, from its file's start, or from its session's. Everything that needs the rows before it
//! is done here, in the order of the files: [`TraceTimeline::place`] gives each request its moment and notes where
//! moments run backwards.

use super::order_evidence::OrderEvidence;
use super::time_facts::{Backwards, SLACK, TimeFacts, TraceClock};
use crate::record::fault::RowFault;
use crate::record::row::{Draft, RowBatch, StatedTimes};
use crate::time::{Moment, NumberUnit, TimeBase, TimeForm};
use kvset_core::units::pages::Scope;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Most sessions whose last answer is remembered.
const MAX_SESSIONS: usize = 1 << 20;

/// How far a log that is written when requests end may run backwards where it says of none how long it took.
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
                self.facts.disorder = self.order.disorder();
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
