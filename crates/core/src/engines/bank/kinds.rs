//! The kinds of caches that a bank can have, a row each.

use super::ceilings::{NoCeiling, OwnCeiling, SavedHead};
use super::offloaded::OffloadedPool;
use super::points::{Point, PointCache};
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{DraftHead, HybridCache, RulesError};
use crate::engines::lmcache::{LmcacheCache, LmcacheMpRules, LmcacheRules};
use crate::engines::load::{CacheLoad, LoadedCache};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::profile::Profile;
use crate::engines::rules::EnginePart;
use crate::engines::sglang::{HicacheCache, HicacheRules, SglangCache, StateCache, WindowCache};
use crate::engines::trtllm::TrtllmCache;
use crate::units::heap::HeapBytes;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// Caches of one kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Points<C, Never = NoCeiling, Head = ()> {
    /// The head that drafts in them, where they do not say it themselves.
    head: Head,
    /// One a capacity.
    caches: Vec<C>,
    /// One that never evicts within the tracked bound, where the rules lose some at any size: what is lost there. It
    /// has no host.
    never: Never,
}

/// The same whose requests are followed while they are in flight; all are over at once in the one that never evicts.
type Followed<C, Never = NoCeiling, Head = ()> = Points<CacheLoad<C>, Never, Head>;

impl<C: PointCache, Never: OwnCeiling, Head: SavedHead> Points<C, Never, Head> {
    /// Empty caches of these capacities.
    fn build(capacities: &[u64], config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        let cache = |pages: &u64| C::build(PageCount(*pages), config, page_size);
        let caches = capacities.iter().map(cache).collect::<Result<_, _>>()?;
        Ok(Self { head: Head::of(config), caches, never: Never::build(config, page_size)? })
    }
}

impl<C: LoadedCache, Never, Head> Points<C, Never, Head> {
    /// The same with nobody in flight. Requests may end as the log says.
    fn followed<N: From<Never>, H: SavedHead>(self, config: &CacheConfig) -> Followed<C, N, H> {
        let load = |cache| match config.ends_as_logged {
            true => CacheLoad::new(cache).ending_as_logged(),
            false => CacheLoad::new(cache),
        };
        let caches = self.caches.into_iter().map(load).collect();
        Points { head: H::of(config), caches, never: self.never.into() }
    }
}

/// Caches of any kind.
pub(super) trait AnyPoints {
    /// Visits each of them, and last the one that never evicts, where there is one.
    fn each<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Point));
    /// One a capacity.
    fn caches(&self) -> Vec<&Point>;
    /// The one that never evicts, where there is one.
    fn never(&self) -> Option<&Point>;
    /// Lets the head of a configuration draft in them, which they do not say themselves; whether it is the one that
    /// was saved.
    fn resume(&mut self, config: &CacheConfig) -> bool;
    /// Whether requests are followed while they are in flight.
    fn follow_flights(&self) -> bool;
    /// Pages found without limit, where the rules say so and no cache does, of so many that a stack finds.
    fn without_limit(&self, found: u64, config: &CacheConfig, page_size: PageSize) -> Option<u64>;
}
impl<C: PointCache + Send + 'static, Never: OwnCeiling, Head: SavedHead> AnyPoints
    for Points<C, Never, Head>
{
    fn each<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Point)) {
        self.caches.iter_mut().for_each(|cache| visit(cache));
        self.never.point_mut().into_iter().for_each(visit);
    }

    fn caches(&self) -> Vec<&Point> {
        self.caches.iter().map(|cache| cache as &Point).collect()
    }

    fn never(&self) -> Option<&Point> {
        self.never.point()
    }

    fn resume(&mut self, config: &CacheConfig) -> bool {
        self.each(&mut |cache| cache.draft(config.rules.draft_head()));
        self.head == Head::of(config) && self.never.is_of(config)
    }

    fn follow_flights(&self) -> bool {
        C::follows_flights()
    }

    fn without_limit(&self, found: u64, config: &CacheConfig, page_size: PageSize) -> Option<u64> {
        C::without_limit(found, config, page_size)
    }
}

/// Declares the kinds: what they are called, their caches, which configurations have them, and as which kind requests
/// are followed while they are in flight.
macro_rules! kinds {
    ($($name:ident($points:ty) of |$config:ident| $is_of:expr $(=> $followed:ident)?;)+) => {
        /// Caches by their kinds. The order is that of the numbers in a snapshot.
        #[derive(Debug, Default, Serialize, Deserialize)]
        pub(super) enum Caches {
            /// A stack answers for every capacity.
            #[default]
            None,
            $($name($points),)+
        }

        impl Caches {
            /// Empty ones of these capacities; none where a stack answers.
            pub(super) fn build(
                capacities: &[u64],
                config: &CacheConfig,
                page_size: PageSize,
            ) -> Result<Self, RulesError> {
                $(if { let $config = config; $is_of } {
                    return Ok(Self::$name(Points::build(capacities, config, page_size)?));
                })+
                Ok(Self::None)
            }

            /// All of them; none where a stack answers.
            pub(super) fn any(&self) -> Option<&dyn AnyPoints> {
                match self {
                    Self::None => None,
                    $(Self::$name(points) => Some(points),)+
                }
            }

            /// The same, to be served.
            pub(super) fn any_mut(&mut self) -> Option<&mut dyn AnyPoints> {
                match self {
                    Self::None => None,
                    $(Self::$name(points) => Some(points),)+
                }
            }

            /// Whether a configuration has such caches.
            pub(super) fn are_of(&self, config: &CacheConfig) -> bool {
                match self {
                    Self::None => !config.is_pointwise(),
                    $(Self::$name(_) => { let $config = config; $is_of })+
                }
            }

            /// The same with requests followed while they are in flight, where that is modelled. A request that says
            /// no duration is over at once, so that those before make no difference.
            pub(super) fn followed(self, config: &CacheConfig) -> Self {
                match self {
                    $($(Self::$name(points) => Self::$followed(points.followed(config)),)?)+
                    others => others,
                }
            }
        }
    };
}

