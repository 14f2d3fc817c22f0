//! The caches of a bank, by what they model.

use super::PointCache;
use super::loaded::SglangLoads;
use super::offloaded::OffloadedPool;
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{DraftHead, HybridCache};
use crate::engines::lmcache::{LmcacheCache, LmcacheMpCache};
use crate::engines::load::CacheLoad;
use crate::engines::mooncake::MooncakeCache;
use crate::engines::profile::Profile;
use crate::engines::sglang::{HicacheCache, HicacheRules, SglangCache, StateCache, WindowCache};
use crate::engines::trtllm::TrtllmCache;
use crate::units::heap::HeapBytes;
use serde::{Deserialize, Deserializer, Serialize};

/// The caches by what they model. The order is that of the numbers in a snapshot.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) enum Caches {
    /// A stack answers for every capacity.
    #[default]
    None,
    Sglang(Vec<SglangCache>),
    Hybrid(Hybrids),
    Lmcache(Vec<LmcacheCache>),
    Mooncake(Vec<MooncakeCache>),
    LmcacheMp(Vec<LmcacheMpCache>),
    Hicache(Vec<HicacheCache>),
    DraftHybrids(DraftHybrids),
    #[serde(deserialize_with = "drafting")]
    DraftSglang(Ceiled<SglangCache>),
    Windows(Ceiled<WindowCache>),
    HybridLoads(DraftHybrids<CacheLoad<HybridCache>>),
    SglangLoads(SglangLoads),
    LmcacheMpLoads(Vec<CacheLoad<LmcacheMpCache>>),
    MooncakeLoads(Vec<CacheLoad<MooncakeCache>>),
    LmcacheLoads(Vec<CacheLoad<LmcacheCache>>),
    States(Ceiled<StateCache>),
    HicacheLoads(Vec<CacheLoad<HicacheCache>>),
    HostStates(Ceiled<StateCache<HicacheRules>, StateCache>),
    HostWindows(Ceiled<WindowCache<HicacheRules>, WindowCache>),
    Trtllm(Vec<TrtllmCache>),
    Offloaded(DraftHybrids<OffloadedPool>),
}

/// Those of a hybrid model.
pub(super) type Hybrids = Ceiled<HybridCache>;

/// The same of a model with a draft head, saved with what that drafts. The one that never evicts serves one request at a time,
/// for nothing is held in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "(DraftHead, Ceiled<C, HybridCache>)")]
#[serde(bound(deserialize = "C: Deserialize<'de> + PointCache"))]
pub(super) struct DraftHybrids<C = HybridCache> {
    pub(super) head: DraftHead,
    pub(super) hybrids: Ceiled<C, HybridCache>,
}

impl<C: PointCache> From<(DraftHead, Ceiled<C, HybridCache>)> for DraftHybrids<C> {
    fn from((head, mut hybrids): (DraftHead, Ceiled<C, HybridCache>)) -> Self {
        hybrids.caches.iter_mut().for_each(|cache| cache.draft(head));
        hybrids.ceiling.draft(head);
        Self { head, hybrids }
    }
}

/// Reads SGLang's caches of a model with a draft head, which they do not say themselves.
fn drafting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ceiled<SglangCache>, D::Error> {
    let Ceiled::<SglangCache> { caches, ceiling } = Ceiled::deserialize(deserializer)?;
    let caches = caches.into_iter().map(SglangCache::drafting).collect();
    Ok(Ceiled { caches, ceiling: Box::new(ceiling.drafting()) })
}

/// Caches, and one that never evicts within the tracked bound: what their rules lose there is lost at any size. It has no
/// host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ceiled<C, Never = C> {
    pub(super) caches: Vec<C>,
    pub(super) ceiling: Box<Never>,
}

/// A cache that a bank serves, on whatever thread.
pub(super) type Point = dyn PointCache + Send;

