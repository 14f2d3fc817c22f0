//! Requests as the readers hand them out, and the buffers they live in.

use super::fault::RowFault;
use super::id_scope::IdScope;
use super::observed::{CacheWrites, ObservedRequest};
use super::subagents::SubagentEvidence;
use crate::identity::{NamedParts, PageIdentity};
use crate::time::{Moment, Time, TimeBase, TimeForm, ms_of};
use kvset_core::request::event::{CachedTokens, PageCountMismatch, RequestEvent, full_pages};
use kvset_core::request::labels::Labels;
use kvset_core::units::pages::{PageIds, Scope};
use kvset_core::units::{EventTime, PageSize};
use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

/// One request of a trace. It borrows the reader's buffers until the next one is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceRow<'a> {
    /// The request, with its page size and scope filled in.
    pub event: RequestEvent<'a>,
    /// What it wrote to its provider's cache, where the log's usage counts that.
    pub cache_writes: Option<CacheWrites>,
    /// The session it belongs to, where the trace says.
    pub session: Option<&'a str>,
    /// The pool it belongs to: its model, where the trace names one and its id scope keeps models apart.
    pub pool: Option<&'a str>,
    /// A digest of the name that the log gives the request, where it does.
    pub request_id: Option<u64>,
    /// The trace file, as it was named; empty for a generated request.
    pub file: &'a str,
    /// Its line in the file (in an avro file its event), counted from 1; 0 for a generated request.
    pub line: u64,
    /// Whether its page ids are tokens (`keeps_tokens` of the reader's options).
    pub are_tokens: bool,
}

impl TraceRow<'_> {
    /// Whether its page ids fit its tokens, whatever its format.
    pub(crate) fn check(&self) -> Result<(), PageCountMismatch> {
        let fits = |size| full_pages(&self.event, size, true).map(|_| ());
        self.event.page_size.map_or(Ok(()), fits)
    }
}

/// A request whose ids and names are ranges of a [`RowBatch`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    /// When it came: as the row states it, and once it was placed ((`timeline`)) on the line of all files.
    pub moment: Moment,
    /// What the row states of that.
    pub when: StatedTimes,
    /// Whether that is when it was answered, and nothing says how long it took.
    pub is_end: bool,
    /// Whether the row says that it was answered before it came.
    pub is_backward: bool,
    pub page_size: Option<PageSize>,
    pub ids: Range<usize>,
    /// Whether the ids are tokens.
    pub are_tokens: bool,
    /// Whether the ids are known to be chained: the trace says so, or they were made here.
    pub ids_chained: bool,
    /// Pages that the output filled; empty where unknown.
    pub output_ids: Range<usize>,
    /// Tokens behind these pages; empty where unknown, or not kept.
    pub tokens_behind: Range<usize>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub duration_ms: Option<u64>,
    pub cached_tokens: CachedTokens,
    pub cache_writes: Option<CacheWrites>,
    pub labels: Labels<Range<usize>>,
    /// A digest of what was asked, where it is a chat: the same for a copy with other system prompts or white space, or
    /// with its answer.
    pub asked: Option<u64>,
    /// A digest of what a chat began with: its turns have one.
    pub opening: Option<u64>,
    /// A digest of the request's own name.
    pub request_id: Option<u64>,
    /// Digests of what it was answered, and of the seed or the number of its sample.
    pub answer: Option<u64>,
    pub sample: Option<u64>,
    pub session: Option<Range<usize>>,
    /// Its model, or the pool that its event names.
    pub pool: Option<Range<usize>>,
    /// What else keeps its pages apart ([`crate::identity`]).
    pub apart: Option<Range<usize>>,
    /// Value of the field that `--id-scope field:NAME` names.
    pub scope_name: Option<Range<usize>>,
    pub scope: Scope,
    pub line: u64,
}

/// What a row states of when its request came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StatedTimes {
    /// Nothing: it came with the one before it.
    #[default]
    Unstated,
    /// A moment.
    At {
        /// What it counts from.
        clock: TimeBase,
        /// How it is written.
        form: TimeForm,
    },
    /// So long after the request before it of its session was answered.
    AfterAnswer(Duration),
}

impl Draft {
    /// Takes over what keeps the pages of the object around its own apart, where its own says nothing.
    pub fn inherit_identity(&mut self, around: &Self) {
        self.pool = self.pool.take().or_else(|| around.pool.clone());
        self.apart = self.apart.take().or_else(|| around.apart.clone());
    }

