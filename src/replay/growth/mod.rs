//! How certain the figures of a replay are, and what more or less traffic would need.
//!
//! Both are questions of families of requests ([`kvset_core::families`]), and both are answered by replaying the log
//! again, from memory: without some of its families, or with copies of them. A grown log is a source of rows for the
//! same replay, so every engine, tier and router takes it.

mod certainty;
mod check;
mod grown;
mod notes;
mod traffic;

pub use certainty::certainty;
pub use traffic::{GrownTraffic, TrafficStatus};

use super::log::{LogEntry, LogFeed, name_hash};
use super::{Replay, ReplayError, ReplayOptions, RequestLog, WarmUp};
use kvset_core::estimate::config::PoolConfig;
use kvset_core::families::certainty::Certainty;
use kvset_core::families::overlay::{Occurrence, TrafficGrowth, renamed};
use kvset_core::families::{Families, FamilyMember};
use kvset_core::questions::enabled::Questions;
use kvset_core::request::labels::Label;
use kvset_core::request::prompts::PromptTree;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::pages::PageIds;
use kvset_core::units::window::WindowKind;
use kvset_formats::trace::{IdScope, ReadProgress, TraceClock, TraceRow, write_row};
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

/// What there is more of, where traffic grows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TrafficBy {
    /// Conversations: of other users, with the same system prompts.
    #[default]
    Conversation,
    /// Tenants, with all that their conversations share.
    Tenant,
    /// Whatever this field of a row names.
    Field(String),
}

impl FromStr for TrafficBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("field:")) {
            ("conversation", _) => Ok(Self::Conversation),
            ("tenant", _) => Ok(Self::Tenant),
            (_, Some(name)) if !name.is_empty() => Ok(Self::Field(name.to_owned())),
            _ => Err("expected conversation, tenant or field:NAME".to_owned()),
        }
    }
}

impl fmt::Display for TrafficBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conversation => f.write_str("session"),
            Self::Tenant => f.write_str("tenant"),
            Self::Field(name) => write!(f, "field:{name}"),
        }
    }
}

/// A log in memory, with its families.
pub struct FamilyLog {
    log: RequestLog,
    members: Vec<FamilyMember>,
    families: Families,
    by: String,
}

impl FamilyLog {
    /// Reads the traces of the options. What is named by a field takes another reading.
    ///
    /// # Errors
    /// They cannot be read, have several pools, lack the field, or take more memory than they may.
    pub fn read(
        options: &ReplayOptions,
        by: &TrafficBy,
        progress: &mut dyn FnMut(ReadProgress),
    ) -> Result<Self, ReplayError> {
        let log = RequestLog::read(options, progress)?;
        let named: Vec<Option<u64>> = match by {
            TrafficBy::Conversation => log.requests().iter().map(|entry| log.session_hash(entry)).collect(),
            TrafficBy::Tenant => {
                let tenant = |entry: &LogEntry| log.label(entry, Label::Tenant).map(name_hash);
                log.requests().iter().map(tenant).collect()
            }
            TrafficBy::Field(name) => {
                let mut options = options.clone();
                options.read.id_scope = IdScope::Field(name.clone());
                let scoped = RequestLog::read(&options, progress)?;
                scoped.requests().iter().map(|entry| Some(entry.scope.value())).collect()
            }
        };
        Ok(Self::of(log.in_pages(options), options, &named, by.to_string()))
    }

    fn of(log: RequestLog, options: &ReplayOptions, named: &[Option<u64>], by: String) -> Self {
        // Whole pages, those of answers behind those of prompts.
        let (mut prompts, mut ids) = (PromptTree::default(), Vec::new());
        let mut members = Vec::with_capacity(log.requests().len());
        for (at, entry) in log.requests().iter().enumerate() {
            log.prompts().read(entry.path, &mut ids);
            ids.truncate(own_pages(entry, options));
            ids.extend_from_slice(log.outputs_of(entry));
            let (path, _) = prompts.add(entry.scope, &ids);
            let session = named.get(at).copied().flatten();
            members.push(FamilyMember { path, scope: entry.scope, time: log.time_of(entry), session });
        }
        let families = Families::of(&members, &prompts);
        Self { log, members, families, by }
    }

    /// Its families.
    pub fn families(&self) -> &Families {
        &self.families
    }

    /// What is known of its certainty without a replay.
    pub fn unreplayed(&self) -> Certainty {
        Certainty::of(&self.families, &self.by)
    }

    /// Requests of it.
    pub fn requests(&self) -> usize {
        self.members.len()
    }

    /// Whether its requests are on one clock, which says what came together.
    fn has_clock(&self) -> bool {
        use TraceClock::{Epoch, Start};
        matches!(self.log.times().clock, Some(Epoch | Start)) && self.span_ms() > 0
    }

    /// From its first request to its last one.
    fn span_ms(&self) -> u64 {
        kvset_core::families::overlay::span_ms(&self.members)
    }

    /// The log itself, of the families that are kept.
    fn part(&self, kept: impl Fn(u64) -> bool) -> Vec<Occurrence> {
        let kept: Vec<bool> = self.families.all().iter().map(|family| kept(family.key)).collect();
        let all = self.members.iter().enumerate().map(|(request, member)| Occurrence {
            time: member.time,
            copy: 0,
            request: request as u32,
        });
        all.filter(|at| kept[self.families.of_request(at.request as usize)]).collect()
    }