/// Does `$alone` with caches, one a capacity, or `$both` with them and the one that never evicts, where there is one.
macro_rules! by_capacity {
    ($bank:expr, $caches:ident => $alone:expr, $ceiling:ident => $both:expr) => {
        match $bank {
            Caches::None => Default::default(),
            Caches::Sglang($caches) => $alone,
            Caches::Hicache($caches) => $alone,
            Caches::HicacheLoads($caches) => $alone,
            Caches::Lmcache($caches) => $alone,
            Caches::LmcacheLoads($caches) => $alone,
            Caches::LmcacheMp($caches) => $alone,
            Caches::LmcacheMpLoads($caches) => $alone,
            Caches::Mooncake($caches) => $alone,
            Caches::MooncakeLoads($caches) => $alone,
            Caches::Trtllm($caches) => $alone,
            Caches::SglangLoads(SglangLoads { loads: $caches, ceiling: None }) => $alone,
            Caches::SglangLoads(SglangLoads { loads: $caches, ceiling: Some($ceiling) }) => $both,
            Caches::DraftSglang(Ceiled { caches: $caches, ceiling: $ceiling }) => $both,
            Caches::HybridLoads(DraftHybrids {
                hybrids: Ceiled { caches: $caches, ceiling: $ceiling },
                ..
            }) => $both,
            Caches::Windows(Ceiled { caches: $caches, ceiling: $ceiling }) => $both,
            Caches::States(Ceiled { caches: $caches, ceiling: $ceiling }) => $both,
            Caches::HostWindows(Ceiled { caches: $caches, ceiling: $ceiling }) => $both,
            Caches::HostStates(Ceiled { caches: $caches, ceiling: $ceiling }) => $both,
            Caches::Offloaded(DraftHybrids {
                hybrids: Ceiled { caches: $caches, ceiling: $ceiling },
                ..
            }) => $both,
            Caches::Hybrid(Ceiled { caches: $caches, ceiling: $ceiling })
            | Caches::DraftHybrids(DraftHybrids {
                hybrids: Ceiled { caches: $caches, ceiling: $ceiling },
                ..
            }) => $both,
        }
    };
}

impl Caches {
    /// Visits each of them, and last the one that never evicts, where there is one.
    pub(super) fn each<'a>(&'a mut self, mut visit: impl FnMut(&'a mut Point)) {
        by_capacity!(
            self,
            caches => caches.iter_mut().for_each(|cache| visit(cache)),
            ceiling => {
                caches.iter_mut().for_each(|cache| visit(cache));
                visit(&mut **ceiling);
            }
        );
    }

    /// One a capacity, and the one that never evicts, where there is one.
    pub(super) fn points(&self) -> (Vec<&Point>, Option<&Point>) {
        fn all<C: PointCache + Send + 'static>(caches: &[C]) -> Vec<&Point> {
            caches.iter().map(|cache| cache as &Point).collect()
        }
        by_capacity!(
            self,
            caches => (all(caches), None),
            ceiling => (all(caches), Some(&**ceiling))
        )
    }

    /// Whether a configuration has such caches.
    pub(super) fn are_of(&self, config: &CacheConfig) -> bool {
        let CacheConfig { rules, profile, .. } = config;
        let (has_host, drafts) = (rules.hicache.is_some(), rules.draft_tokens > 0);
        match (self, *profile) {
            (Self::None, _) => !config.is_pointwise(),
            (Self::Sglang(_), Profile::Sglang) => !has_host && !drafts && rules.attention.is_full(),
            (Self::DraftSglang(_), Profile::Sglang) => drafts,
            (Self::Windows(_), Profile::Sglang) => !has_host && rules.has_window_pool(*profile),
            (Self::HostWindows(_), Profile::Sglang) => has_host && rules.has_window_pool(*profile),
            (Self::States(_), Profile::Sglang) => !has_host && rules.has_state_pool(*profile),
            (Self::HostStates(_), Profile::Sglang) => has_host && rules.has_state_pool(*profile),
            (Self::Hicache(_), Profile::Sglang) => has_host && !rules.has_other_pool(*profile),
            (Self::HicacheLoads(_), Profile::Sglang) => has_host && config.models_overlap(),
            (Self::SglangLoads(SglangLoads { ceiling, .. }), Profile::Sglang) => {
                config.models_overlap() && ceiling.is_some() == drafts
            }
            (Self::Hybrid(_) | Self::DraftHybrids(_), Profile::Vllm) => !rules.has_host(*profile),
            (Self::Offloaded(_), Profile::Vllm) => rules.has_host(*profile),
            (Self::Lmcache(_), Profile::Lmcache)
            | (Self::LmcacheMp(_), Profile::LmcacheMp)
            | (Self::Mooncake(_), Profile::Mooncake)
            | (Self::Trtllm(_), Profile::Trtllm) => true,
            (Self::HybridLoads(_), Profile::Vllm)
            | (Self::LmcacheLoads(_), Profile::Lmcache)
            | (Self::LmcacheMpLoads(_), Profile::LmcacheMp)
            | (Self::MooncakeLoads(_), Profile::Mooncake) => config.models_overlap(),
            _ => false,
        }
    }
}

impl HeapBytes for Caches {
    fn heap_bytes(&self) -> usize {
        let (points, ceiling) = self.points();
        points.iter().chain(&ceiling).map(|cache| cache.heap_bytes()).sum()
    }
}
