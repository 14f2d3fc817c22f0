//! The traces are read once for every engine and pool, in the order in which the requests came.
//!
//! A trace is expected to be in that order, so that nothing is held back and its lines are taken in ranges on every
//! core. Where it is not, which the reader notices at the first request that stands behind a later one, it is read
//! again from its start, with requests held back.
//!
//! Where rows name several caches, it is read again with requests routed as logged, for the sizes that these need.
//!
//! Each model that a trace names is a pool with a cache of its own: requests go to the runs of their pool, one run an
//! engine.

use super::channels::Channels;
use super::ledger::EngineLedger;
use super::per_request::PerRequest;
use super::run::{ReplayRun, RunContext};
use super::{ReplayError, ReplayOptions, TraceFindings, WarmUp};
use kvset_core::engines::one_pass::EngineRange;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::RangePool;
use kvset_core::questions::routing::{RouterKind, RouterSpec};
use kvset_core::request::labels::Label;
use kvset_core::units::ratio::Ratio;
use kvset_formats::trace::{self, ItemGroup, ReadProgress, RowOrder, TraceError, TraceItem, TraceRow};
use std::borrow::Cow;
use std::sync::Arc;

/// Most pools of a trace.
pub(super) const MAX_POOLS: usize = 256;

/// What the options need to be known before a trace is replayed: the order to read it in, and the number of leading
/// requests that only warm the cache.
///
/// # Errors
/// A share of the requests of standard input is requested, or the traces cannot be read.
pub(super) fn order_and_warm_up(options: &ReplayOptions) -> Result<(RowOrder, u64), ReplayError> {
    // A stream is read once: its requests are held back from the first one on.
    let order = if options.has_stream() { RowOrder::Arrival } else { RowOrder::Expected };
    let share = match options.warm_up {
        WarmUp::Share(share) if share != Ratio::ZERO => share,
        WarmUp::Share(_) => return Ok((order, 0)),
        WarmUp::Requests(warm_up) => return Ok((order, warm_up)),
    };
    if options.has_stream() {
        return Err(ReplayError::ShareOfStream);
    }
    let (requests, is_in_order) = survey(options)?;
    let order = if is_in_order { RowOrder::Expected } else { RowOrder::Arrival };
    Ok((order, share.share_of(requests)))
}

/// How many requests the traces have that are replayed, and whether they came in the order of the traces.
fn survey(options: &ReplayOptions) -> Result<(u64, bool), ReplayError> {
    let read = options.read_in(RowOrder::Written);
    let mut reader = trace::open_ahead(&options.traces, &read, options.threads, &[])?;
    let mut requests = 0;
    loop {
        let ItemGroup { items, .. } = reader.next_items()?;
        if items.is_empty() {
            return Ok((requests, reader.findings().is_in_order));
        }
        let replayed =
            |item: &&TraceItem<'_>| matches!(item, TraceItem::Request(row) if options.replays(row));
        requests += items.iter().filter(replayed).count() as u64;
    }
}

/// What rows name as the cache that served them.
#[derive(Debug, Default, PartialEq, Eq)]
enum NamedReplicas {
    #[default]
    None,
    One(Box<str>),
    Several,
    /// Whether these are followed is settled.
    Settled,
}

impl NamedReplicas {
    fn note(&mut self, row: &TraceRow<'_>) {
        let name = row.event.labels.get(Label::Replica).copied();
        match (&*self, name) {
            (Self::None, Some(name)) => *self = Self::One(Box::from(name)),
            (Self::One(one), Some(name)) if **one != *name => *self = Self::Several,
            _ => {}
        }
    }
}

/// A reading of the traces.
pub(super) struct TraceReading<'a, 'w> {
    options: &'a ReplayOptions,
    order: RowOrder,
    warm_up: u64,
    /// How each pool is estimated, by engine.
    engines: Cow<'a, [PoolConfig]>,
    replicas: NamedReplicas,
    /// Makes the run of a pool.
    start: &'a dyn Fn(&PoolConfig) -> Result<ReplayRun, ReplayError>,
    /// The name of each pool's model, nothing where rows name none, and its runs, one an engine.
    pub pools: Vec<(Option<Box<str>>, Vec<ReplayRun>)>,
    /// What each engine made of the rows, over all pools.
    pub ledgers: Vec<EngineLedger>,
    pub channels: Channels<'w>,
    /// Pools of requests that are not replayed.
    others: Vec<Box<str>>,
}

