//! One pool: its page size, its engine, its windows, and what was refused.
pub mod set;

mod aside;
mod identity;
mod kind;
mod live;
mod range;
mod refusal;
mod shown;
#[cfg(test)]
mod tests;

pub use kind::PoolKind;
pub use range::RangePool;
pub use refusal::{Refusal, RestoreError};
pub use shown::ShownMoment;

use crate::engines::bank::{CacheBank, Lane};
use crate::engines::one_pass::Engine;
use crate::estimate::config::{PoolConfig, PoolConfigError};
use crate::estimate::estimator::PoolFigures;
use crate::estimate::{CapacityPoint, Estimate};
use crate::questions::observers::{PoolSections, RestoredSections};
use crate::questions::optimum::OptimalCapacity;
use crate::questions::question::QuestionError;
use crate::questions::routing::RoutingShare;
use crate::request::event::RequestEvent;
use crate::request::id_scheme::IdScheme;
use crate::request::outcome::{BEYOND, Outcome};
use crate::sizing::coverage::Distribution;
use crate::sizing::curve::Curve;
use crate::sizing::exact_curve::FoundPages;
use crate::stack::{ChainPolicy, Upcoming};
use crate::units::capacity::CapacitySpec;
use crate::units::heap::heap_bytes;
use crate::units::window::WindowKind;
use crate::units::{EventTime, Offset, PageBytes, PageCount, PageSize, is_countable};
use crate::windows::tally::{CountingRules, RequestSummary, Tally};
use aside::{Aside, serialize_state};
use identity::{PoolIdentity, id_scheme_for};
use kind::curve_at;
use live::LivePool;
use serde::{Deserialize, Serialize};
use shown::{ShownEstimates, Trends};
use std::borrow::Cow;
use std::sync::Arc;

/// How a record reached its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Offset of the record.
    pub offset: Offset,
    /// Whether it counts in windows; a warming-up record only touches the stack.
    pub counted: bool,
    /// The pool's watermark before this record: it decides what is late.
    pub watermark: Option<EventTime>,
}

/// One cache whose size is to be planned.
///
/// Its records come through a [`PoolSet`](crate::pool::set::PoolSet), which moves the watermark that closes the
/// pool's windows.
#[derive(Debug)]
pub struct Pool {
    identity: PoolIdentity,
    rejected_records: u64,
    /// How the page ids are made, from the first accepted record on that names a scheme.
    id_scheme: Option<IdScheme>,
    /// What needs the page size; there from the first accepted record on.
    live: Option<Box<LivePool>>,
    /// The same while the pool is put aside.
    aside: Option<Aside>,
}

heap_bytes!(Pool { identity, live, aside; rejected_records, id_scheme });

/// A pool's state, as a snapshot keeps it.
#[derive(Debug, Serialize)]
pub struct PoolImage<'a> {
    fingerprint: &'a str,
    rejected_records: u64,
    #[serde(serialize_with = "serialize_state")]
    live: (&'a Option<Box<LivePool>>, Option<&'a Aside>),
    /// What is followed for the questions; nothing where there are none.
    sections: Option<PoolSections<'a>>,
    /// How its page ids are made, where that is known.
    id_scheme: Option<&'a IdScheme>,
}

/// A pool's state, read back from a snapshot.
#[derive(Debug, Deserialize)]
pub struct RestoredPool {
    fingerprint: String,
    rejected_records: u64,
    live: Option<Box<LivePool>>,
    pub(crate) sections: Option<RestoredSections>,
    id_scheme: Option<IdScheme>,
}

impl Pool {
    /// A pool that has seen nothing.
    ///
    /// # Errors
    /// The first value of the configuration that cannot be used.
    pub fn new(
        name: impl Into<Box<str>>,
        partition: i32,
        config: Arc<PoolConfig>,
    ) -> Result<Self, PoolConfigError> {
        Ok(Self::of_kind(name, partition, Arc::new(PoolKind::new(config)?)))
    }

    /// One of many pools of a kind.
    pub fn of_kind(name: impl Into<Box<str>>, partition: i32, kind: Arc<PoolKind>) -> Self {
        Self {
            identity: PoolIdentity { name: name.into(), partition, kind },
            rejected_records: 0,
            id_scheme: None,
            live: None,
            aside: None,
        }
    }

