//! Tiers below an engine's own cache, asked as the engines' connectors ask (docs/engines.md, tiers below).
//!
//! A connector asks the first tier for the whole prompt, however much of it the engine has, and stores there what the
//! tier did not hold: LMCache's two connectors for vLLM and vLLM's own for Mooncake do so. What the engine finds thus
//! stays young in the tier. vLLM's own tier in host memory is asked for what follows the device's pages, and by its
//! own rules it stores those, too, or does not (docs/engines/vllm.md, the tier in host memory). A further tier is
//! behind the first: it is asked for what follows the pages that those before it held. Tiers do not change what the
//! cache above them finds, for it takes the whole prompt in either way.

use crate::engines::hybrid::RulesError;
use crate::engines::lmcache::{ChunkRules, LmcacheCache};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::profile::Profile;
use crate::engines::rules::EngineRules;
use crate::engines::vllm_offload::{OffloadOptions, OffloadRules, OffloadTier};
use crate::request::event::RequestEvent;
use crate::units::heap::{HeapBytes, heap_bytes};
use crate::units::{PageCount, PageSize};
use std::fmt;

/// What can be a tier below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// LMCache in the engine's process.
    Lmcache,
    /// LMCache as a process of its own.
    LmcacheMp,
    /// A Mooncake store.
    Mooncake,
    /// vLLM's own tier in host memory.
    VllmOffload(OffloadOptions),
}

impl Store {
    /// The profile with the same rules; `None` where it is no engine by itself.
    pub fn profile(self) -> Option<Profile> {
        match self {
            Self::Lmcache => Some(Profile::Lmcache),
            Self::LmcacheMp => Some(Profile::LmcacheMp),
            Self::Mooncake => Some(Profile::Mooncake),
            Self::VllmOffload(_) => None,
        }
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        self.profile().map_or("vllm-offload", Profile::name)
    }

    /// The store that users write so, its options at their defaults; `None` where there is none.
    pub fn named(name: &str) -> Option<Self> {
        let all =
            [Self::Lmcache, Self::LmcacheMp, Self::Mooncake, Self::VllmOffload(OffloadOptions::default())];
        all.into_iter().find(|store| store.name() == name)
    }
}

/// A store as a tier.
trait Tier: HeapBytes + fmt::Debug + Send {
    /// Asks for what follows `held` pages of a request; says how many after them it has, stored now where the rules
    /// say so.
    fn ask(&mut self, event: &RequestEvent<'_>, held: u64) -> u64;

    /// How many pages are taken to be held of a request, of which the tiers before it hold so many and what is above
    /// them so many.
    fn taken_as_held(&self, held: u64, _above: u64) -> u64 {
        held
    }

    /// Pages written since the start.
    fn pages_written(&self) -> PageCount;
}

impl<R: ChunkRules + Send> Tier for LmcacheCache<R>
where
    R::Memory: Send,
{
    fn ask(&mut self, event: &RequestEvent<'_>, held: u64) -> u64 {
        self.request_after(event, held)
    }

    fn pages_written(&self) -> PageCount {
        self.written()
    }
}

impl Tier for MooncakeCache {
    fn ask(&mut self, event: &RequestEvent<'_>, held: u64) -> u64 {
        self.request_after(event, held)
    }

    fn pages_written(&self) -> PageCount {
        self.written()
    }
}

impl Tier for OffloadTier {
    fn ask(&mut self, event: &RequestEvent<'_>, held: u64) -> u64 {
        self.request_after(event, held)
    }

    fn taken_as_held(&self, held: u64, above: u64) -> u64 {
        held.max(above)
    }

    fn pages_written(&self) -> PageCount {
        self.written()
    }
}

/// The tiers below one cache, from the fastest.
#[derive(Debug)]
pub struct Chain {
    tiers: Vec<Box<dyn Tier>>,
    last_hits: Vec<u64>,
    last_writes: Vec<u64>,
}

heap_bytes!(Chain { tiers, last_hits, last_writes });

impl Chain {
    /// Empty tiers of these capacities.
    ///
    /// # Errors
    /// When pages make no whole chunk of LMCache's.
    pub fn new(
        tiers: &[(Store, PageCount)],
        rules: &EngineRules,
        page_size: PageSize,
    ) -> Result<Self, RulesError> {
        let tier = |(store, capacity): &(Store, PageCount)| -> Result<Box<dyn Tier>, RulesError> {
            Ok(match store {
                Store::Lmcache => Box::new(LmcacheCache::new(*capacity, rules.lmcache(page_size))?),
                Store::LmcacheMp => Box::new(LmcacheCache::new(*capacity, rules.lmcache_mp(page_size))?),
                Store::Mooncake => Box::new(MooncakeCache::new(*capacity, rules.mooncake(page_size))),
                Store::VllmOffload(options) => Box::new(OffloadTier::new(
                    *capacity,
                    OffloadRules { options: *options, page_size, prefill_chunk: rules.prefill_chunk },
                )),
            })
        };
        let tiers = tiers.iter().map(tier).collect::<Result<_, RulesError>>()?;
        Ok(Self { tiers, last_hits: Vec::new(), last_writes: Vec::new() })
    }

    /// Serves a request of which the cache above found `found` leading pages; gives the pages that each tier found and
    /// nothing above it.
    pub fn request(&mut self, event: &RequestEvent<'_>, found: u64) -> &[u64] {
        self.serve(event, 0, found)
    }

    /// The same below caches that ask the first tier, too, for what follows the `found` pages only, as SGLang asks the
    /// storage below its HiCache.
    pub fn request_behind(&mut self, event: &RequestEvent<'_>, found: u64) -> &[u64] {
        self.serve(event, found, found)
    }

    /// Asks the first tier for what follows `held` pages; `above` pages are found above it.
    fn serve(&mut self, event: &RequestEvent<'_>, mut held: u64, mut above: u64) -> &[u64] {
        self.last_hits.clear();
        self.last_writes.clear();
        for tier in &mut self.tiers {
            let written = tier.pages_written().0;
            held = tier.taken_as_held(held, above);
            held += tier.ask(event, held);
            self.last_writes.push(tier.pages_written().0 - written);
            self.last_hits.push(held.saturating_sub(above));
            above = above.max(held);
        }
        &self.last_hits
    }

    /// Pages each tier found of the last request.
    pub fn last_hits(&self) -> &[u64] {
        &self.last_hits
    }

    /// Pages written to each tier of the last request.
    pub fn last_writes(&self) -> &[u64] {
        &self.last_writes
    }
}
