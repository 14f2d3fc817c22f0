//! What one pool is estimated with: its own settings over the general ones.

use super::{Plan, PoolSettings, Price, Settings, Size, Span, TierSettings, TokenCost};
use kvset_core::engines::config::CacheConfig;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::sizing::tiers::{TierConfig, TrendRules};
use kvset_core::stack::ChainCheck;
use kvset_core::units::PageCount;
use kvset_core::units::capacity::CapacitySpec;
use std::collections::BTreeMap;
use std::path::Path;

/// How long records are held back, where nobody says.
const HOLD_BACK: Span = Span::from_mins(5);

/// Most bytes of records held back, where nobody says.
const HOLD_BACK_BYTES: Size = Size::from_mib(256);

/// What pools hold today: compared with what they need, and no part of it.
#[derive(Debug, Clone, Default)]
pub struct Provisioned {
    general: Option<CapacitySpec>,
    own: BTreeMap<String, CapacitySpec>,
}

impl Provisioned {
    /// What the pool called `name` holds, where it is known.
    pub fn of(&self, name: &str) -> Option<&CapacitySpec> {
        self.own.get(name).or(self.general.as_ref())
    }
}

impl Settings {
    /// What each pool holds today.
    pub fn provisioned(&self) -> Provisioned {
        let own = |pool: &PoolSettings| Some((pool.name.clone(), pool.questions.provisioned.clone()?));
        Provisioned {
            general: self.estimate.questions.provisioned.clone(),
            own: self.pools.iter().filter_map(own).collect(),
        }
    }

    /// The file that stands for the topic of estimates, where a folder is followed.
    pub fn estimates_file(&self) -> Option<&Path> {
        self.input.folder.as_ref().map(|_| self.output.file.as_path())
    }

    /// The configuration of the pool called `name`.
    pub fn pool_config(&self, name: &str) -> PoolConfig {
        let general = &self.estimate;
        let own = self.pools.iter().find(|pool| pool.name == name);
        let cost = own.and_then(|pool| pool.kv_bytes_per_token).or(general.kv_bytes_per_token);
        let capacities = own.and_then(|pool| pool.capacities.as_ref()).unwrap_or(&general.capacities);
        let tracked = own.and_then(|pool| pool.max_tracked_pages).unwrap_or(general.max_tracked_pages);
        let config = PoolConfig {
            cache: CacheConfig {
                profile: general.engine,
                rules: general.rules(own),
                outputs: general.outputs,
                page_size: own.and_then(|pool| pool.page_size).or(general.page_size),
                kv_bytes_per_token: cost.map(TokenCost::get),
                include_partial_page: general.include_partial_page,
                target_ratios: general.target_ratios.clone(),
                coverages: general.coverages.clone(),
                capacities: capacities.clone(),
                max_tracked_pages: PageCount(tracked),
                max_pages_per_request: self.input.max_pages_per_request,
                sample_rate: own.and_then(|pool| pool.sample_rate).unwrap_or(general.sample_rate),
                chain_check: ChainCheck::Sampled,
                chain_policy: general.chain_policy,
                second_copies: false,
                ends_as_logged: false,
            },
            windows: general.windows.clone(),
            act_on: general.act_on,
            min_requests: general.min_requests,
            grace_ms: general.grace.as_ms(),
            allowed_lateness_ms: general.allowed_lateness.as_ms(),
            max_lateness_ms: general.max_lateness.as_ms(),
            hold_back_ms: 0,
            publish_every_ms: general.publish_every.as_ms(),
            min_history_ms: general.min_history.as_ms(),
            tiers: self.tiers_of(own.and_then(|pool| pool.tiers.as_deref())),
            trend: self.plan.rules(),
            further_costs: Vec::new(),
            questions: self.questions(own),
        };
        // Without meaning elsewhere, and no part of a configuration there.
        let hold_back_ms = if config.cache.models_overlap() { self.hold_back(own).as_ms() } else { 0 };
        PoolConfig { hold_back_ms, ..config }
    }

    /// How long records of a pool with these settings of its own are held back, where they are.
    fn hold_back(&self, own: Option<&PoolSettings>) -> Span {
        own.and_then(|pool| pool.hold_back).or(self.estimate.hold_back).unwrap_or(HOLD_BACK)
    }

    /// Most bytes of records of a partition that are held back.
    pub fn hold_back_bytes(&self) -> u64 {
        self.estimate.hold_back_bytes.unwrap_or(HOLD_BACK_BYTES).0
    }

    /// The tiers of these names; all where none are named.
    fn tiers_of(&self, names: Option<&[String]>) -> Vec<TierConfig> {
        let Some(names) = names else { return self.tiers.iter().filter_map(TierSettings::config).collect() };
        let named = |name: &String| self.tiers.iter().find(|tier| tier.name == *name);
        names.iter().filter_map(named).filter_map(TierSettings::config).collect()
    }
}

impl TierSettings {
    /// The tier; `None` while it has no unit, which the check refuses.
    fn config(&self) -> Option<TierConfig> {
        Some(TierConfig {
            name: self.name.clone(),
            coverage: self.coverage,
            inclusion: self.inclusion,
            unit: self.unit.clone()?,
            unit_price: self.unit_price.map(Price::get),
        })
    }
}

impl Plan {
    /// The rules of trends.
    fn rules(&self) -> TrendRules {
        TrendRules {
            step_ms: self.step.as_ms(),
            converged_over: self.converged_over,
            tolerance: self.tolerance,
            min_change: self.min_change,
            hold: self.hold,
        }
    }
}
