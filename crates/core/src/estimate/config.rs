//! Everything that shapes a pool's estimates, and the checks that make it usable.

use crate::engines::config::CacheConfig;
use crate::engines::profile::Profile;
use crate::engines::rules::EngineRulesError;
use crate::questions::enabled::{ObservedPool, Questions};
use crate::questions::question::{Answerable, QuestionsError};
use crate::sizing::tiers::{TierConfig, TrendRules, is_price, is_tier_name};
use crate::stack::{MAX_REQUEST_PAGES, MAX_TRACKED_PAGES};
use crate::units::capacity::{BytesWithoutCost, CapacitySpec, coarse_grid};
use crate::units::clash::Clash;
use crate::units::ratio::Ratio;
use crate::units::window::{WindowKind, WindowRules};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use xxhash_rust::xxh3::xxh3_64;

/// How one pool is estimated. Two pools of equal configuration that read equal records publish equal
/// estimates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolConfig {
    /// The cache that is modelled.
    pub cache: CacheConfig,
    /// Windows to publish, 1 to 16 different ones.
    pub windows: Vec<WindowKind>,
    /// How long after its end a window waits for late records, in milliseconds of the watermark.
    pub grace_ms: u64,
    /// How far the pool's watermark stays behind the largest event time at least, in milliseconds.
    pub allowed_lateness_ms: u64,
    /// How far it stays behind at most, in milliseconds: as far as the pool's events came out of order, up to this.
    pub max_lateness_ms: u64,
    /// How long whoever reads a log in the order of finishes holds its records back for requests that arrived
    /// earlier, in milliseconds; 0 for not at all. See [`PoolConfig::hold_back_ms`].
    pub hold_back_ms: u64,
    /// Interval of event time at which `last:N` and `all` are published, in milliseconds; 0 for never
    /// but at the end of a trace.
    pub publish_every_ms: u64,
    /// Windows that begin less than this after the pool's first record are marked `warm_up`, in
    /// milliseconds.
    pub min_history_ms: u64,
    /// Requests that a window must have to recommend a capacity, at least 1.
    pub min_requests: u64,
    /// The window to act on, one of `windows`; where absent, [`PoolConfig::window_to_act_on`] chooses.
    pub act_on: Option<WindowKind>,
    /// Tiers to plan, from the fastest, at most 8; no plan where there are none.
    pub tiers: Vec<TierConfig>,
    /// When a requirement has converged, and when a recommendation may change.
    pub trend: TrendRules,
    /// Further costs a token at which the estimate since the start is requested, at most 16.
    pub further_costs: Vec<f64>,
    /// The questions alongside the estimates.
    #[serde(serialize_with = "enabled")]
    pub questions: Questions,
}

/// Enters the fingerprint: raised when equal configurations and records begin to give other results, whatever the
/// engine, a changed default among them; where only one engine's do, the revision of its row
/// ([`EngineSpec`](crate::engines::profile::EngineSpec)) is, and where only the questions alongside estimates do,
/// [`Questions::revision`].
pub const RESULT_VERSION: u32 = 1;

/// Requests that a window must have to recommend a capacity, where nobody says: ten lie above a coverage of 99 % then.
pub const MIN_REQUESTS: u64 = 1000;

/// Largest number of requests that may be asked for.
pub const MAX_MIN_REQUESTS: u64 = 10_000_000;

/// Most tiers of a plan.
pub const MAX_TIERS: usize = 8;

/// Most further costs per token.
pub const MAX_COSTS: usize = 16;

/// Most panes the windows of one kind may have open.
const MAX_OPEN_PANES: u64 = 100_000;

