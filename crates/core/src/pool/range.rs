//! Ranges of a pool's requests, taken on any thread and merged in their order.

use super::live::check_size;
use super::{Pool, PoolConfig};
use crate::engines::one_pass::{EngineRange, RangeEngine};
use crate::request::event::{RequestEvent, check_cached_tokens};
use crate::request::labels::Label;
use crate::stack::InOrder;
use crate::units::{EventTime, PageSize};
use std::sync::Arc;

/// Takes the requests of a range.
#[derive(Debug)]
pub struct RangePool {
    config: Arc<PoolConfig>,
    engine: RangeEngine,
    page_size: Option<PageSize>,
}

impl RangePool {
    /// A range without requests, of a pool of this configuration.
    ///
    /// # Errors
    /// [`InOrder`] where no range of such a pool can be merged.
    pub fn new(config: &Arc<PoolConfig>) -> Result<Self, InOrder> {
        if config.cache.is_pointwise() {
            return Err(InOrder::Pointwise);
        }
        let engine = RangeEngine::new(config.cache.engine())?;
        Ok(Self { config: Arc::clone(config), engine, page_size: config.cache.page_size })
    }

    /// Takes the next request.
    ///
    /// # Errors
    /// [`InOrder`]: the range has not taken it, and can be dropped.
    pub fn observe(&mut self, event: &RequestEvent<'_>) -> Result<(), InOrder> {
        let page_size = self.page_size.or(event.page_size).ok_or(InOrder::Refused)?;
        let has_another = event.page_size.is_some_and(|found| found != page_size);
        let is_sound = !has_another
            && check_size(event, page_size, &self.config).is_ok()
            && check_cached_tokens(event, page_size).is_ok();
        // What a scheme is compared with is known once all requests before it were taken.
        if !is_sound || event.labels.get(Label::IdScheme).is_some() {
            return Err(InOrder::Refused);
        }
        self.page_size = Some(page_size);
        self.engine.observe(event, page_size)
    }

    /// The range of the requests taken; `None` where there are none.
    pub fn finish(self) -> Option<EngineRange> {
        self.page_size.map(|page_size| self.engine.finish(page_size))
    }
}

impl Pool {
    /// Begins to merge the range of the next requests, whose event times these are: [`Pool::observe`] is to be called
    /// for each of them, in their order, before the pool is asked anything else than its counts. What they find is
    /// what they find without.
    ///
    /// # Errors
    /// [`InOrder`]: they have to be observed without. Nothing has changed then.
    pub fn merge(&mut self, range: EngineRange, times: Vec<EventTime>) -> Result<(), InOrder> {
        // A pool's page size is that of its first request.
        let live = self.live.as_mut().filter(|live| live.cache.page_size == range.page_size());
        let cache = &mut live.filter(|_| range.requests() == times.len()).ok_or(InOrder::Unfit)?.cache;
        cache.engine.merge(range)?;
        cache.in_flight.expect(times);
        Ok(())
    }
}
