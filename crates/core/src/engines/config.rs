//! How one pool's cache is modelled, and at which sizes it is requested.

use crate::engines::one_pass::EngineConfig;
use crate::engines::profile::{EngineCurve, Layout, Outputs, OverlapMode, Profile};
use crate::engines::rules::{EnginePart, EngineRules};
use crate::engines::sglang::HicacheRules;
use crate::engines::vllm_offload::OffloadOptions;
use crate::stack::{ChainCheck, ChainPolicy};
use crate::units::capacity::{CapacitySpec, default_grid};
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::Serialize;

/// The cache of one pool: its engine, its pages, what of them is followed, and the figures that are requested of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheConfig {
    /// The modelled engine. One that is [pointwise](CacheConfig::is_pointwise) keeps one cache per capacity in
    /// memory, each up to its capacity.
    pub profile: Profile,
    /// The options of the engine.
    pub rules: EngineRules,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
    /// Tokens per page; where absent, the pool's first event decides.
    pub page_size: Option<PageSize>,
    /// Bytes of KV state per token; where absent, capacities are in pages and tokens only.
    pub kv_bytes_per_token: Option<f64>,
    /// Count a partial last page.
    pub include_partial_page: bool,
    /// Shares of the reusable prefix a request must keep; 1 to 16 of them.
    pub target_ratios: Vec<Ratio>,
    /// Shares of the requests a capacity must cover; 1 to 64 of them.
    pub coverages: Vec<Ratio>,
    /// Capacities of the hit-rate curve, at most 1024 (64 where each is modelled on its own, or more is requested of
    /// each); where empty, four per doubling up to the bound (or one per doubling from 64 pages to 2^20).
    pub capacities: Vec<CapacitySpec>,
    /// Largest capacity with exact results, and most pages held in memory; of sampled pages where the
    /// pool is sampled.
    pub max_tracked_pages: PageCount,
    /// Most pages one request may bring.
    pub max_pages_per_request: u32,
    /// Share of the pages that are followed.
    pub sample_rate: Ratio,
    /// Which ids are watched for chain violations.
    pub chain_check: ChainCheck,
    /// What happens to a request that violates the chain.
    pub chain_policy: ChainPolicy,
    /// Model vLLM's pool with one group of layers at each capacity by itself: of a page that was computed twice, which
    /// copy is found depends on the capacity.
    pub second_copies: bool,
    /// There, requests that overlap end when the log says, and do not take as long as it says from the moment on at
    /// which they find room: an engine that was as full has the time that they waited in its log. A replay's alone,
    /// for it is not saved.
    #[serde(skip)]
    pub ends_as_logged: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            profile: Profile::Paper,
            rules: EngineRules::default(),
            outputs: Outputs::Cached,
            page_size: None,
            kv_bytes_per_token: None,
            include_partial_page: false,
            target_ratios: vec![Ratio::per_mille(990)],
            coverages: [500, 900, 950, 990, 999].map(Ratio::per_mille).into(),
            capacities: Vec::new(),
            max_tracked_pages: PageCount(1 << 26),
            max_pages_per_request: 1 << 20,
            sample_rate: Ratio::ONE,
            chain_check: ChainCheck::Sampled,
            chain_policy: ChainPolicy::Report,
            second_copies: false,
            ends_as_logged: false,
        }
    }
}

impl CacheConfig {
    /// The same for another engine, which keeps what of the options it has.
    pub fn with_profile(&self, profile: Profile) -> Self {
        Self { profile, rules: self.rules.of_profile(profile), ..self.clone() }
    }

    /// Whether the engine has a part, with these options.
    pub fn has(&self, part: EnginePart) -> bool {
        part.holds(&self.rules, self.profile)
    }

    /// Whether each capacity is modelled on its own: more capacity can lose hits, so nothing follows for the
    /// capacities in between, and no request has a required capacity.
    pub fn is_pointwise(&self) -> bool {
        matches!(self.profile.spec().curve, EngineCurve::Single(_))
            || self.has(EnginePart::BLOCK_POOL)
            || self.models_second_copies()
    }