    /// When the row says that the request came, if it states a moment.
    pub fn stated(&self) -> Option<Time> {
        match self.when {
            StatedTimes::At { clock, form } => Some(Time { moment: self.moment, clock, form }),
            StatedTimes::Unstated | StatedTimes::AfterAnswer(_) => None,
        }
    }

    /// Takes over what was observed of the request.
    pub fn observe(&mut self, observed: &ObservedRequest) {
        self.duration_ms = observed.duration.map(ms_of);
        (self.output_tokens, self.cached_tokens) = (observed.output_tokens, observed.cached_tokens);
        self.cache_writes = observed.cache_writes;
        self.answer = observed.answer.digest();
    }

    /// States when the request came.
    pub fn at(&mut self, time: Option<Time>) {
        if let Some(Time { moment, clock, form }) = time {
            (self.moment, self.when) = (moment, StatedTimes::At { clock, form });
        }
    }
}

impl Draft {
    /// The same with its names in another text: `moved` says where.
    pub fn with_names(self, mut moved: impl FnMut(Range<usize>) -> Range<usize>) -> Self {
        Self {
            session: self.session.map(&mut moved),
            pool: self.pool.map(&mut moved),
            apart: self.apart.map(&mut moved),
            scope_name: self.scope_name.map(&mut moved),
            labels: self.labels.map(&mut moved),
            ..self
        }
    }
}

/// Whether a trace declares its ids to be unique within a session only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DeclaredScope {
    #[default]
    Global,
    Session,
}

/// The requests of some lines (or of one step of a reorder buffer), in buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    pub ids: Vec<u64>,
    pub text: String,
    pub drafts: Vec<Draft>,
    /// The requests of each session whose times count from its own start until it is placed.
    pub sessions: Vec<Range<usize>>,
    /// What was refused, last first.
    pub refused: Vec<RefusedRow>,
    /// Why records were passed over that are of no request which a cache served.
    pub passed_over: Vec<&'static str>,
    /// What the times of sub-agents show.
    pub subagents: SubagentEvidence,
    next: usize,
}

/// A row or one of its requests that was refused, among those that were not.
#[derive(Debug)]
pub(crate) struct RefusedRow {
    /// Requests of the batch that come before it.
    pub after: usize,
    pub line: u64,
    pub fault: RowFault,
}

/// How much a batch held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchMark {
    ids: usize,
    text: usize,
    pub drafts: usize,
    sessions: usize,
    subagents: SubagentEvidence,
}

