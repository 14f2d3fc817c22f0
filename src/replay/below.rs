//! `--below`: tiers under the engine's own cache, at every capacity of its curve.

use super::Extras;
use crate::present::words;
use kvset_core::engines::below::{Chain, Store};
use kvset_core::engines::config::CacheConfig;
use kvset_core::engines::hybrid::RulesError;
use kvset_core::engines::rules::{EnginePart, EngineRules};
use kvset_core::engines::vllm_offload::OffloadOptions;
use kvset_core::pool::Pool;
use kvset_core::questions::worth::TierWorth;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::capacity::{CapacitySize, CapacitySpec};
use kvset_core::units::{Bytes, PageBytes, PageCount};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Whose rules a tier keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierBelow {
    /// SGLang's own, whose tree is that of its device: the engine's caches model it.
    Hicache,
    /// Those of a store alongside the engine.
    Store(Store),
}

impl TierBelow {
    /// Whether it is vLLM's own.
    pub fn is_vllm_offload(self) -> bool {
        matches!(self, Self::Store(Store::VllmOffload(_)))
    }

    /// The store, where it is one.
    pub fn store(self) -> Option<Store> {
        match self {
            Self::Hicache => None,
            Self::Store(store) => Some(store),
        }
    }
}

/// How SGLang's host tier is written.
const HICACHE: &str = "hicache";

/// A tier below, such as `lmcache:500GiB:bandwidth=20GiB,price=0.0004`.
#[derive(Debug, Clone, PartialEq)]
pub struct BelowOption {
    /// Whose rules it keeps to.
    pub tier: TierBelow,
    /// How large it is.
    pub capacity: CapacitySpec,
    /// Bytes that are loaded from it in a second.
    pub bandwidth: Option<Bytes>,
    /// Price of a GiB of it for an hour.
    pub gib_hour: Option<f64>,
}

/// The options of a tier alongside those of its own rules.
#[derive(Debug, Clone, Copy, Default)]
struct TierOptions {
    bandwidth: Option<Bytes>,
    gib_hour: Option<f64>,
}

impl TierOptions {
    /// Takes its own options out of those of a tier, which are separated by commas; gives the others.
    fn take<'a>(&mut self, options: &'a str) -> Result<Vec<&'a str>, String> {
        let mut others = Vec::new();
        for option in options.split(',') {
            match option.split_once('=') {
                Some(("bandwidth", rate)) => {
                    let rate = rate.strip_suffix("/s").unwrap_or(rate);
                    let rate = rate.parse::<CapacitySpec>().map_err(|error| format!("bandwidth: {error}"))?;
                    match rate.size {
                        CapacitySize::Bytes(bytes) => self.bandwidth = Some(bytes),
                        CapacitySize::Pages(_) => {
                            return Err("bandwidth is bytes per second, such as 20GiB".to_owned());
                        }
                    }
                }
                Some(("price", price)) => {
                    let price: Option<f64> = price.parse().ok();
                    let price = price.filter(|price| (0.0..=1e9).contains(price));
                    let price = price.ok_or("price is a number from 0 to 1000000000, per GiB and hour")?;
                    self.gib_hour = Some(price);
                }
                _ => others.push(option),
            }
        }
        Ok(others)
    }
}

impl FromStr for BelowOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no tier: expected hicache:SIZE, lmcache:SIZE, lmcache-mp:SIZE, mooncake:SIZE or \
                 vllm-offload:SIZE, such as lmcache:500GiB or vllm-offload:500GiB:policy=arc"
            )
        };
        let said = |error: &dyn fmt::Display| format!("{text}: {error}");
        let (name, rest) = text.split_once(':').ok_or_else(expected)?;
        // Options follow the size behind a colon, or a comma as that between options.
        let (size, options) =
            rest.split_once([':', ',']).map_or((rest, None), |(size, all)| (size, Some(all)));
        let mut taken = TierOptions::default();
        let own = options.map(|options| taken.take(options)).transpose().map_err(|error| said(&error))?;
        let own = own.unwrap_or_default();
        let store = Store::named(name);
        if store.is_none() && name != HICACHE {
            return Err(expected());
        }
        let (names, forms) = match store {
            Some(Store::VllmOffload(_)) => (
                &OffloadOptions::NAMES[..],
                "policy=lru or policy=arc, store_threshold=N, blocks_per_chunk=N, ",
            ),
            _ => (&[][..], ""),
        };
        let is_known = |option: &&str| option.split_once('=').is_some_and(|(name, _)| names.contains(&name));
        if let Some(unknown) = own.iter().find(|option| !is_known(option)) {
            return Err(format!(
                "{text}: `{unknown}` is no option of {name}: expected {forms}bandwidth=SIZE or price=X"
            ));
        }
        let tier = match store {
            None => TierBelow::Hicache,
            Some(Store::VllmOffload(_)) if !own.is_empty() => {
                let options = own.join(",").parse().map_err(|error: String| said(&error))?;
                TierBelow::Store(Store::VllmOffload(options))
            }
            Some(store) => TierBelow::Store(store),
        };
        let TierOptions { bandwidth, gib_hour } = taken;
        let capacity = size.parse().map_err(|error| said(&error))?;
        Ok(Self { tier, capacity, bandwidth, gib_hour })
    }
}

