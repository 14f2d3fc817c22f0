//! The caches by their own rules at one capacity, in runs of pages, alongside page-at-a-time models of the same
//! rules: `cargo bench --bench caches`. Prints the ratio; needs the shared traces.

#[path = "../tests/support/page_tree.rs"]
mod page_tree;
#[path = "../tests/support/shared.rs"]
#[allow(dead_code)]
mod shared;
#[path = "../tests/support/slow_hybrid.rs"]
#[allow(dead_code)]
mod slow_hybrid;
#[path = "../tests/support/slow_load.rs"]
#[allow(dead_code)]
mod slow_load;

use kvset::core::engines::hybrid::{
    Attention, BlockRetention, DraftHead, GroupKind, HybridCache, HybridRules,
};
use kvset::core::engines::mooncake::{MooncakeCache, MooncakeRules};
use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::engines::sglang::{NoHost, PoolRules, StateCache, StateRules, WindowCache, WindowPoolRules};
use kvset::core::engines::trtllm::{TrtllmCache, TrtllmRules};
use kvset::core::engines::vllm_offload::{OffloadOptions, OffloadRules, OffloadTier};
use kvset::core::request::event::RequestEvent;
use kvset::core::request::labels::{Label, Labels};
use kvset::core::request::outcome::Outcome;
use kvset::core::units::pages::PageIds;
use kvset::core::units::ratio::{Proportion, Ratio};
use kvset::core::units::{EventTime, PageCount, PageSize};
use page_tree::{Other, PageRules, PageTree};
use shared::{TraceRow, mooncake_trace};
use slow_hybrid::{Kind, Retain, SlowHybrid};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Pages of so many tokens in the trace.
const LOGGED_PAGE: u64 = 512;

/// The best of at least so many runs is printed, and of as many as fit in a time: one may take less than a millisecond.
const RUNS: usize = 3;
const TIME: Duration = Duration::from_millis(200);

/// The trace at a smaller page: each logged page becomes so many that belong together.
fn at_page(trace: &[TraceRow], page: u64) -> Vec<TraceRow> {
    let parts = LOGGED_PAGE / page;
    let split = |row: &TraceRow| {
        let ids = row.hash_ids.iter().flat_map(|id| (0..parts).map(move |part| id * parts + part));
        TraceRow {
            input_length: row.input_length,
            output_length: row.output_length,
            hash_ids: ids.take(row.input_length.div_ceil(page) as usize).collect(),
        }
    };
    trace.iter().map(split).collect()
}

fn event(row: &TraceRow) -> RequestEvent<'_> {
    RequestEvent {
        page_ids: PageIds::from_slice(&row.hash_ids),
        input_tokens: Some(row.input_length),
        output_tokens: Some(row.output_length),
        ..RequestEvent::default()
    }
}

/// The shortest time of some runs, with what they all answer.
fn best(run: impl Fn() -> u64) -> (Duration, u64) {
    let begun = Instant::now();
    let timed = (0..).take_while(|done| *done < RUNS || begun.elapsed() < TIME).map(|_| {
        let start = Instant::now();
        let hits = run();
        (start.elapsed(), hits)
    });
    timed.min().unwrap_or_default()
}

fn fast_hybrid(trace: &[TraceRow], capacity: u64, rules: &HybridRules) -> u64 {
    let mut cache = HybridCache::new(PageCount(capacity), rules.clone()).expect("sound rules");
    trace.iter().map(|row| cache.request(&event(row)).hits).sum()
}

fn slow_hybrid(trace: &[TraceRow], capacity: u64, rules: &HybridRules) -> u64 {
    let kinds = rules.attention.groups().iter().map(|kind| match kind {
        GroupKind::Full => Kind::Full,
        GroupKind::Window(tokens) => Kind::Window(u64::from(*tokens)),
        GroupKind::Mamba => Kind::Mamba,
    });
    let retain = if rules.retention == BlockRetention::All { Retain::All } else { Retain::Ends };
    let (kinds, page) = (kinds.collect::<Vec<_>>(), u64::from(rules.page_size.get()));
    let mut cache = SlowHybrid::new(&kinds, capacity, page, retain, u64::from(rules.prefill_chunk), true);
    let hits = trace.iter().map(|row| cache.request(&row.hash_ids, row.input_length, row.output_length, &[]));
    hits.map(|hits| hits.expect("it fits")).sum()
}