/// Most capacities that are modelled each on its own.
const MAX_POINTS: usize = 64;

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PoolConfigError {
    /// A list is empty or too long.
    #[error("`{key}` has {count} entries: expected {min} to {max}")]
    Entries { key: &'static str, count: usize, min: usize, max: usize },
    /// A number is outside its range.
    #[error("`{key}` is {value}: expected {expected}")]
    Range { key: &'static str, value: String, expected: String },
    /// The same window is requested twice.
    #[error("`windows` names {0} twice: leave one out")]
    DuplicateWindow(WindowKind),
    /// No estimate would be of it.
    #[error("`act_on` is {act_on}, which is not among `windows` ({windows}): name one of these, or add it")]
    NoSuchWindow { act_on: WindowKind, windows: String },
    /// It would never recommend anything.
    #[error(
        "`min_requests` is {least}, which {window}, the window to act on, never holds: lower it, or name a larger \
         window in `act_on`"
    )]
    NeverEnough { window: WindowKind, least: u64 },
    /// Bytes cannot be turned into pages.
    #[error(transparent)]
    BytesWithoutCost(#[from] BytesWithoutCost),
    /// A tier that cannot be planned.
    #[error("tier `{tier}`: {reason}")]
    Tier { tier: String, reason: String },
    /// Each capacity of such a profile costs a cache of its own.
    #[error("`capacities` has {count} entries and `engine` {profile} models each on its own: at most {max}")]
    TooManyPoints { profile: Profile, count: usize, max: usize },
    /// Single nodes cannot be followed by a sample of their pages.
    #[error(
        "`sample_rate` is {rate} and `engine` {profile} is modelled by its own rules at each capacity, which a \
         sample of pages cannot show: leave it at 1"
    )]
    SampledPointwise { profile: Profile, rate: Ratio },
    /// Without a requirement there is nothing to plan, and another cost would be other caches.
    #[error(
        "`engine` {0} has no required capacity and no curve between the capacities requested, so there is \
         nothing to plan from: leave tiers out, and give one cost per token"
    )]
    PlannedPointwise(Profile),
    /// The engine cannot be run with one of its options.
    #[error(transparent)]
    Rules(#[from] EngineRulesError),
    /// The questions alongside the estimates cannot be answered.
    #[error(transparent)]
    Questions(#[from] QuestionsError),
    /// It cannot be written down.
    #[error("the pool's configuration has no fingerprint: {0}")]
    NoFingerprint(String),
    /// A short advance alongside a long wait keeps too many panes open.
    #[error(
        "`windows` has {window}, which keeps up to {panes} panes open with `grace_ms`, `allowed_lateness_ms` and \
         `max_lateness_ms` as they are: at most 100000; lengthen its advance or shorten the wait"
    )]
    OpenPanes { window: WindowKind, panes: u64 },
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            cache: CacheConfig::default(),
            windows: vec![
                WindowKind::Tumbling { size_ms: 300_000 },
                WindowKind::Last { requests: 3000 },
                WindowKind::All,
            ],
            grace_ms: 0,
            allowed_lateness_ms: 10_000,
            max_lateness_ms: 600_000,
            hold_back_ms: 0,
            publish_every_ms: 60_000,
            min_history_ms: 0,
            min_requests: MIN_REQUESTS,
            act_on: None,
            tiers: Vec::new(),
            trend: TrendRules::default(),
            further_costs: Vec::new(),
            questions: Questions::default(),
        }
    }
}

impl PoolConfig {
    /// Whether a pool can be made of this.
    ///
    /// # Errors
    /// The first value that cannot be used, by its key, with what is expected.
    pub fn check(&self) -> Result<(), PoolConfigError> {
        entries("target_ratios", self.cache.target_ratios.len(), 1, 16)?;
        entries("coverages", self.cache.coverages.len(), 1, 64)?;
        entries("capacities", self.cache.capacities.len(), 0, 1024)?;
        entries("windows", self.windows.len(), 1, 16)?;
        range("max_tracked_pages", self.cache.max_tracked_pages.0, 1, MAX_TRACKED_PAGES)?;
        range("max_pages_per_request", u64::from(self.cache.max_pages_per_request), 1, MAX_REQUEST_PAGES)?;
        range("min_requests", self.min_requests, 1, MAX_MIN_REQUESTS)?;
        self.check_sample_rate()?;
        self.cache.rules.check(self.cache.profile, self.cache.page_size)?;
        self.check_points()?;
        self.check_bytes()?;
        self.check_tiers()?;
        self.questions.check(&self.answerable())?;
        self.check_windows()
    }