impl<'a, 'w> TraceReading<'a, 'w> {
    /// Reads the traces, anew where the reading has to begin again. `start` makes the run of a pool.
    ///
    /// # Errors
    /// [`ReplayError`]; nothing was printed then.
    pub fn read(
        options: &'a ReplayOptions,
        (order, warm_up): (RowOrder, u64),
        engines: &'a [PoolConfig],
        start: &'a dyn Fn(&PoolConfig) -> Result<ReplayRun, ReplayError>,
        channels: Channels<'w>,
        progress: &mut dyn FnMut(ReadProgress),
    ) -> Result<(Self, TraceFindings), ReplayError> {
        let mut reading = Self {
            options,
            order,
            warm_up,
            engines: Cow::Borrowed(engines),
            replicas: NamedReplicas::default(),
            start,
            pools: Vec::new(),
            ledgers: Vec::new(),
            channels,
            others: Vec::new(),
        };
        // What cannot be followed is said before anything is read.
        engines.iter().try_for_each(|engine| start(engine).map(drop))?;
        let findings = loop {
            reading.begin()?;
            match reading.read_once(progress) {
                Ok(Some(findings)) => break findings,
                Ok(None) => {}
                // More caches than can be followed: nobody asked for it.
                Err(ReplayError::Question { .. }) if matches!(reading.engines, Cow::Owned(_)) => {
                    reading.engines = Cow::Borrowed(engines);
                }
                Err(ReplayError::Trace(TraceError::ReadAgain)) => reading.order = RowOrder::Arrival,
                Err(error) => return Err(error),
            }
        };
        reading.end()?;
        Ok((reading, findings))
    }

    fn begin(&mut self) -> Result<(), ReplayError> {
        self.pools.clear();
        self.others.clear();
        self.ledgers = self.engines.iter().map(|_| EngineLedger::default()).collect();
        self.channels.begin().map_err(ReplayError::PerRequest)
    }

    fn end(&mut self) -> Result<(), ReplayError> {
        self.channels
            .per_request
            .iter_mut()
            .try_for_each(PerRequest::flush)
            .map_err(ReplayError::PerRequest)?;
        if let Some(wanted) = self.options.pool_name.as_ref().filter(|_| self.pools.is_empty()) {
            return Err(ReplayError::NoSuchPool { wanted: wanted.clone(), names: listed(&self.others) });
        }
        if self.pools.is_empty() {
            self.pool(None)?;
        }
        Ok(())
    }

    /// Reads the traces; nothing where they are to be read again.
    fn read_once(
        &mut self,
        progress: &mut dyn FnMut(ReadProgress),
    ) -> Result<Option<TraceFindings>, ReplayError> {
        let order = self.order;
        let mut ranged: Vec<_> = self.engines.iter().cloned().map(Arc::new).collect();
        // Requests that are held back are in no range of the trace.
        if order == RowOrder::Arrival || ranged.iter().all(|config| RangePool::new(config).is_err()) {
            ranged.clear();
        }
        let read = self.options.read_in(order);
        let threads = self.options.threads;
        let mut reader = match self.channels.recording {
            Some(recording) => trace::recorded_ahead(recording, &read, threads)?,
            None => trace::open_ahead(&self.options.traces, &read, threads, &ranged)?,
        };
        loop {
            let ItemGroup { items, ranges } = reader.next_items()?;
            if items.is_empty() {
                break;
            }
            self.take(items, ranges)?;
            if self.replicas == NamedReplicas::Several && self.follows_replicas() {
                return Ok(None);
            }
            progress(reader.progress());
        }
        progress(reader.progress());
        let findings = reader.findings();
        if let (Some(census), Some(ledger)) = (&mut self.channels.census, self.ledgers.first()) {
            census.end(&findings, ledger);
        }
        Ok(Some(findings))
    }