    /// Whether an occurrence counts: those of the log behind its warm-up, and those of copies from the first of these
    /// to the last one.
    fn counts(&self, at: &Occurrence, warm_up: u64) -> bool {
        if at.copy == 0 {
            return u64::from(at.request) >= warm_up;
        }
        let first = usize::try_from(warm_up).ok().and_then(|first| self.members.get(first));
        let ends = first.zip(self.members.last());
        ends.is_some_and(|(first, last)| (first.time..=last.time).contains(&at.time))
    }

    /// Replays rows; `seen` is shown the pool after each that counts.
    fn feed(
        &self,
        options: &ReplayOptions,
        rows: &[Occurrence],
        seen: &mut dyn FnMut(&Occurrence, &LogFeed),
    ) -> Result<LogFeed, ReplayError> {
        let pool = PoolConfig { windows: vec![WindowKind::All], ..options.pool.clone() };
        let mut feed = LogFeed::new(options, &pool)?;
        let (warm_up, mut room) = (self.log.warm_up(options), RowRoom::default());
        for at in rows {
            let counts = self.counts(at, warm_up);
            if feed.take(self.row(options, at, &mut room), counts)? && counts {
                seen(at, &feed);
            }
        }
        Ok(feed)
    }

    /// Finishes a replay of rows of this log.
    fn finish(&self, feed: LogFeed, options: &ReplayOptions) -> Result<Replay, ReplayError> {
        feed.finish(options, self.log.findings())
    }

    /// The row of an occurrence: of a copy, with names of its own.
    fn row<'a>(&'a self, options: &ReplayOptions, at: &Occurrence, room: &'a mut RowRoom) -> TraceRow<'a> {
        let entry = &self.log.requests()[at.request as usize];
        let mut row = self.log.row_of(entry);
        self.log.prompts().read(entry.path, &mut room.ids);
        if at.copy > 0 {
            let (whole, common) = (own_pages(entry, options), self.families.common_of(at.request as usize));
            let rename = |id: &mut u64| *id = renamed(*id, at.copy);
            room.ids.iter_mut().skip(common.min(whole)).for_each(rename);
            room.outputs.clear();
            room.outputs.extend_from_slice(self.log.outputs_of(entry));
            room.outputs.iter_mut().skip(common.saturating_sub(whole)).for_each(rename);
            row.event.output_page_ids = PageIds::from_slice(&room.outputs);
            if let Some(session) = row.session {
                room.session = format!("{session}~{}", at.copy);
                row.session = Some(&room.session);
            }
        }
        row.event.page_ids = PageIds::from_slice(&room.ids);
        row.event.event_time = at.time;
        row
    }

    /// The rows of a grown log, or of a factor below 1 those of the first part that stands for it.
    fn rows_of(&self, growth: TrafficGrowth) -> Vec<Occurrence> {
        match growth.factor < 1.0 {
            true => self.part(|key| growth.is_in_window(key, 0)),
            false => growth.overlay(&self.members, &self.families, &|_| true),
        }
    }

    /// The same in memory, as far as the log itself reaches.
    ///
    /// # Errors
    /// They take more memory than they may.
    pub fn grown_log(&self, growth: TrafficGrowth, options: &ReplayOptions) -> Result<GrownLog, ReplayError> {
        let warm_up = self.log.warm_up(options);
        let end = self.members.last().map(|member| member.time);
        let mut rows = self.rows_of(growth);
        rows.retain(|at| Some(at.time) <= end);
        let first = rows.iter().position(|at| self.counts(at, warm_up)).unwrap_or(rows.len());
        let mut log = RequestLog::of_findings(self.log.findings().clone());
        let (mut room, mut ids) = (RowRoom::default(), Vec::new());
        rows.iter().try_for_each(|at| log.take(&self.row(options, at, &mut room), &mut ids))?;
        Ok(GrownLog { factor: growth.factor, log, warm_up: WarmUp::Requests(first as u64) })
    }

    /// Writes a grown log, or of a factor below 1 the first part that stands for it, from time 0 on where it would
    /// begin before that.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn write(
        &self,
        growth: TrafficGrowth,
        options: &ReplayOptions,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let rows = self.rows_of(growth);
        let before = rows.first().map_or(0, |first| first.time.0.min(0));
        let mut room = RowRoom::default();
        rows.iter().try_for_each(|at| {
            let mut row = self.row(options, at, &mut room);
            row.event.event_time.0 -= before;
            write_row(out, &row)
        })
    }
}

/// A log of so many times the traffic.
pub struct GrownLog {
    /// How many times.
    pub factor: f64,
    /// Its requests.
    pub log: RequestLog,
    /// Leading ones that only warm the cache.
    pub warm_up: WarmUp,
}

/// Room for what is renamed of a row.
#[derive(Debug, Default)]
struct RowRoom {
    ids: Vec<u64>,
    outputs: Vec<u64>,
    session: String,
}

/// Pages of a prompt that enter the cache.
fn own_pages(entry: &LogEntry, options: &ReplayOptions) -> usize {
    match options.pool.cache.include_partial_page {
        true => entry.path.ids(),
        false => entry.whole_ids(entry.path.ids()),
    }
}

/// The options of a replay that is for requirements alone.
fn requirements_only(options: &ReplayOptions) -> ReplayOptions {
    let mut options = ReplayOptions { threads: 1, provisioned: None, ..options.clone() };
    options.extras = Default::default();
    options.pool.questions = Questions::default();
    options.pool.tiers.clear();
    options.pool.further_costs.clear();
    options.pool.cache.capacities = vec![CapacitySpec::of_pages(1)];
    options
}