    fn check_tiers(&self) -> Result<(), PoolConfigError> {
        entries("tiers", self.tiers.len(), 0, MAX_TIERS)?;
        let most = u64::from(TrendRules::MAX_STEPS);
        range("trend.converged_over", u64::from(self.trend.converged_over), 2, most)?;
        range("trend.hold", u64::from(self.trend.hold), 1, most)?;
        for (index, tier) in self.tiers.iter().enumerate() {
            let reason = match tier.unit_price {
                _ if !is_tier_name(&tier.name) => "a name is 1 to 40 letters, digits, `.`, `_` or `-`",
                _ if self.tiers[..index].iter().any(|other| other.name == tier.name) => {
                    "another tier has this name: choose another"
                }
                _ if tier.unit.is_in_bytes() && self.cache.kv_bytes_per_token.is_none() => {
                    &format!("its unit is in bytes: {}", Clash::SIZE_IN_BYTES.key)
                }
                Some(price) if !is_price(price) => "a price is 0 to 1e15",
                _ => continue,
            };
            return Err(PoolConfigError::Tier { tier: tier.name.clone(), reason: reason.to_owned() });
        }
        Ok(())
    }

    fn check_sample_rate(&self) -> Result<(), PoolConfigError> {
        if self.cache.sample_rate > Ratio::ZERO {
            return Ok(());
        }
        let expected = "more than 0, at most 1".to_owned();
        Err(PoolConfigError::Range {
            key: "sample_rate",
            value: self.cache.sample_rate.to_string(),
            expected,
        })
    }

    fn check_points(&self) -> Result<(), PoolConfigError> {
        let (profile, count) = (self.cache.profile, self.cache.capacities.len());
        if self.cache.is_pointwise() && self.cache.sample_rate != Ratio::ONE {
            return Err(PoolConfigError::SampledPointwise { profile, rate: self.cache.sample_rate });
        }
        if self.cache.is_pointwise() && count > MAX_POINTS {
            return Err(PoolConfigError::TooManyPoints { profile, count, max: MAX_POINTS });
        }
        if self.cache.is_pointwise() && (!self.tiers.is_empty() || !self.further_costs.is_empty()) {
            return Err(PoolConfigError::PlannedPointwise(profile));
        }
        Ok(())
    }

    fn check_bytes(&self) -> Result<(), PoolConfigError> {
        entries("further_costs", self.further_costs.len(), 0, MAX_COSTS)?;
        self.further_costs.iter().try_for_each(|cost| token_cost("further_costs", *cost))?;
        let cost = self.cache.kv_bytes_per_token;
        cost.map_or(Ok(()), |cost| token_cost("kv_bytes_per_token", cost))?;
        let mut capacities = self.cache.capacities.iter();
        capacities.try_for_each(|size| size.check("capacities", cost.is_some()))?;
        Ok(self.cache.rules.sizes().try_for_each(|(key, size)| size.check(key, cost.is_some()))?)
    }

    /// How long records are held back for earlier arrivals, in milliseconds; `None` where they are taken in the order
    /// of the log.
    pub fn hold_back_ms(&self) -> Option<u64> {
        Some(self.hold_back_ms).filter(|ms| *ms > 0 && self.cache.models_overlap())
    }