fn report(name: &str, requests: usize, fast: (Duration, u64), slow: (Duration, u64)) {
    assert_eq!(fast.1, slow.1, "{name}: both models find the same");
    let each = |time: Duration| time.as_secs_f64() * 1e6 / requests as f64;
    let ratio = slow.0.as_secs_f64() / fast.0.as_secs_f64();
    println!(
        "{name:<46} {:>8.2} us a request in runs, {:>9.2} us page at a time: {ratio:>6.1} times",
        each(fast.0),
        each(slow.0)
    );
}

fn hybrids(trace: &[TraceRow]) {
    for page in [512u64, 16] {
        let trace = at_page(trace, page);
        let capacity = 10_000 * LOGGED_PAGE / page;
        for groups in ["full+window:128", "full+5*window:1024", "full+3*mamba"] {
            for retention in [BlockRetention::Ends, BlockRetention::All] {
                let rules = HybridRules {
                    attention: groups.parse::<Attention>().expect("groups"),
                    retention,
                    prefill_chunk: 8192,
                    page_size: PageSize::new(page as u32).expect("not zero"),
                    outputs: Outputs::Cached,
                    head: DraftHead::default(),
                };
                let name = format!("{groups}, {page} tokens, retention {retention}");
                let fast = best(|| fast_hybrid(&trace, capacity, &rules));
                let slow = best(|| slow_hybrid(&trace, capacity, &rules));
                report(&name, trace.len(), fast, slow);
            }
        }
    }
}

/// SGLang's tree over a pool of windows or of states, without the answers.
fn sglang_pools(trace: &[TraceRow]) {
    let (prefill_chunk, outputs) = (8192, Outputs::Ignored);
    for page in [64u64, 16] {
        let trace = at_page(trace, page);
        let capacity = PageCount(10_000 * LOGGED_PAGE / page);
        let page_size = PageSize::new(page as u32).expect("not zero");
        let slow = |rules: PageRules| {
            let mut tree = PageTree::new(rules);
            trace.iter().map(|row| tree.request(&row.hash_ids, row.input_length)).sum()
        };
        for groups in ["full+window:128", "full+5*window:1024"] {
            let attention: Attention = groups.parse().expect("groups");
            let Some(GroupKind::Window(window)) = attention.other() else { continue };
            let ratio = Ratio::per_mille(800);
            let rules = WindowPoolRules {
                attention,
                swa_full_tokens_ratio: ratio,
                prefill_chunk,
                page_size,
                outputs,
            };
            let fast = best(|| {
                let mut cache = WindowCache::new(capacity, rules.clone(), NoHost).expect("small");
                trace.iter().map(|row| cache.request(&event(row)).hits).sum()
            });
            let (full, held) = rules.pools(capacity);
            let other = Other::Windows(u64::from(window) - 1);
            let rules = PageRules { other, full: full.0, held, page, chunk: u64::from(prefill_chunk) };
            report(&format!("SGLang, {groups}, {page} tokens"), trace.len(), fast, best(|| slow(rules)));
        }
        let rules = StateRules {
            attention: "full+3*mamba".parse().expect("groups"),
            mamba_full_memory_ratio: Proportion::of(Ratio::per_mille(900)),
            state_tokens: 544,
            prefill_chunk,
            page_size,
            outputs,
        };
        let fast = best(|| {
            let mut cache = StateCache::new(capacity, rules.clone(), NoHost).expect("small");
            trace.iter().map(|row| cache.request(&event(row)).hits).sum()
        });
        let (full, held) = rules.pools(capacity);
        let rules =
            PageRules { other: Other::States, full: full.0, held, page, chunk: u64::from(prefill_chunk) };
        report(&format!("SGLang, full+3*mamba, {page} tokens"), trace.len(), fast, best(|| slow(rules)));
    }
}

/// Between two requests of the trace, evenly spaced.
const GAP_MS: u64 = 900;
const LEASE_MS: u64 = 10_000;
/// In thousandths.
const WATERMARK: u64 = 900;
const RATIO: u64 = 50;

/// Mooncake's store a page at a time: every object by its id, and all of them by their stamps.
struct PageStore {
    capacity: u64,
    /// Its stamp in microseconds, and its place among all stamps given.
    objects: HashMap<u64, (u64, u64)>,
    by_stamp: BTreeMap<(u64, u64), u64>,
    stamps: u64,
    failed: bool,
    next_check: u64,
}

impl PageStore {
    fn new(capacity: u64) -> Self {
        let (objects, by_stamp) = (HashMap::new(), BTreeMap::new());
        Self { capacity, objects, by_stamp, stamps: 0, failed: false, next_check: 0 }
    }