    /// The pool's state, to be serialised into a snapshot.
    pub fn image(&self) -> PoolImage<'_> {
        PoolImage {
            fingerprint: self.identity.kind.fingerprint(),
            rejected_records: self.rejected_records,
            live: (&self.live, self.aside.as_ref()),
            sections: self.live.as_ref().and_then(|live| live.sections()),
            id_scheme: self.id_scheme.as_ref(),
        }
    }

    /// A pool that goes on where another of the same configuration was when its image was taken.
    ///
    /// # Errors
    /// [`RestoreError`] where the configuration cannot be used, or is not the image's.
    pub fn restore(
        name: impl Into<Box<str>>,
        partition: i32,
        config: Arc<PoolConfig>,
        image: RestoredPool,
    ) -> Result<Self, RestoreError> {
        Self::restore_of_kind(name, partition, Arc::new(PoolKind::new(config)?), image)
    }

    /// The same for one of many pools of a kind.
    ///
    /// # Errors
    /// As for [`Pool::restore`].
    pub fn restore_of_kind(
        name: impl Into<Box<str>>,
        partition: i32,
        kind: Arc<PoolKind>,
        image: RestoredPool,
    ) -> Result<Self, RestoreError> {
        let mut pool = Self::of_kind(name, partition, kind);
        let kind = &pool.identity.kind;
        if kind.fingerprint() != image.fingerprint {
            let (expected, found) = (kind.fingerprint().to_owned(), image.fingerprint);
            return Err(RestoreError::Fingerprint { expected, found });
        }
        (pool.rejected_records, pool.id_scheme) = (image.rejected_records, image.id_scheme);
        pool.live = image.live;
        match &mut pool.live {
            Some(live) => live.resume(kind, image.sections)?,
            None if image.sections.is_some() => return Err(RestoreError::Inconsistent),
            None => {}
        }
        if !is_countable(pool.rejected_records) {
            return Err(RestoreError::Inconsistent);
        }
        Ok(pool)
    }

    /// Touches the pages of a request and counts it in the windows. What it found is [`Pool::last_request`]. Returns
    /// the prompt pages it accessed, and whether it came too late for a window that it belongs to.
    ///
    /// # Errors
    /// A refused request is counted, and changes nothing else.
    pub fn observe(&mut self, event: &RequestEvent<'_>, arrival: Arrival) -> Result<(u64, bool), Refusal> {
        self.observe_in(event, arrival, None, &mut RequestSummary::default())
    }

    /// The same of a request of this session, where the log names it, with room to sum the request up in, which many
    /// pools can share.
    pub(crate) fn observe_in(
        &mut self,
        event: &RequestEvent<'_>,
        arrival: Arrival,
        session: Option<&str>,
        summary: &mut RequestSummary,
    ) -> Result<(u64, bool), Refusal> {
        let config = self.identity.kind.config();
        let checked = self.identity.check(event, self.live.as_deref());
        let checked = checked.and_then(|page_size| Ok((page_size, id_scheme_for(event, self.id_scheme)?)));
        let (page_size, id_scheme) = checked.inspect_err(|_| self.rejected_records += 1)?;
        // A first request that is refused does not fix the page size.
        let was_live = self.live.is_some();
        let live = match &mut self.live {
            Some(live) => live,
            fresh @ None => match LivePool::new(page_size, event.event_time, &self.identity.kind) {
                Ok(live) => fresh.insert(Box::new(live)),
                Err(mismatch) => {
                    self.rejected_records += 1;
                    return Err(mismatch.into());
                }
            },
        };
        let number = live.cache.engine.stack().requests();
        if let Err(refusal) = live.cache.engine.observe(event, page_size, &mut live.cache.outcome) {
            self.rejected_records += 1;
            if !was_live {
                self.live = None;
            }
            return Err(refusal.into());
        }
        self.id_scheme = id_scheme;
        let followed = live.cache.follow(event, number, (arrival.counted, session), config);
        let is_late =
            arrival.counted && live.count(number, event.event_time, arrival, followed, config, summary);
        Ok((live.cache.outcome.page_accesses, is_late))
    }

    /// Keeps the state in as few bytes as a snapshot does, until [`Pool::take_back`]; nothing where more is asked of
    /// the pool than its estimates. What follows is what followed without: but for [`Pool::image`] and
    /// [`Pool::provisional`], the pool has nothing to tell meanwhile.
    pub(crate) fn put_aside(&mut self) {
        let live = self.live.as_deref();
        if let Some(aside) = live.and_then(|live| Aside::of(live, &self.identity.kind)) {
            (self.live, self.aside) = (None, Some(aside));
        }
    }

    /// Has the state in memory again, if it was put aside.
    ///
    /// # Errors
    /// [`RestoreError`] where memory has changed under it: the pool is still put aside.
    pub(crate) fn take_back(&mut self) -> Result<(), RestoreError> {
        if let Some(aside) = &self.aside {
            self.live = Some(aside.read(&self.identity.kind)?);
            self.aside = None;
        }
        Ok(())
    }

    /// Whether the state is put aside.
    pub fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Lets the caches of a profile that models each capacity on its own serve requests before [`Pool::observe`]
    /// takes them, so that `serve` can spread them over threads ([`CacheBank::serve_ahead`]). These must be the next
    /// requests, in this order; those that will be refused are left out here. Nothing is done, and nothing has to be,
    /// where requests served earlier still wait, where the profile has a stack, before the first accepted request,
    /// and where requests are refused for what the stack knows of them.
    pub fn serve_ahead<'a>(
        &mut self,
        events: impl Iterator<Item = &'a RequestEvent<'a>>,
        serve: impl FnOnce(&mut [Lane<'_>]),
    ) {
        let identity = &self.identity;
        let is_known = identity.kind.config().cache.chain_policy != ChainPolicy::Reject;
        let Some(live) = self.live.as_mut().filter(|_| is_known) else { return };
        if live.cache.caches.is_none() || live.cache.caches.is_ahead() {
            return;
        }
        let page_size = live.cache.page_size;
        let engine = &live.cache.engine;
        let mut id_scheme = self.id_scheme;
        let mut is_taken = |event: &RequestEvent<'_>| {
            let is_fit = identity.check(event, Some(live)).is_ok() && engine.check(event, page_size).is_ok();
            let scheme = id_scheme_for(event, id_scheme).ok().filter(|_| is_fit);
            id_scheme = scheme.unwrap_or(id_scheme);
            scheme.is_some()
        };
        let taken: Vec<RequestEvent<'a>> = events.filter(|event| is_taken(event)).copied().collect();
        if !taken.is_empty() {
            live.cache.caches.serve_ahead(&taken, &identity.kind.config().cache, serve);
        }
    }

    /// What [`Pool::observe`] will ask of the stack for this event, to be looked ahead at; none where that
    /// would not pay.
    pub fn upcoming<'a>(&'a self, event: &RequestEvent<'a>) -> Option<Upcoming<'a>> {
        self.live.as_ref()?.cache.engine.upcoming(event)
    }

    /// The smallest watermark at which [`Pool::advance_watermark`] has something to publish.
    pub fn next_deadline(&self) -> Option<EventTime> {
        self.live.as_ref()?.windows.next_deadline()
    }

    /// Publishes what the pool's watermark closes, by end and then in the order the windows are
    /// configured in.
    pub fn advance_watermark(
        &mut self,
        watermark: EventTime,
        at: impl Into<ShownMoment>,
        estimates: &mut Vec<Estimate>,
    ) {
        let Some(live) = &mut self.live else { return };
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        let mut shown = ShownEstimates::new(figures, Trends::Closed(&mut live.trends));
        live.windows.close(watermark, |order, window| shown.add(order, &window));
        estimates.extend(shown.in_order());
    }

    /// Publishes everything that holds a request: the end of a trace.
    pub fn finish(&mut self, at: impl Into<ShownMoment>, estimates: &mut Vec<Estimate>) {
        let Some(live) = &mut self.live else { return };
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        let mut shown = ShownEstimates::new(figures, Trends::Closed(&mut live.trends));
        live.windows.finish(|order, window| shown.add(order, &window));
        estimates.extend(shown.in_order());
    }

    /// What is still open, as it stands; changes nothing.
    pub fn provisional(&self, at: impl Into<ShownMoment>) -> Vec<Estimate> {
        let read = self.aside.as_ref().and_then(|aside| aside.read(&self.identity.kind).ok());
        let Some(live) = read.as_deref().or(self.live.as_deref()) else { return Vec::new() };
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        let mut shown = ShownEstimates::new(figures, Trends::Open(&live.trends));
        live.windows.provisional(|order, window| shown.add(order, &window));
        shown.in_order().collect()
    }

    /// `last:N` or `all`, whichever this is, as it stands; `None` where it is not among the windows or holds no
    /// request. Changes nothing, and answers no question asked alongside, so that it can be looked at often.
    pub fn counted_so_far(&self, kind: WindowKind, at: impl Into<ShownMoment>) -> Option<Estimate> {
        let live = self.live.as_ref()?;
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        let order = figures.config.windows.iter().position(|window| *window == kind)?;
        let figures = PoolFigures { observers: None, ..figures };
        let mut shown = ShownEstimates::new(figures, Trends::Open(&live.trends));
        shown.add(order, &live.windows.counted_so_far(order)?);
        shown.in_order().next()
    }

    /// Lets the trends of `last:N` and `all` see these windows as they stand, publishing nothing: for
    /// logs whose times say nothing, where no publishing interval does it.
    pub fn take_reading(&mut self, at: impl Into<ShownMoment>) {
        let Some(live) = &mut self.live else { return };
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        let mut shown = ShownEstimates::new(figures, Trends::Closed(&mut live.trends));
        live.windows.show_sliding(|order, window| shown.read(order, &window));
    }

    /// The estimate since the start as [`Pool::finish`] would give it at each of the further costs per token, without
    /// answers to further questions; empty where `all` is not among the windows.
    pub fn at_further_costs(&self, at: impl Into<ShownMoment>) -> Vec<(f64, Estimate)> {
        let Some(live) = &self.live else { return Vec::new() };
        let at = at.into();
        let costs = self.identity.kind.config().further_costs.iter();
        costs.filter_map(|cost| Some((*cost, self.at_cost(live, *cost, at)?))).collect()
    }

    fn at_cost(&self, live: &LivePool, cost: f64, at: ShownMoment) -> Option<Estimate> {
        let config = self.identity.kind.config();
        let page_bytes = PageBytes::from_token_cost(cost, live.cache.page_size);
        let curve = curve_at(config, page_bytes);
        let figures = self.identity.figures(&live.cache, self.rejected_records, at);
        let figures = PoolFigures { page_bytes, curve: &curve, observers: None, ..figures };
        self.shown_since_start(live, figures, |tally| tally.counted_at(curve.thresholds()))
    }

    /// The estimate since the start as [`Pool::finish`] would give it of other counts than the pool's, of `fewer`
    /// distinct pages; `None` where `all` is not among the windows.
    pub fn estimate_of(
        &self,
        counts: &Tally,
        fewer: PageCount,
        at: impl Into<ShownMoment>,
    ) -> Option<Estimate> {
        let live = self.live.as_ref()?;
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        let accumulated_pages = PageCount(figures.accumulated_pages.0.saturating_sub(fewer.0));
        self.shown_since_start(live, PoolFigures { accumulated_pages, ..figures }, |_| counts.clone())
    }

    /// The estimate since the start with other figures and counts.
    fn shown_since_start(
        &self,
        live: &LivePool,
        figures: PoolFigures<'_>,
        counts: impl Fn(&Tally) -> Tally,
    ) -> Option<Estimate> {
        // Trends follow the pool's own counts, and no cost changes them.
        let mut trends = live.trends.clone();
        let mut shown = ShownEstimates::new(figures, Trends::Closed(&mut trends));
        live.windows.provisional(|order, mut window| {
            if figures.config.windows.get(order) == Some(&WindowKind::All) {
                window.tally = Cow::Owned(counts(&window.tally));
                shown.add(order, &window);
            }
        });
        shown.in_order().next()
    }

    /// What is counted since the start, where `all` is among the windows and holds a request.
    pub fn counted_since_start(&self) -> Option<&Tally> {
        self.since_start().map(|(tally, _)| tally)
    }

    /// The same, with the pool's number of the first request counted.
    pub fn since_start(&self) -> Option<(&Tally, u64)> {
        self.live.as_ref()?.windows.since_start()
    }

    /// Every distinct requirement since the start at the target ratio with this index, ascending, with
    /// the number of requests that have it; `None` pages, last, is beyond the tracked bound. Empty where
    /// `all` is not among the pool's windows.
    pub fn requirements_since_start(&self, target: usize) -> Vec<(Option<u64>, u64)> {
        let tally = self.counted_since_start();
        let Some((tally, needs)) = tally.and_then(|tally| Some((tally, tally.needs.get(target)?))) else {
            return Vec::new();
        };
        let pages = |need| (need != BEYOND).then(|| self.identity.kind.config().cache.nominal_pages(need));
        Distribution::new(needs, tally.requests).steps().map(|(need, count)| (pages(need), count)).collect()
    }

    /// Found pages by need since the start, in followed pages; `None` where `all` is not among the pool's windows, or
    /// each capacity is modelled on its own.
    pub fn found_since_start(&self) -> Option<&FoundPages> {
        self.counted_since_start()?.found.as_deref()
    }

    /// What perfect foresight would need for the hits that so many pages give since the start; `None` where none are
    /// hits, and where the log was not kept for it.
    pub fn optimal_capacity(&self, pages: u64) -> Option<OptimalCapacity> {
        let config = self.config();
        let followed = config.cache.followed_pages(PageCount(pages));
        let hits = self.found_since_start()?.hits_at(followed);
        let least = self.live.as_ref()?.cache.observers.as_ref()?.least_optimal_capacity(hits)?;
        (config.questions.reuse.optimal && least > 0).then(|| OptimalCapacity {
            pages,
            optimal_pages: config.cache.nominal_pages(least),
            times: followed as f64 / least as f64,
        })
    }

    /// The curve since the start at one capacity; `None` where there is no [`Pool::found_since_start`].
    pub fn point_since_start(
        &self,
        capacity: &CapacitySpec,
        at: impl Into<ShownMoment>,
    ) -> Option<CapacityPoint> {
        let live = self.live.as_ref()?;
        let figures = self.identity.figures(&live.cache, self.rejected_records, at.into());
        figures.points_at(std::slice::from_ref(capacity), self.counted_since_start()?, None).pop()
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// How it is estimated.
    pub fn config(&self) -> &PoolConfig {
        self.identity.kind.config()
    }

    /// Tokens per page, once known.
    pub fn page_size(&self) -> Option<PageSize> {
        self.identity.page_size(self.live.as_deref())
    }

    /// How its page ids are made, once a record has said so.
    pub fn id_scheme(&self) -> Option<IdScheme> {
        self.id_scheme
    }

    /// Bytes per page, once its size is known and where a cost per token is configured.
    pub fn page_bytes(&self) -> Option<PageBytes> {
        self.live.as_ref().and_then(|live| live.cache.page_bytes)
    }

    /// Distinct pages ever seen, scaled up where the pool is sampled.
    pub fn accumulated_pages(&self) -> PageCount {
        let followed = self.engine().map_or(0, |engine| engine.stack().accumulated_pages().0);
        PageCount(self.identity.kind.config().cache.sample_rate.whole_of(followed))
    }

    /// The engine, from the first accepted record on.
    pub fn engine(&self) -> Option<&Engine> {
        self.live.as_ref().map(|live| &live.cache.engine)
    }

    /// What the last accepted request found, and the capacities it is read at.
    pub fn last_request(&self) -> Option<(&Outcome, &Curve)> {
        self.live.as_ref().map(|live| (&live.cache.outcome, &*live.cache.curve))
    }

    /// What the pool's windows measure requests by, from the first accepted record on.
    pub fn counting_rules(&self) -> Option<CountingRules<'_>> {
        Some(self.live.as_ref()?.cache.counting_rules(self.identity.kind.config()))
    }

    /// Why the latest request could not be followed for a question asked alongside the estimates, where it could not.
    pub fn question_refusal(&self) -> Option<&QuestionError> {
        self.live.as_ref()?.cache.observers.as_ref()?.refusal()
    }

    /// What the latest request found behind each router requested, in their order; `None` of one that could not route
    /// it.
    pub fn last_routed(&self) -> &[Option<RoutingShare>] {
        let observers = self.live.as_ref().and_then(|live| live.cache.observers.as_ref());
        observers.map(|observers| observers.last_routed()).unwrap_or_default()
    }

    /// What the latest request finds at most without limit and at each capacity, where a draft head leaves that open.
    pub fn last_draft_range(&self) -> Option<(u64, &[u64])> {
        self.live.as_ref()?.cache.observers.as_ref()?.last_draft_range()
    }

    /// The caches of a profile that models each capacity on its own, from the first accepted record on.
    pub fn caches(&self) -> Option<&CacheBank> {
        self.live.as_ref().map(|live| &live.cache.caches).filter(|caches| !caches.is_none())
    }

    /// Records refused since the start.
    pub fn rejected_records(&self) -> u64 {
        self.rejected_records
    }

    /// Chain violations since the start.
    pub fn chain_violations(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.cache.chain_violations)
    }

    /// Requests that still own pages in the stack.
    pub fn tracked_requests(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.cache.engine.stack().live_requests())
    }
}