impl fmt::Display for BelowOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.tier.store().map_or(HICACHE, Store::name);
        write!(f, "{name}:{}", self.capacity)?;
        match self.tier {
            TierBelow::Store(Store::VllmOffload(options)) if options != OffloadOptions::default() => {
                write!(f, ":{options}")
            }
            _ => Ok(()),
        }
    }
}

/// The rules of vLLM over its tier in host memory, where that is below it.
pub fn over_offload(rules: EngineRules, below: &[BelowOption]) -> EngineRules {
    let of = |below: &BelowOption| match below.tier {
        TierBelow::Store(Store::VllmOffload(options)) => Some((below.capacity.clone(), options)),
        _ => None,
    };
    match below.first().and_then(of) {
        Some((size, options)) => rules.over_offload(Some(size), options),
        None => rules.over_offload(None, OffloadOptions::default()),
    }
}

/// What the tiers found under one capacity of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BelowHits {
    /// The tier, as it was requested.
    pub tier: String,
    /// Its capacity, in pages.
    pub pages: u64,
    /// Pages that it found and no tier above it.
    pub page_hits: u64,
    /// Pages that were written to it.
    pub page_writes: u64,
    /// Under several groups of layers its pages are blocks of one group each: so many pages of all groups it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_of_all_groups: Option<u64>,
    /// The same if each block took the bytes of its own group's layers, where a block is as large as the largest
    /// group's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_pages_of_all_groups: Option<u64>,
}

impl BelowHits {
    /// How many pages of all groups of layers it holds, in words, where there are several.
    pub(crate) fn of_groups(&self) -> Option<String> {
        let (pages, all, fair) = (self.pages, self.pages_of_all_groups?, self.fair_pages_of_all_groups?);
        let [pages, all, fair] = [pages, all, fair].map(words::integer);
        Some(format!(
            "{} holds {pages} blocks of one group of layers each: {all} pages of all groups, and {fair} if each block took \
             its own group's bytes.",
            self.tier
        ))
    }

    /// Pages read from it and written to it, each under a name for a column.
    pub(crate) fn traffic(&self) -> [(String, u64); 2] {
        let name = |what| format!("{} {what}", self.tier);
        [(name("read"), self.page_hits), (name("written"), self.page_writes)]
    }
}

/// Follows a replay.
#[derive(Debug)]
pub(super) struct Tiers {
    asked: Vec<BelowOption>,
    rules: EngineRules,
    /// In pages, once a page's bytes are known.
    pages: Vec<u64>,
    /// Seconds that loading a page from each takes; none where its bandwidth is not given.
    page_seconds: Vec<f64>,
    page_bytes: Option<PageBytes>,
    /// Whether the engine's caches model the first of them.
    is_first_in_caches: bool,
    /// Groups of layers whose blocks the first of them holds, the layers in all of them and those of one.
    groups: Option<(u64, (u64, u64))>,
    /// The others, one chain a capacity of the engine.
    chains: Vec<Chain>,
    /// What each tier found of the last request, by capacity.
    last: Vec<Vec<u64>>,
    /// Hits of the requests that count, by capacity and tier.
    found: Vec<Vec<u64>>,
    /// Pages that these wrote, likewise.
    written: Vec<Vec<u64>>,
}

impl Tiers {
    /// What a reader should know of a store under several groups of layers, which no test compares with vLLM.
    pub(super) fn note(&self, cache: &CacheConfig) -> Option<String> {
        let store = self.asked.first()?.tier.store().filter(|_| !self.is_first_in_caches)?;
        let has_groups = cache.has(EnginePart::SEVERAL_GROUPS);
        has_groups.then(|| {
            format!(
                "{} below several groups of layers was not compared with vLLM, which names in its pool what it loads; that is \
                 modelled of vllm-offload alone, so these figures are approximations",
                store.name()
            )
        })
    }

    /// Tiers that have seen nothing; none where none are requested.
    pub(super) fn new(extras: &Extras, cache: &CacheConfig) -> Option<Self> {
        let (asked, rules) = (&extras.below, &extras.below_rules);
        asked.first()?;
        let groups = cache.rules.attention.groups().len() as u64;
        let is_offload = cache.rules.vllm_offload.is_some();
        Some(Self {
            groups: (is_offload && groups > 1).then(|| (groups, extras.layers.unwrap_or((groups, 1)))),
            is_first_in_caches: cache.has(EnginePart::HOST),
            asked: asked.to_vec(),
            rules: rules.clone(),
            pages: Vec::new(),
            page_seconds: Vec::new(),
            page_bytes: None,
            chains: Vec::new(),
            last: Vec::new(),
            found: Vec::new(),
            written: Vec::new(),
        })
    }