    fn stamp(&mut self, id: u64, until: u64) {
        self.stamps += 1;
        if let Some(before) = self.objects.insert(id, (until, self.stamps)) {
            self.by_stamp.remove(&before);
        }
        self.by_stamp.insert((until, self.stamps), id);
    }

    /// Pages that a request finds at a time in microseconds.
    fn request(&mut self, now: u64, ids: &[u64]) -> u64 {
        while self.next_check <= now {
            self.check(self.next_check);
            self.next_check += 10_000;
        }
        let hits = ids.iter().take_while(|id| self.objects.contains_key(id)).count();
        let (there, missing): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| self.objects.contains_key(id));
        there.into_iter().for_each(|id| self.stamp(id, now + LEASE_MS * 1000));
        for id in missing {
            if (self.objects.len() as u64) < self.capacity {
                self.stamp(id, now);
            } else {
                self.failed = true;
            }
        }
        hits as u64
    }

    fn check(&mut self, now: u64) {
        let used = self.objects.len() as u64;
        if !self.failed && used * 1000 <= WATERMARK * self.capacity {
            return;
        }
        let above = (used * 1000).saturating_sub(WATERMARK * self.capacity);
        let batch = (used * (above + RATIO * self.capacity)).div_ceil(1000 * self.capacity);
        for _ in 0..batch {
            let Some(oldest) = self.by_stamp.first_entry().filter(|oldest| oldest.key().0 <= now) else {
                break;
            };
            self.objects.remove(&oldest.remove());
            self.failed = false;
        }
    }
}

/// Full pages of the prompt.
fn full(row: &TraceRow, page: u64) -> &[u64] {
    &row.hash_ids[..(row.input_length / page) as usize]
}

fn stores(trace: &[TraceRow]) {
    for page in [LOGGED_PAGE, 64, 16] {
        let trace = at_page(trace, page);
        let times = || (1..).map(|at| at * GAP_MS);
        let rules = MooncakeRules {
            page_size: PageSize::new(page as u32).expect("not zero"),
            lease_ms: LEASE_MS,
            watermark: Ratio::per_mille(WATERMARK as u16),
            eviction_ratio: Ratio::per_mille(RATIO as u16),
        };
        let capacity = 10_000 * LOGGED_PAGE / page;
        let fast = best(|| {
            let mut store = MooncakeCache::new(PageCount(capacity), rules);
            let at = |(row, time)| RequestEvent { event_time: EventTime(time as i64), ..event(row) };
            trace.iter().zip(times()).map(at).map(|event| store.request(&event)).sum()
        });
        let slow = best(|| {
            let mut store = PageStore::new(capacity);
            trace.iter().zip(times()).map(|(row, time)| store.request(time * 1000, full(row, page))).sum()
        });
        report(&format!("Mooncake's store, {page} tokens"), trace.len(), fast, slow);
    }
}

/// vLLM's tier in host memory a page at a time, least recently used first: every page by its id, and all of them by
/// rank.
struct PageTier {
    capacity: usize,
    ranks: HashMap<u64, u64>,
    by_rank: BTreeMap<u64, u64>,
    next: u64,
}

impl PageTier {
    fn new(capacity: u64) -> Self {
        Self { capacity: capacity as usize, ranks: HashMap::new(), by_rank: BTreeMap::new(), next: 0 }
    }

    fn use_now(&mut self, id: u64) {
        self.next += 1;
        if let Some(before) = self.ranks.insert(id, self.next) {
            self.by_rank.remove(&before);
        }
        self.by_rank.insert(self.next, id);
    }

    /// Pages found after those that the device had, in a tier that is larger than a prompt: steps make no difference.
    fn request(&mut self, ids: &[u64], above: usize) -> u64 {
        let found = ids[above..].iter().take_while(|id| self.ranks.contains_key(id)).count();
        let used = if found > 0 { &ids[above..] } else { ids };
        used.iter().rev().for_each(|id| self.use_now(*id));
        while self.ranks.len() > self.capacity
            && let Some((_, oldest)) = self.by_rank.pop_first()
        {
            self.ranks.remove(&oldest);
        }
        found as u64
    }
}