    /// The pool as its questions see it.
    pub fn observed(&self) -> ObservedPool<'_> {
        ObservedPool { cache: &self.cache, questions: &self.questions, windows: &self.windows }
    }

    /// What decides which questions can be answered.
    fn answerable(&self) -> Answerable<'_> {
        Answerable {
            profile: self.cache.profile,
            is_pointwise: self.cache.is_pointwise(),
            has_cost: self.cache.kv_bytes_per_token.is_some(),
            capacities: self.curve_capacities().len(),
            windows: &self.windows,
            tiers: self.tiers.len(),
            is_sampled: self.cache.sample_rate != Ratio::ONE,
            horizon: self.questions.horizon,
        }
    }

    fn check_windows(&self) -> Result<(), PoolConfigError> {
        for (index, window) in self.windows.iter().enumerate() {
            if self.windows[..index].contains(window) {
                return Err(PoolConfigError::DuplicateWindow(*window));
            }
            let panes = self.most_open_panes(*window);
            if panes > MAX_OPEN_PANES {
                return Err(PoolConfigError::OpenPanes { window: *window, panes });
            }
        }
        self.check_window_to_act_on()
    }

    fn check_window_to_act_on(&self) -> Result<(), PoolConfigError> {
        if let Some(act_on) = self.act_on.filter(|act_on| !self.windows.contains(act_on)) {
            let windows: Vec<String> = self.windows.iter().map(ToString::to_string).collect();
            return Err(PoolConfigError::NoSuchWindow { act_on, windows: windows.join(", ") });
        }
        match self.window_to_act_on() {
            Some(window @ WindowKind::Last { requests }) if u64::from(requests) < self.min_requests => {
                Err(PoolConfigError::NeverEnough { window, least: self.min_requests })
            }
            _ => Ok(()),
        }
    }

    /// The window whose recommendation is to be acted on: the configured one, else what
    /// [`WindowKind::to_act_on`] chooses.
    pub fn window_to_act_on(&self) -> Option<WindowKind> {
        self.act_on.or_else(|| WindowKind::to_act_on(&self.windows, self.min_requests))
    }

    /// Most panes a kind of window can have open: those the watermark has not passed yet.
    fn most_open_panes(&self, window: WindowKind) -> u64 {
        let (size_ms, advance_ms) = match window {
            WindowKind::Tumbling { size_ms } => (size_ms, size_ms),
            WindowKind::Hopping { size_ms, advance_ms } => (size_ms, advance_ms),
            WindowKind::Last { .. } | WindowKind::All => return 0,
        };
        let lateness_ms = self.allowed_lateness_ms.max(self.max_lateness_ms);
        let waiting = size_ms.saturating_add(self.grace_ms).saturating_add(lateness_ms);
        (waiting / advance_ms.max(1)).saturating_add(2)
    }

    /// The windows' part.
    pub fn window_rules(&self) -> WindowRules<'_> {
        WindowRules {
            kinds: &self.windows,
            grace_ms: self.grace_ms,
            allowed_lateness_ms: self.allowed_lateness_ms,
            publish_every_ms: self.publish_every_ms,
        }
    }

    /// Whether hits are counted at every capacity: recommended ones are known only when a window is shown.
    pub fn counts_whole_curve(&self) -> bool {
        !self.cache.is_pointwise()
    }

    /// The capacities of the curve: the configured ones, or the default grid.
    pub fn curve_capacities(&self) -> Vec<CapacitySpec> {
        if !self.cache.capacities.is_empty() {
            return self.cache.capacities.clone();
        }
        if self.cache.is_pointwise() || self.questions.needs_few_capacities() {
            return coarse_grid(self.cache.max_tracked_pages);
        }
        self.cache.fine_grid()
    }

    /// Capacities that are counted alongside those of the curve, so that it can be drawn as it is: none where it is
    /// fine enough.
    pub fn further_capacities(&self) -> Vec<CapacitySpec> {
        let is_fine = self.cache.capacities.is_empty() && !self.questions.needs_few_capacities();
        if is_fine || self.cache.is_pointwise() { Vec::new() } else { self.cache.fine_grid() }
    }

    /// Whether nobody named the capacities of the curve, and nothing is asked alongside it that may be reported at
    /// each of them: then those with the hits of their neighbours need not be reported.
    pub fn chooses_capacities(&self) -> bool {
        self.cache.capacities.is_empty() && !self.cache.is_pointwise() && self.questions.is_nothing()
    }

    /// Identifies the configuration, and thereby the results: 16 hexadecimal digits. What is as it is where nobody says
    /// leaves no trace, so that a further setting changes no fingerprint.
    ///
    /// # Errors
    /// [`PoolConfigError::NoFingerprint`] where it cannot be written as JSON, which is what is hashed.
    pub fn fingerprint(&self) -> Result<String, PoolConfigError> {
        let no_fingerprint = |error: serde_json::Error| PoolConfigError::NoFingerprint(error.to_string());
        let written = |config: &Self| serde_json::to_value(config).map_err(no_fingerprint);
        let set = other_than(written(self)?, &written(&Self::default())?);
        let revisions = [RESULT_VERSION, self.cache.profile.spec().revision, self.questions.revision()];
        let json = serde_json::to_string(&(revisions, set)).map_err(no_fingerprint)?;
        Ok(format!("{:016x}", xxh3_64(json.as_bytes())))
    }
}

