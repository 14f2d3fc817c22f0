//! What a replay asks of its pool alongside the estimates: the questions of the service, of a log that ends.

use super::{Extras, ReplayError, ReplayOptions};
use kvset_core::engines::rules::EnginePart;
use kvset_core::estimate::Estimate;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::Pool;
use kvset_core::questions::costs::{PrefillCosts, PrefillRate};
use kvset_core::questions::enabled::Questions;
use kvset_core::questions::measured::Counts;
use kvset_core::questions::question::Horizon;
use kvset_core::questions::restarts::HourClock;
use kvset_core::questions::reuse::ReuseSetting;
use kvset_core::questions::routing::{HashBy, RouterKind, RouterSpec};
use kvset_core::request::labels::Label;
use kvset_core::units::PageCount;
use kvset_formats::trace::{TimeFacts, TraceClock, TraceRow};

/// The questions as a log that ends is asked them: its cached tokens count wherever it states any, and what passes
/// between tiers is reported where several are planned.
pub(super) fn of_finite_log(pool: &PoolConfig, options: &ReplayOptions) -> Questions {
    let asked = &pool.questions;
    let traffic = pool.tiers.len() > 1 && !pool.cache.is_pointwise();
    let Extras { prefill_rate, prices, .. } = &options.extras;
    let rate = prefill_rate.as_ref().map(PrefillRate::at_start);
    Questions {
        provisioned: options.provisioned.as_ref().or(asked.provisioned.as_ref()).cloned(),
        draft_range: pool.cache.has(EnginePart::PAIRS),
        reuse: ReuseSetting { traffic, prefill_rate: rate.filter(|_| traffic), ..asked.reuse.clone() },
        horizon: Horizon::Finite,
        costs_of_log: prefill_rate.clone().map(|prefill_rate| PrefillCosts { prefill_rate, prices: *prices }),
        ..asked.clone()
    }
}

/// Refuses what the engine cannot tell, by the option that asks for it.
///
/// # Errors
/// [`ReplayError`].
pub(super) fn check(config: &PoolConfig) -> Result<(), ReplayError> {
    let asked = &config.questions;
    if let Some(asked) = asked.first_of_a_stack().map(option_of).filter(|_| config.cache.is_pointwise()) {
        return Err(ReplayError::NoStack { asked, engine: config.cache.profile.name() });
    }
    asked.routers.iter().try_for_each(|spec| spec.check(config.cache.kv_bytes_per_token.is_some()))?;
    Ok(())
}

/// The option that stands for a setting: that of its name, or of one of the list.
fn option_of(setting: &'static str) -> String {
    match setting {
        "routers" => "--router".to_owned(),
        "ttls" => "--ttl".to_owned(),
        other => format!("--{}", other.replace('_', "-")),
    }
}

/// Refuses restarts that are too many, or not all of whose hits are known.
///
/// # Errors
/// [`ReplayError`].
pub(super) fn check_restarts(pool: &Pool) -> Result<(), ReplayError> {
    let counted = pool.counted_since_start().and_then(|tally| tally.observation.as_ref()?.restarts.as_ref());
    let Some(counted) = counted else { return Ok(()) };
    let provisioned = pool.config().questions.provisioned.as_ref();
    let most = pool.config().cache.max_tracked_pages;
    match provisioned.and_then(|spec| spec.pages(pool.page_bytes())).filter(|pages| *pages > most) {
        Some(PageCount(pages)) => Err(ReplayError::RestartsBeyond { pages, most: most.0 }),
        None => Ok(counted.check_room()?),
    }
}

/// Says of an estimate's restarts what their hours count from.
///
/// # Errors
/// The log does not say in which hours requests came, or how long pages were kept.
pub(super) fn set_clock(estimate: &mut Estimate, times: &TimeFacts) -> Result<(), ReplayError> {
    if times.clock.is_none() && !estimate.retention.is_empty() {
        return Err(ReplayError::NoTimes);
    }
    let Some(restarts) = &mut estimate.restarts else { return Ok(()) };
    let clock = match times.clock {
        Some(TraceClock::Epoch) => HourClock::Utc,
        Some(TraceClock::Start) => HourClock::Start,
        Some(TraceClock::Sessions) => {
            return Err(ReplayError::NoHours("each session has a clock of its own"));
        }
        Some(TraceClock::Mixed) => return Err(ReplayError::NoHours("times of several clocks are mixed")),
        None => return Err(ReplayError::NoHours("no row says when its request came")),
    };
    restarts.clock = Some(clock);
    Ok(())
}

/// Which names the rows of a trace have.
#[derive(Debug, Default)]
pub(super) struct NamedFields {
    session: bool,
    tenant: bool,
}

impl NamedFields {
    /// Takes a row in.
    pub(super) fn note(&mut self, row: &TraceRow<'_>) {
        self.session |= row.session.is_some();
        self.tenant |= row.event.labels.get(Label::Tenant).is_some();
    }

    /// Refuses routers that go by a name which no row has.
    ///
    /// # Errors
    /// [`ReplayError::Unnamed`].
    pub(super) fn check(&self, routers: &[RouterSpec]) -> Result<(), ReplayError> {
        routers.iter().try_for_each(|spec| match spec.kind {
            RouterKind::Hash(HashBy::Session) if !self.session => {
                Err(ReplayError::Unnamed { router: spec.written(), by: "session" })
            }
            RouterKind::Hash(HashBy::Tenant) if !self.tenant => {
                Err(ReplayError::Unnamed { router: spec.written(), by: "tenant" })
            }
            _ => Ok(()),
        })
    }
}

/// How a log was taken whose usages all leave the cached tokens out, where nobody asks for them to be zeros.
pub(super) fn never_stated(pool: &Pool) -> Option<String> {
    let counts: &Counts = pool.counted_since_start()?.observation.as_ref()?.measured.as_ref()?.counts()?;
    let is_unclear =
        !pool.config().questions.measured && !counts.state_something() && counts.taken_as_zero > 0;
    is_unclear.then(|| {
        format!(
            "none of {} requests with a usage states its cached tokens, which is taken as not measured: nothing was \
             cached, or the engine does not report them (vLLM: --enable-prompt-tokens-details, SGLang: \
             --enable-cache-report); --measured takes them as zeros",
            counts.taken_as_zero
        )
    })
}