    /// Takes the request in that the pool took last.
    pub(super) fn observe(
        &mut self,
        pool: &Pool,
        event: &RequestEvent<'_>,
        counted: bool,
    ) -> Result<(), RulesError> {
        let (Some(page_size), Some((outcome, curve))) = (pool.page_size(), pool.last_request()) else {
            return Ok(());
        };
        if self.pages.is_empty() {
            let page_bytes = pool.page_bytes();
            self.page_bytes = page_bytes;
            let pages = |below: &BelowOption| below.capacity.pages(page_bytes).map_or(0, |pages| pages.0);
            self.pages = self.asked.iter().map(pages).collect();
            let bytes = page_bytes.map_or(0.0, |bytes| bytes.0 as f64);
            let seconds = |below: &BelowOption| below.bandwidth.map_or(0.0, |rate| bytes / rate.0 as f64);
            self.page_seconds = self.asked.iter().map(seconds).collect();
            let stores = self.asked.iter().zip(&self.pages).skip(usize::from(self.is_first_in_caches));
            let stores = stores.filter_map(|(below, pages)| Some((below.tier.store()?, PageCount(*pages))));
            let stores: Vec<_> = stores.collect();
            for _ in curve.thresholds() {
                self.chains.push(Chain::new(&stores, &self.rules, page_size)?);
                self.last.push(Vec::with_capacity(self.asked.len()));
                self.found.push(vec![0; self.asked.len()]);
                self.written.push(vec![0; self.asked.len()]);
            }
        }
        let has_host = self.is_first_in_caches;
        let capacities = self.chains.iter_mut().zip(&mut self.last).zip(&mut self.found);
        for (at, (threshold, ((chain, last), found))) in curve.thresholds().iter().zip(capacities).enumerate()
        {
            let of = |hits: &[u64]| hits.get(at).copied().unwrap_or(0);
            let (own, host, host_writes) = match pool.caches() {
                Some(caches) => {
                    (of(caches.last_hits()), of(caches.last_host_hits()), of(caches.last_host_writes()))
                }
                None => (outcome.hits_at(*threshold), 0, 0),
            };
            last.clear();
            last.extend(has_host.then_some(host));
            last.extend(match has_host {
                true => chain.request_behind(event, own + host),
                false => chain.request(event, own),
            });
            if counted {
                found.iter_mut().zip(last.iter()).for_each(|(sum, hits)| *sum += hits);
                let own = has_host.then_some(&host_writes);
                let writes = own.into_iter().chain(chain.last_writes());
                self.written[at].iter_mut().zip(writes).for_each(|(sum, pages)| *sum += pages);
            }
        }
        Ok(())
    }

    /// What the tiers found of the last request, by capacity of the engine.
    pub(super) fn last_hits(&self) -> impl Iterator<Item = &[u64]> {
        self.last.iter().map(Vec::as_slice)
    }

    /// What the tiers gave the last request under one capacity of the engine: pages, and the seconds that it takes to
    /// load them.
    pub(super) fn served(&self, at: usize) -> (u64, f64) {
        let hits = self.last.get(at).into_iter().flatten();
        let each = hits.zip(&self.page_seconds).map(|(pages, seconds)| (*pages, *pages as f64 * seconds));
        each.fold((0, 0.0), |(all, time), (pages, seconds)| (all + pages, time + seconds))
    }

    /// What each is worth.
    pub(super) fn worth(&self) -> Vec<TierWorth> {
        let bytes = |below: &BelowOption| match below.capacity.size {
            CapacitySize::Bytes(bytes) => Some(bytes.0),
            CapacitySize::Pages(pages) => self.page_bytes.map(|bytes| bytes.0 * pages.0),
        };
        let of = |below: &BelowOption| TierWorth {
            tier: below.to_string(),
            bytes: bytes(below),
            bandwidth: below.bandwidth.map(|rate| rate.0),
            gib_hour: below.gib_hour,
        };
        self.asked.iter().map(of).collect()
    }

    /// What they found in all, by capacity of the engine.
    pub(super) fn result(&self) -> Vec<Vec<BelowHits>> {
        let of = |(found, written): (&Vec<u64>, &Vec<u64>)| {
            let tiers = self.asked.iter().zip(&self.pages).zip(found.iter().zip(written));
            let hits = |((below, pages), (hits, writes)): ((&BelowOption, &u64), (&u64, &u64))| BelowHits {
                tier: below.to_string(),
                pages: *pages,
                page_hits: *hits,
                page_writes: *writes,
                pages_of_all_groups: self.groups.map(|(groups, _)| pages / groups),
                fair_pages_of_all_groups: self.groups.map(|(groups, (layers, a_group))| {
                    let fair = u128::from(*pages) * u128::from(a_group) / u128::from(layers.max(1));
                    // Fewer than blocks.
                    fair.max(u128::from(pages / groups)) as u64
                }),
            };
            tiers.map(hits).collect()
        };
        self.found.iter().zip(&self.written).map(of).collect()
    }
}