    /// Has engines follow the log's caches from its start, as far as they can and do not yet; whether one does now.
    fn follows_replicas(&mut self) -> bool {
        self.replicas = NamedReplicas::Settled;
        // A stream is read once.
        if self.options.has_stream() && self.channels.recording.is_none() {
            return false;
        }
        let mut follows = false;
        for engine in self.engines.to_mut() {
            let mut routed = engine.clone();
            let routers = &mut routed.questions.routers;
            if routers.iter().any(|router| router.kind == RouterKind::Logged) {
                continue;
            }
            routers.push(RouterSpec { kind: RouterKind::Logged, replicas: 0 });
            if (self.start)(&routed).is_ok() {
                *engine = routed;
                follows = true;
            }
        }
        follows
    }

    /// Takes what was read together.
    fn take(
        &mut self,
        items: Vec<TraceItem<'_>>,
        ranges: Vec<Option<EngineRange>>,
    ) -> Result<(), ReplayError> {
        let (mut rows, mut refused, mut is_whole) = (Vec::with_capacity(items.len()), Vec::new(), true);
        for item in items {
            match item {
                TraceItem::Request(row) if self.options.replays(&row) => {
                    self.replicas.note(&row);
                    self.channels.census.iter_mut().for_each(|census| census.row(&row));
                    rows.push(row);
                }
                TraceItem::Request(row) => {
                    is_whole = false;
                    self.note_other(row.pool);
                }
                TraceItem::Refused(error) => refused.push((rows.len(), error)),
            }
        }
        // A range is of all requests that were read together: of use where these are of one pool.
        if is_whole && rows.windows(2).all(|two| two[0].pool == two[1].pool) {
            self.merge(&rows, ranges)?;
        }
        let mut taken = 0;
        for (before, error) in refused {
            self.take_rows(&rows[taken..before])?;
            taken = before;
            let place = || format!("{}, line {}", error.file, error.line);
            self.ledgers.iter_mut().for_each(|ledger| ledger.refuse(place, &error.fault));
        }
        self.take_rows(&rows[taken..])
    }

    /// Merges what rows of one pool come to.
    fn merge(&mut self, rows: &[TraceRow<'_>], ranges: Vec<Option<EngineRange>>) -> Result<(), ReplayError> {
        let Some(first) = rows.first() else { return Ok(()) };
        let at = self.pool(first.pool)?;
        for (run, range) in self.pools[at].1.iter_mut().zip(ranges) {
            range.into_iter().for_each(|range| run.merge(range, rows));
        }
        Ok(())
    }

    /// Takes rows in their order.
    fn take_rows(&mut self, rows: &[TraceRow<'_>]) -> Result<(), ReplayError> {
        for rows in rows.chunk_by(|one, other| one.pool == other.pool) {
            let at = self.pool(rows[0].pool)?;
            for (run, ledger) in self.pools[at].1.iter_mut().zip(&mut self.ledgers) {
                let (warm_up, per_request) = (self.warm_up, self.channels.per_request.as_mut());
                run.observe_rows(rows, RunContext { ledger, per_request, warm_up })?;
            }
        }
        Ok(())
    }

    /// The place of a pool's runs, which are made where there are none.
    fn pool(&mut self, name: Option<&str>) -> Result<usize, ReplayError> {
        if let Some(at) = self.pools.iter().rposition(|(of, _)| of.as_deref() == name) {
            return Ok(at);
        }
        if self.pools.len() == MAX_POOLS {
            return Err(ReplayError::TooManyPools { most: MAX_POOLS });
        }
        let costs = &self.options.extras.pool_costs;
        let cost = name.and_then(|name| costs.iter().find(|(of, _)| of == name));
        let run = |engine: &PoolConfig| {
            let mut own = engine.clone();
            own.cache.kv_bytes_per_token = cost.map_or(own.cache.kv_bytes_per_token, |(_, cost)| Some(*cost));
            (self.start)(&own)
        };
        let runs = self.engines.iter().map(run).collect::<Result<_, _>>()?;
        self.pools.push((name.map(Box::from), runs));
        Ok(self.pools.len() - 1)
    }

    fn note_other(&mut self, name: Option<&str>) {
        let name = name.unwrap_or(UNNAMED);
        if self.others.len() < MAX_POOLS && self.others.iter().all(|known| **known != *name) {
            self.others.push(Box::from(name));
        }
    }
}

/// What a pool is called whose rows name no model.
pub(super) const UNNAMED: &str = "(no model)";

/// The first of some names.
pub(super) fn listed(names: &[Box<str>]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(|name| &**name).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