    /// Whether one pass tells of vLLM's pool at every capacity, which counts second copies and has no choice between
    /// them.
    pub fn has_copies_in_one_pass(&self) -> bool {
        self.is_of_blocks() && !self.is_pointwise()
    }

    /// Whether vLLM's pool with one group of layers is modelled at each capacity for these copies alone.
    fn models_second_copies(&self) -> bool {
        self.second_copies && self.is_of_blocks()
    }

    /// Whether pages are blocks of vLLM's pool.
    fn is_of_blocks(&self) -> bool {
        self.profile.spec().layout == Layout::Blocks
    }

    /// The engine's part. A profile without a single stack gets one alongside its caches, for what could be found
    /// with unlimited capacity.
    pub fn engine(&self) -> EngineConfig {
        EngineConfig {
            profile: self.profile.spec().stack,
            outputs: self.outputs,
            overlap: self.rules.overlap,
            keeps_copies: self.has_copies_in_one_pass(),
            // Chunks and objects are of full pages.
            include_partial_page: self.include_partial_page && !self.profile.is_store(),
            sample_rate: self.sample_rate,
            max_tracked_pages: self.max_tracked_pages,
            chain_check: self.chain_check,
            chain_policy: self.chain_policy,
        }
    }

    /// Whether requests that overlap are modelled, where events state durations.
    pub fn models_overlap(&self) -> bool {
        // A store's stack, which says what could be found without limit, is the paper's.
        let is_store = self.profile.is_store();
        is_store && self.rules.overlap == OverlapMode::On || self.engine().models_overlap()
    }

    /// Bytes per page of this size, where a cost per token is configured.
    pub fn page_bytes(&self, page_size: PageSize) -> Option<PageBytes> {
        self.kv_bytes_per_token.and_then(|cost| PageBytes::from_token_cost(cost, page_size))
    }

    /// Pages that a host tier of this size holds; none where there is none.
    pub(crate) fn host_pages(&self, size: Option<&CapacitySpec>, page_size: PageSize) -> PageCount {
        // A size in bytes without a cost is refused by `check`.
        size.and_then(|size| size.pages(self.page_bytes(page_size))).unwrap_or(PageCount(0))
    }

    /// The host tier under SGLang's device, which holds nothing where there is none.
    pub fn hicache(&self, page_size: PageSize) -> HicacheRules {
        let host = self.host_pages(self.rules.hicache.as_ref(), page_size);
        HicacheRules { host, write: self.rules.hicache_write, page_size, outputs: self.outputs }
    }

    /// vLLM's tier in host memory under its pool of blocks, in blocks of that; `None` where there is none.
    pub(crate) fn offload(&self, page_size: PageSize) -> Option<(PageCount, OffloadOptions)> {
        // A size in bytes without a cost is refused by `check`.
        let blocks = self.rules.vllm_offload.as_ref()?.pages(self.page_bytes(page_size))?;
        Some((blocks, self.rules.offload_options()))
    }

    /// The smallest nominal capacity that holds so many followed pages; an estimate at a sample rate
    /// below 1.
    pub fn nominal_pages(&self, followed: u64) -> u64 {
        self.sample_rate.whole_of(followed)
    }

    /// The target ratios a required capacity exists for: none where each capacity is modelled on its own.
    pub fn measured_ratios(&self) -> &[Ratio] {
        if self.is_pointwise() { &[] } else { &self.target_ratios }
    }

    /// Whether output pages enter the modelled cache.
    pub fn caches_outputs(&self) -> bool {
        self.profile.spec().keeps_outputs && self.outputs == Outputs::Cached
    }

    /// The followed pages that tell what a nominal capacity finds.
    pub fn followed_pages(&self, capacity: PageCount) -> u64 {
        self.sample_rate.share_of(capacity.0)
    }

    /// Capacities close enough to draw a curve from, up to the tracked bound.
    pub fn fine_grid(&self) -> Vec<CapacitySpec> {
        // Rounding adds less than a followed page, so the bound still tells this capacity.
        let bound = self.sample_rate.whole_of(self.max_tracked_pages.0);
        default_grid(PageCount(bound))
    }
}