/// What of an object is not as in another, to every depth.
fn other_than(value: Json, other: &Json) -> Json {
    match (value, other) {
        (Json::Object(members), Json::Object(others)) => {
            let differs = members.into_iter().filter(|(name, value)| others.get(name) != Some(value));
            let members = differs.map(|(name, value)| {
                let value = other_than(value, others.get(&name).unwrap_or(&Json::Null));
                (name, value)
            });
            Json::Object(members.collect())
        }
        (value, _) => value,
    }
}

/// Writes the questions; what only shapes answers says nothing where nothing is asked.
fn enabled<S: Serializer>(questions: &Questions, serializer: S) -> Result<S::Ok, S::Error> {
    if questions.is_nothing() {
        Questions::default().serialize(serializer)
    } else {
        questions.serialize(serializer)
    }
}

fn entries(key: &'static str, count: usize, min: usize, max: usize) -> Result<(), PoolConfigError> {
    if (min..=max).contains(&count) {
        return Ok(());
    }
    Err(PoolConfigError::Entries { key, count, min, max })
}

fn token_cost(key: &'static str, cost: f64) -> Result<(), PoolConfigError> {
    if cost > 0.0 && cost <= 1e12 {
        return Ok(());
    }
    let expected = "more than 0, at most 1e12".to_owned();
    Err(PoolConfigError::Range { key, value: cost.to_string(), expected })
}