/// Whether SGLang's cache has one pool, over a host or without one.
fn is_one_pool(config: &CacheConfig, has_host: bool) -> bool {
    config.profile == Profile::Sglang
        && !config.has(EnginePart::OTHER_POOL)
        && config.has(EnginePart::HOST) == has_host
}

/// Whether it has a pool of windows, likewise.
fn has_windows(config: &CacheConfig, has_host: bool) -> bool {
    config.has(EnginePart::WINDOW_POOL) && config.has(EnginePart::HOST) == has_host
}

/// Whether it has a pool of states.
fn has_states(config: &CacheConfig, has_host: bool) -> bool {
    config.has(EnginePart::STATE_POOL) && config.has(EnginePart::HOST) == has_host
}

/// Whether vLLM's pool of blocks is modelled at each capacity, over its tier or without one.
fn is_pool_of_blocks(config: &CacheConfig, has_host: bool) -> bool {
    config.profile == Profile::Vllm && config.is_pointwise() && config.has(EnginePart::HOST) == has_host
}

/// Whether a head drafts in the cache.
fn drafts(config: &CacheConfig) -> bool {
    config.rules.draft_head().drafts()
}

/// Whether this engine is modelled with requests that overlap.
fn overlaps(config: &CacheConfig, engine: Profile) -> bool {
    config.profile == engine && config.models_overlap()
}

// Empty caches are of the first row that a configuration has.
kinds! {
    Sglang(Points<SglangCache>)
        of |config| is_one_pool(config, false) && !drafts(config) => SglangLoads;
    Hybrid(Points<HybridCache, Box<HybridCache>>)
        of |config| is_pool_of_blocks(config, false) && !drafts(config) => HybridLoads;
    Lmcache(Points<LmcacheCache<LmcacheRules>>) of |config| config.profile == Profile::Lmcache => LmcacheLoads;
    Mooncake(Points<MooncakeCache>) of |config| config.profile == Profile::Mooncake => MooncakeLoads;
    LmcacheMp(Points<LmcacheCache<LmcacheMpRules>>) of |config| config.profile == Profile::LmcacheMp => LmcacheMpLoads;
    Hicache(Points<HicacheCache>) of |config| is_one_pool(config, true) => HicacheLoads;
    DraftHybrids(Points<HybridCache, Box<HybridCache>, DraftHead>)
        of |config| is_pool_of_blocks(config, false) && drafts(config) => HybridLoads;
    DraftSglang(Points<SglangCache, Box<SglangCache>>)
        of |config| is_one_pool(config, false) && drafts(config) => SglangLoads;
    Windows(Points<WindowCache, Box<WindowCache>>) of |config| has_windows(config, false);
    HybridLoads(Followed<HybridCache, Box<HybridCache>, DraftHead>)
        of |config| is_pool_of_blocks(config, false) && config.models_overlap();
    SglangLoads(Followed<SglangCache, Option<Box<SglangCache>>>)
        of |config| is_one_pool(config, false) && config.models_overlap();
    LmcacheMpLoads(Followed<LmcacheCache<LmcacheMpRules>>) of |config| overlaps(config, Profile::LmcacheMp);
    MooncakeLoads(Followed<MooncakeCache>) of |config| overlaps(config, Profile::Mooncake);
    LmcacheLoads(Followed<LmcacheCache<LmcacheRules>>) of |config| overlaps(config, Profile::Lmcache);
    States(Points<StateCache, Box<StateCache>>) of |config| has_states(config, false);
    HicacheLoads(Followed<HicacheCache>) of |config| is_one_pool(config, true) && config.models_overlap();
    HostStates(Points<StateCache<HicacheRules>, Box<StateCache>>) of |config| has_states(config, true);
    HostWindows(Points<WindowCache<HicacheRules>, Box<WindowCache>>) of |config| has_windows(config, true);
    Trtllm(Points<TrtllmCache>) of |config| config.profile == Profile::Trtllm;
    Offloaded(Points<OffloadedPool, Box<HybridCache>, DraftHead>) of |config| is_pool_of_blocks(config, true);
}

impl HeapBytes for Caches {
    fn heap_bytes(&self) -> usize {
        let Some(points) = self.any() else { return 0 };
        points.caches().iter().chain(&points.never()).map(|cache| cache.heap_bytes()).sum()
    }
}