impl RowBatch {
    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.ids.clear();
        self.text.clear();
        self.drafts.clear();
        self.sessions.clear();
        self.refused.clear();
        self.passed_over.clear();
        self.subagents = SubagentEvidence::default();
        self.next = 0;
    }

    /// Whether every request was handed out, refused ones too.
    pub fn is_drained(&self) -> bool {
        self.next == self.drafts.len() && self.refused.is_empty()
    }

    /// How much the batch holds, to go back to.
    pub fn mark(&self) -> BatchMark {
        BatchMark {
            ids: self.ids.len(),
            text: self.text.len(),
            drafts: self.drafts.len(),
            sessions: self.sessions.len(),
            subagents: self.subagents,
        }
    }

    /// Drops what was added since.
    pub fn go_back(&mut self, mark: BatchMark) {
        self.ids.truncate(mark.ids);
        self.text.truncate(mark.text);
        self.drafts.truncate(mark.drafts);
        self.sessions.truncate(mark.sessions);
        self.subagents = mark.subagents;
    }

    /// Takes these requests, ascending, away and refuses their rows.
    pub fn refuse(&mut self, requests: Vec<(usize, RowFault)>) {
        for (removed, (at, fault)) in requests.into_iter().enumerate() {
            let at = at - removed;
            let line = self.drafts.remove(at).line;
            self.refused.iter_mut().filter(|row| row.after > at).for_each(|row| row.after -= 1);
            // Last first: those that come after it stay in front of it.
            let place =
                self.refused.partition_point(|row| row.after > at || (row.after == at && row.line > line));
            self.refused.insert(place, RefusedRow { after: at, line, fault });
        }
    }

    /// Numbers the lines on from so many before them.
    pub fn move_lines(&mut self, before: u64) {
        self.drafts.iter_mut().for_each(|draft| draft.line += before);
        self.refused.iter_mut().for_each(|row| row.line += before);
    }

    /// Takes the row that was refused before the next request.
    pub fn take_refused(&mut self) -> Option<RefusedRow> {
        let next = self.next;
        self.refused.pop_if(|row| row.after <= next)
    }

    /// Takes the next request's index.
    pub fn advance(&mut self) -> Option<usize> {
        let index = self.next;
        (index < self.drafts.len()).then(|| {
            self.next += 1;
            index
        })
    }

    /// The request at `index`, read from the file `file`.
    pub fn row<'a>(&'a self, index: usize, file: &'a str) -> TraceRow<'a> {
        let draft = &self.drafts[index];
        TraceRow {
            event: RequestEvent {
                event_time: EventTime(draft.moment.ms()),
                page_size: draft.page_size,
                scope: draft.scope,
                page_ids: PageIds::from_slice(&self.ids[draft.ids.clone()]),
                ids_chained: draft.ids_chained,
                output_page_ids: PageIds::from_slice(&self.ids[draft.output_ids.clone()]),
                tokens_behind: PageIds::from_slice(&self.ids[draft.tokens_behind.clone()]),
                input_tokens: draft.input_tokens,
                output_tokens: draft.output_tokens,
                duration_ms: draft.duration_ms,
                cached_tokens: draft.cached_tokens,
                labels: draft.labels.each_ref().map(|name| &self.text[name.clone()]),
                ..RequestEvent::default()
            },
            cache_writes: draft.cache_writes,
            session: draft.session.clone().map(|session| &self.text[session]),
            pool: draft.pool.clone().map(|pool| &self.text[pool]),
            request_id: draft.request_id,
            file,
            line: draft.line,
            are_tokens: draft.are_tokens,
        }
    }

    /// What keeps pages apart of which this is said: a draft that says nothing else.
    pub fn kept_apart(&mut self, parts: &NamedParts) -> Draft {
        let only_model = parts.only_model();
        if only_model.is_some() || parts.is_empty() {
            return Draft { pool: only_model, ..Draft::default() };
        }
        let PageIdentity { model, scope } = parts.identity(&self.text);
        let names = [model.map(Cow::Borrowed), scope].map(|name| name.map(Cow::into_owned));
        let [pool, apart] = names.map(|name| {
            let start = self.text.len();
            self.text.push_str(&name?);
            Some(start..self.text.len())
        });
        Draft { pool, apart, ..Draft::default() }
    }

    /// Fills in the scope of the requests from `first` on, from what keeps each apart, its session or its named field.
    /// Ids that are chained within a narrower one need not be in that.
    pub fn set_scopes(
        &mut self,
        first: usize,
        wanted: &IdScope,
        declared: DeclaredScope,
    ) -> Result<(), RowFault> {
        (first..self.drafts.len()).try_for_each(|index| self.set_scope(index, wanted, declared))
    }

    fn set_scope(&mut self, index: usize, wanted: &IdScope, declared: DeclaredScope) -> Result<(), RowFault> {
        let draft = &self.drafts[index];
        let named = |name: &Option<Range<usize>>, field: &str| -> Result<Scope, RowFault> {
            let name = name.clone().ok_or_else(|| RowFault::missing(field))?;
            Ok(Scope::named(self.text[name].as_bytes()))
        };
        let scope = match (wanted, declared, &draft.apart) {
            (IdScope::Global, ..) | (IdScope::Auto, DeclaredScope::Global, None) => Scope::GLOBAL,
            (IdScope::Auto, DeclaredScope::Global, Some(_)) => named(&draft.apart, "")?,
            (IdScope::Session, ..) | (IdScope::Auto, DeclaredScope::Session, None) => {
                named(&draft.session, "session_id")?
            }
            (IdScope::Auto, DeclaredScope::Session, Some(apart)) => {
                let session = draft.session.clone().ok_or_else(|| RowFault::missing("session_id"))?;
                Scope::named([&self.text[session], &self.text[apart.clone()]].join("\0").as_bytes())
            }
            (IdScope::Field(field), ..) => named(&draft.scope_name, field)?,
        };
        let draft = &mut self.drafts[index];
        draft.scope = scope;
        if !wanted.keeps_pools_apart() {
            draft.pool = None;
        }
        draft.ids_chained &= declared == DeclaredScope::Global || scope != Scope::GLOBAL;
        Ok(())
    }
}