fn range(key: &'static str, value: u64, min: u64, max: u64) -> Result<(), PoolConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let expected = format!("{min} to {max}");
    Err(PoolConfigError::Range { key, value: value.to_string(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PageCount;

    #[test]
    fn the_defaults_are_usable_and_refusals_name_the_key() {
        assert_eq!(PoolConfig::default().check(), Ok(()));
        let refused = |change: fn(&mut PoolConfig), part: &str| {
            let mut config = PoolConfig::default();
            change(&mut config);
            let error = config.check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(|c| c.cache.target_ratios.clear(), "`target_ratios` has 0 entries: expected 1 to 16");
        refused(|c| c.windows.push(WindowKind::All), "names all twice");
        refused(|c| c.cache.max_tracked_pages.0 = 0, "`max_tracked_pages` is 0");
        refused(|c| c.cache.max_tracked_pages.0 = (1 << 31) + 1, "`max_tracked_pages` is 2147483649");
        refused(|c| c.cache.max_pages_per_request = u32::MAX, "`max_pages_per_request`");
        refused(|c| c.cache.sample_rate = Ratio::ZERO, "`sample_rate` is 0");
        refused(|c| c.cache.kv_bytes_per_token = Some(f64::NAN), "`kv_bytes_per_token` is NaN");
        refused(|c| c.further_costs = vec![0.0], "`further_costs` is 0");
        refused(|c| c.min_requests = 0, "`min_requests` is 0: expected 1 to 10000000");
        refused(
            |c| c.act_on = Some(WindowKind::Last { requests: 9 }),
            "`act_on` is last:9, which is not among `windows` (tumbling:5m, last:3000, all): name one of these",
        );
        refused(
            |c| c.windows = vec![WindowKind::Last { requests: 999 }],
            "`min_requests` is 1000, which last:999, the window to act on, never holds",
        );
        refused(|c| c.trend.converged_over = 1, "`trend.converged_over` is 1: expected 2 to 100");
        let tier = |text: &str| text.parse::<TierConfig>().expect(text);
        let with = |tiers: Vec<TierConfig>| PoolConfig { tiers, ..PoolConfig::default() };
        assert_eq!(with(vec![tier("a:0.9:1p")]).check(), Ok(()));
        for (tiers, part) in [
            (vec![tier("a:0.9:1p"); 9], "`tiers` has 9 entries: expected 0 to 8"),
            (vec![tier("a:0.9:1p"), tier("a:0.5:2p")], "tier `a`: another tier has this name"),
            (vec![tier("a:0.9:1GiB")], "tier `a`: its unit is in bytes: set `kv_bytes_per_token`"),
            (vec![TierConfig { unit_price: Some(f64::NAN), ..tier("a:0.9:1p") }], "a price is"),
        ] {
            let error = with(tiers).check().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_profile_of_single_capacities_refuses_what_needs_all_of_them() {
        let refused = |config: PoolConfig, part: &str| {
            let error =
                PoolConfig { cache: CacheConfig { profile: Profile::Sglang, ..config.cache }, ..config }
                    .check()
                    .expect_err(part)
                    .to_string();
            assert!(error.contains(part), "{error}");
        };
        let (config, grid) = (PoolConfig::default(), (1..=65).map(CapacitySpec::of_pages));
        let points = PoolConfig {
            cache: CacheConfig { capacities: grid.collect(), ..config.cache.clone() },
            ..config.clone()
        };
        refused(points, "`capacities` has 65 entries and `engine` sglang");
        let sampled = PoolConfig {
            cache: CacheConfig { sample_rate: Ratio::per_mille(500), ..config.cache.clone() },
            ..config.clone()
        };
        refused(sampled, "`sample_rate` is 0.5 and `engine` sglang");
        let tiers = vec!["a:0.9:1p".parse().expect("a tier")];
        refused(PoolConfig { tiers, ..config.clone() }, "nothing to plan from: leave tiers out");
        refused(PoolConfig { further_costs: vec![1.0], ..config }, "give one cost per token");
    }

    #[test]
    fn bytes_need_a_cost_and_short_panes_a_short_wait() {
        let mut config = PoolConfig {
            cache: CacheConfig {
                capacities: vec!["1GiB".parse().expect("a size")],
                ..CacheConfig::default()
            },
            ..PoolConfig::default()
        };
        assert!(matches!(config.check(), Err(PoolConfigError::BytesWithoutCost(_))));
        config.cache.kv_bytes_per_token = Some(61_505.0);
        assert_eq!(config.check(), Ok(()));
        config.windows = vec![WindowKind::Tumbling { size_ms: 1 }];
        assert!(matches!(config.check(), Err(PoolConfigError::OpenPanes { panes: 600_003, .. })));
        config.max_lateness_ms = 0;
        assert_eq!(config.check(), Ok(()));
        config.grace_ms = 86_400_000;
        assert!(matches!(config.check(), Err(PoolConfigError::OpenPanes { panes: 86_410_003, .. })));
    }

    #[test]
    fn the_default_grid_of_a_sampled_pool_reaches_what_its_bound_can_tell() {
        let config = PoolConfig {
            cache: CacheConfig {
                sample_rate: "0.3".parse().expect("a share"),
                max_tracked_pages: PageCount(100),
                ..CacheConfig::default()
            },
            ..PoolConfig::default()
        };
        let largest = config.curve_capacities().last().and_then(|spec| spec.pages(None));
        assert_eq!(largest, Some(PageCount(333)), "100 / 0.3, rounded");
    }

    #[test]
    fn the_fingerprint_changes_with_any_value_and_is_published_so_it_is_frozen() {
        let config = PoolConfig::default();
        let fingerprint = config.fingerprint().expect("json");
        assert_eq!(fingerprint, "a51e02bb79c0a976");
        let other = PoolConfig { grace_ms: 1, ..config };
        assert_ne!(other.fingerprint().expect("json"), fingerprint);
    }
}