/// Below a device of a tenth of its size.
fn tiers(trace: &[TraceRow]) {
    for page in [LOGGED_PAGE, 64, 16] {
        let trace = at_page(trace, page);
        let capacity = 20_000 * LOGGED_PAGE / page;
        let page_size = PageSize::new(page as u32).expect("not zero");
        let config = EngineConfig { profile: Profile::Vllm, ..EngineConfig::default() };
        let (mut device, mut outcome) = (Engine::new(config), Outcome::default());
        let mut on_device = |row: &TraceRow| {
            device.observe(&event(row), page_size, &mut outcome).expect("chained");
            outcome.hits_at(capacity / 10)
        };
        let above: Vec<u64> = trace.iter().map(&mut on_device).collect();
        let rules = OffloadRules { options: OffloadOptions::default(), page_size, prefill_chunk: 8192 };
        let fast = best(|| {
            let mut tier = OffloadTier::new(PageCount(capacity), rules);
            trace.iter().zip(&above).map(|(row, above)| tier.request_after(&event(row), *above)).sum()
        });
        let slow = best(|| {
            let mut tier = PageTier::new(capacity);
            let ids = trace.iter().map(|row| full(row, page));
            ids.zip(&above).map(|(ids, above)| tier.request(ids, *above as usize)).sum()
        });
        report(&format!("vLLM's tier in host memory, {page} tokens"), trace.len(), fast, slow);
    }
}

/// TensorRT-LLM's free blocks a page at a time: every page by its id, and all free ones by priority and release. Each
/// page has at least the priority of those that follow it, so that none is lost.
struct PageQueues {
    blank: u64,
    /// Its priority, and its place among all releases.
    pages: HashMap<u64, (u8, u64)>,
    free: BTreeMap<(u8, u64), Option<u64>>,
    releases: u64,
}

impl PageQueues {
    fn new(capacity: u64) -> Self {
        Self { blank: capacity, pages: HashMap::new(), free: BTreeMap::new(), releases: 0 }
    }

    fn release(&mut self, priority: u8, id: Option<u64>) {
        self.releases += 1;
        self.free.insert((priority, self.releases), id);
        if let Some(id) = id {
            self.pages.insert(id, (priority, self.releases));
        }
    }

    /// Pages that a request finds which takes so many blocks, its prompt's first ones by its priority.
    fn request(&mut self, ids: &[u64], limit: usize, slots: (usize, usize), class: Option<u8>) -> u64 {
        let found: Vec<u8> = ids[..limit].iter().map_while(|id| Some(self.pages.get(id)?.0)).collect();
        for id in &ids[..found.len()] {
            self.free.remove(&self.pages[id]);
        }
        for _ in found.len()..slots.1 {
            match self.blank.checked_sub(1) {
                Some(left) => self.blank = left,
                None => {
                    let (_, id) = self.free.pop_first().expect("a free block");
                    id.map(|id| self.pages.remove(&id));
                }
            }
        }
        for slot in (0..slots.1).rev() {
            let own = if slot < slots.0 { class.unwrap_or(35) } else { 35 };
            let id = ids.get(slot).copied();
            match found.get(slot) {
                Some(before) => self.release(class.unwrap_or(*before), id),
                None => self.release(own, id.filter(|id| !self.pages.contains_key(id))),
            }
        }
        found.len() as u64
    }
}

/// Every fourth request asks for a higher priority.
fn trtllm(trace: &[TraceRow]) {
    for page in [LOGGED_PAGE, 64, 32] {
        let trace = at_page(trace, page);
        let capacity = 10_000 * LOGGED_PAGE / page;
        let page_size = PageSize::new(page as u32).expect("not zero");
        let rules = TrtllmRules { page_size, outputs: Outputs::Cached, host: PageCount(0) };
        let class = |number: usize| number.is_multiple_of(4).then_some(80);
        let fast = best(|| {
            let mut cache = TrtllmCache::new(PageCount(capacity), rules);
            let labels = [Labels::from_iter([(Label::RetentionClass, "priority-80")]), Labels::default()];
            let with = |(number, row)| RequestEvent {
                labels: labels[usize::from(class(number).is_none())],
                ..event(row)
            };
            trace.iter().enumerate().map(with).map(|event| cache.request(&event).hits).sum()
        });
        let slow = best(|| {
            let mut queues = PageQueues::new(capacity);
            let request = |(number, row): (usize, &TraceRow)| {
                let stored = row.input_length + row.output_length.saturating_sub(1);
                let slots = (row.input_length.div_ceil(page) as usize, stored.div_ceil(page) as usize);
                let limit = (row.input_length.saturating_sub(1) / page) as usize;
                queues.request(full(row, page), limit, slots, class(number))
            };
            trace.iter().enumerate().map(request).sum()
        });
        report(&format!("TensorRT-LLM, {page} tokens"), trace.len(), fast, slow);
    }
}

fn main() {
    let Some(trace) = mooncake_trace() else { return };
    hybrids(&trace);
    sglang_pools(&trace);
    stores(&trace);
    tiers(&trace);
    trtllm(&trace);
}
