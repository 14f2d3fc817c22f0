//! Several groups in one pool of blocks against vLLM's own answers and a slow transcription of its steps.

use crate::asked::walk;
use crate::support::shared::{mooncake_trace, read_shared};
use crate::support::slow_hybrid::{Kind, Retain, SlowHybrid};
use kvset::core::engines::hits::CacheHits;
use kvset::core::engines::hybrid::{
    Attention, BlockRetention, DraftHead, DraftLayers, GroupKind, HybridCache, HybridRules, SavedHybrid,
};
use kvset::core::engines::profile::Outputs;
use kvset::core::request::event::RequestEvent;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::core::units::{PageCount, PageSize};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Golden {
    results: Vec<GoldenRun>,
}

#[derive(Debug, Deserialize)]
struct GoldenRun {
    groups: String,
    block_size: u32,
    capacity_pages: u64,
    retention: String,
    prefill_chunk_tokens: u32,
    outputs: String,
    per_request_hit_pages: Vec<i64>,
}

fn golden() -> Option<Golden> {
    Some(serde_json::from_str(&read_shared("golden/synthetic_vllm_hybrid.json")?).expect("a golden file"))
}

/// The groups of the golden file in the words users write.
fn attention(groups: &str) -> Attention {
    let text = match groups {
        "f" => "full",
        "f1s128" => "full+window:128",
        "f5s1024" => "full+5*window:1024",
        "f3m" => "full+3*mamba",
        other => panic!("unknown groups {other}"),
    };
    text.parse().expect("groups")
}

pub(super) fn slow(capacity: u64, rules: &HybridRules) -> SlowHybrid {
    let kinds = rules.attention.groups().iter().map(|kind| match kind {
        GroupKind::Full => Kind::Full,
        GroupKind::Window(tokens) => Kind::Window(u64::from(*tokens)),
        GroupKind::Mamba => Kind::Mamba,
    });
    let retain = match rules.retention {
        BlockRetention::Ends => Retain::Ends,
        BlockRetention::All => Retain::All,
        BlockRetention::Every(tokens) => Retain::Every(u64::from(tokens)),
    };
    let page = u64::from(rules.page_size.get());
    let cached = rules.outputs == Outputs::Cached;
    SlowHybrid::new(
        &kinds.collect::<Vec<_>>(),
        capacity,
        page,
        retain,
        u64::from(rules.prefill_chunk),
        cached,
    )
    .drafting(u64::from(rules.head.tokens), head_in(rules.head))
}

/// Whether full groups and windows hold layers of the head.
fn head_in(head: DraftHead) -> [bool; 2] {
    match head.layers {
        DraftLayers::All => [true, true],
        DraftLayers::Full => [true, false],
        DraftLayers::Windows => [false, true],
    }
}

fn event<'a>(ids: &'a [u64], input: u64, output: u64) -> RequestEvent<'a> {
    RequestEvent {
        page_ids: PageIds::from_slice(ids),
        input_tokens: Some(input),
        output_tokens: Some(output),
        ..RequestEvent::default()
    }
}

fn golden_rules(run: &GoldenRun) -> HybridRules {
    assert_eq!(run.outputs, "cached");
    HybridRules {
        attention: attention(&run.groups),
        retention: run.retention.to_lowercase().parse().expect("a retention interval"),
        prefill_chunk: run.prefill_chunk_tokens,
        page_size: PageSize::new(run.block_size).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::default(),
    }
}

fn differing(run: &GoldenRun, hits: &[i64]) -> usize {
    assert_eq!(hits.len(), run.per_request_hit_pages.len());
    hits.iter().zip(&run.per_request_hit_pages).filter(|(a, b)| a != b).count()
}

#[test]
fn equals_vllm_on_every_request_of_every_run() {
    let (Some(golden), Some(trace)) = (golden(), mooncake_trace()) else { return };
    assert_eq!(golden.results.len(), 12);
    for run in &golden.results {
        let mut cache =
            HybridCache::new(PageCount(run.capacity_pages), golden_rules(run)).expect("sound rules");
        let hits: Vec<i64> = trace
            .iter()
            .map(|row| cache.request(&event(&row.hash_ids, row.input_length, row.output_length)))
            .map(|answer| if answer.refused { -1 } else { answer.hits as i64 })
            .collect();
        assert_eq!(differing(run, &hits), 0, "{} at {}", run.groups, run.capacity_pages);
        assert!(cache.resident() <= cache.capacity());
    }
}

#[test]
fn the_slow_transcription_equals_vllm_on_every_request_too() {
    let (Some(golden), Some(trace)) = (golden(), mooncake_trace()) else { return };
    for run in golden.results.iter().filter(|run| run.capacity_pages == 3000) {
        let mut slow = slow(run.capacity_pages, &golden_rules(run));
        let hits: Vec<i64> = trace
            .iter()
            .map(|row| slow.request(&row.hash_ids, row.input_length, row.output_length, &[]))
            .map(|hits| hits.map_or(-1, |hits| hits as i64))
            .collect();
        assert_eq!(differing(run, &hits), 0, "{} at {}", run.groups, run.capacity_pages);
    }
}

/// A prompt is a walk through a small tree of ids, so that prefixes are shared and left half-way.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub ids: Vec<u64>,
    /// Tokens missing from the last page; none where the prompt ends at a page's edge.
    pub tail: u64,
    pub output: u64,
    pub known_outputs: Vec<u64>,
}

pub(super) fn asked() -> impl Strategy<Value = Asked> {
    let steps = prop::collection::vec((0u64..3, 1usize..6), 0..5);
    (steps, 0u64..4, 0u64..24, 0usize..4).prop_map(move |(steps, tail, output, known)| {
        let (ids, mut chain) = walk(steps);
        // Outputs that continue the prompt's chain as a later prompt of branch 0 would.
        let mut known_outputs = Vec::new();
        for page in 0..known as u64 {
            chain = chain.wrapping_mul(31).wrapping_add(page);
            known_outputs.push(chain);
        }
        Asked { ids, tail, output, known_outputs }
    })
}

/// Tokens of the prompt at so many tokens per page.
pub(super) fn input(asked: &Asked, page: u64) -> u64 {
    let missing = if asked.ids.is_empty() { 0 } else { asked.tail.min(page - 1) };
    asked.ids.len() as u64 * page - missing
}

pub(super) fn to_event(asked: &Asked, page: u64) -> RequestEvent<'_> {
    RequestEvent {
        output_page_ids: PageIds::from_slice(&asked.known_outputs),
        ..event(&asked.ids, input(asked, page), asked.output)
    }
}

/// A head that drafts so many tokens, in some of the groups where these are windows.
fn head_over(groups: &str, (tokens, layers): (u32, usize)) -> DraftHead {
    let layers =
        if groups.contains("window") && tokens > 0 { DraftLayers::NAMES[layers].1 } else { DraftLayers::All };
    DraftHead { tokens, layers }
}

pub(super) fn rules() -> impl Strategy<Value = HybridRules> {
    let groups = prop::sample::select(vec![
        "full",
        "full+window:4",
        "full+window:9",
        "full+3*window:6",
        "full+2*mamba",
        "full+mamba",
        "2*full+window:13",
        "full+window:1000",
        "2*window:5+full",
        "mamba+2*full",
        "mamba+full+2*mamba",
        "window:4+full+2*window:4",
    ]);
    let page = 1u32..5;
    let head = (prop::sample::select(vec![0u32, 0, 1, 3]), 0usize..3);
    (groups, page, 0u32..4, 0u32..9, any::<bool>(), head).prop_map(
        |(groups, page, retain, chunk, cached, head)| HybridRules {
            attention: groups.parse().expect("groups"),
            retention: [
                BlockRetention::Ends,
                BlockRetention::All,
                BlockRetention::Every(page),
                BlockRetention::Every(3 * page),
            ][retain as usize],
            prefill_chunk: page + 3 * chunk,
            page_size: PageSize::new(page).expect("not zero"),
            outputs: if cached { Outputs::Cached } else { Outputs::Ignored },
            head: head_over(groups, head),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn equals_the_slow_transcription(
        capacity in 8u64..150,
        rules in rules(),
        requests in prop::collection::vec(asked(), 1..60),
    ) {
        let page = u64::from(rules.page_size.get());
        let mut fast = HybridCache::new(PageCount(capacity), rules.clone()).expect("sound rules");
        let mut slow = slow(capacity, &rules);
        for (index, asked) in requests.iter().enumerate() {
            let answer = fast.request(&to_event(asked, page));
            let mut next = slow.clone();
            let expected = next.request(&asked.ids, input(asked, page), asked.output, &asked.known_outputs);
            prop_assert_eq!(answer.refused, expected.is_none(), "request {}", index);
            if let Some(expected) = expected {
                prop_assert_eq!(answer.hits, expected, "request {}", index);
                slow = next;
            }
            prop_assert_eq!(fast.resident().0, slow.resident(), "resident after request {}", index);
        }
    }

    #[test]
    fn a_restored_pool_goes_on_as_if_nothing_had_happened(
        capacity in 20u64..90,
        rules in rules(),
        requests in prop::collection::vec(asked(), 2..50),
        cut in 0usize..50,
    ) {
        let page = u64::from(rules.page_size.get());
        let head = rules.head;
        let mut whole = HybridCache::new(PageCount(capacity), rules).expect("sound rules");
        let cut = cut.min(requests.len());
        for asked in &requests[..cut] {
            whole.request(&to_event(asked, page));
        }
        let text = serde_json::to_string(&whole).expect("plain data");
        let restored: HybridCache = serde_json::from_str(&text).expect("sound");
        let mut restored = restored.drafting(head);
        prop_assert_eq!(whole.save(), restored.save());
        for asked in &requests[cut..] {
            prop_assert_eq!(whole.request(&to_event(asked, page)), restored.request(&to_event(asked, page)));
        }
        prop_assert_eq!(whole.save(), restored.save());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_never_evicts_finds_what_a_pool_of_any_size_finds_and_goes_on_from_a_snapshot(
        rules in rules(),
        requests in prop::collection::vec(asked(), 1..60),
        cut in 0usize..60,
    ) {
        let page = u64::from(rules.page_size.get());
        let endless = PageCount(1 << 30);
        let mut ceiling = HybridCache::never_evicting(endless, rules.clone()).expect("sound rules");
        let head = rules.head;
        let mut large = HybridCache::new(endless, rules).expect("sound rules");
        for (index, asked) in requests.iter().enumerate() {
            if index == cut {
                let text = serde_json::to_string(&ceiling).expect("plain data");
                let restored: HybridCache = serde_json::from_str(&text).expect("sound");
                ceiling = restored.drafting(head);
            }
            let event = to_event(asked, page);
            prop_assert_eq!(ceiling.request(&event), large.request(&event), "request {}", index);
            prop_assert!(ceiling.resident() <= large.resident(), "pages are kept once");
        }
    }

    #[test]
    fn what_never_evicts_keeps_to_its_bound(
        capacity in 8u64..60,
        rules in rules(),
        requests in prop::collection::vec(asked(), 1..60),
    ) {
        let page = u64::from(rules.page_size.get());
        let mut ceiling = HybridCache::never_evicting(PageCount(capacity), rules).expect("sound rules");
        for asked in &requests {
            ceiling.request(&to_event(asked, page));
            prop_assert!(ceiling.resident().0 <= capacity);
            prop_assert!(HybridCache::restore(&ceiling.save()).is_ok());
        }
    }
}

#[test]
fn a_request_of_no_tokens_takes_no_room_for_drafts() {
    let rules = HybridRules {
        attention: "2*full+window:13".parse().expect("groups"),
        retention: BlockRetention::Ends,
        prefill_chunk: 1,
        page_size: PageSize::new(1).expect("not zero"),
        outputs: Outputs::Ignored,
        head: DraftHead::of(3),
    };
    // Three drafts in three groups would be nine blocks.
    let mut cache = HybridCache::new(PageCount(8), rules.clone()).expect("sound rules");
    assert_eq!(cache.request(&event(&[], 0, 0)), CacheHits { hits: 0, refused: false });
    assert_eq!(slow(8, &rules).request(&[], 0, 0, &[]), Some(0));
}

/// vLLM keeps the state at a junction, where groups of states have no layers of the head; windows that have some keep
/// the page before it as well.
#[test]
fn a_state_before_a_junction_is_not_kept_though_a_head_drafts() {
    let rules = HybridRules {
        attention: "full+mamba".parse().expect("groups"),
        retention: BlockRetention::Ends,
        prefill_chunk: 64,
        page_size: PageSize::new(16).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::of(1),
    };
    let mut cache = HybridCache::new(PageCount(200), rules).expect("sound rules");
    let prompts: [&[u64]; 3] = [
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        // Six pages are there, and one is lost: a junction behind five, and a step that ends behind four.
        &[1, 2, 3, 4, 5, 6, 17, 18, 19, 20, 21, 22],
        // Five pages are there, and one is lost: nothing can be gone on from behind four.
        &[1, 2, 3, 4, 5, 36, 37, 38],
    ];
    let hits = prompts.map(|ids| cache.request(&event(ids, ids.len() as u64 * 16, 1)).hits);
    assert_eq!(hits, [0, 0, 0]);
    assert_eq!(cache.request(&event(prompts[1], 12 * 16, 1)).hits, 11, "the prompt's own end is");
}

#[test]
fn a_request_larger_than_the_pool_is_turned_away_and_changes_nothing() {
    let rules = HybridRules {
        attention: attention("f1s128"),
        retention: BlockRetention::Ends,
        prefill_chunk: 8192,
        page_size: PageSize::new(16).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::default(),
    };
    let mut cache = HybridCache::new(PageCount(5), rules).expect("sound rules");
    assert_eq!(cache.request(&event(&[1, 2], 32, 1)), CacheHits { hits: 0, refused: false });
    let before = cache.save();
    assert!(cache.request(&event(&[1, 2, 3], 48, 1)).refused, "three pages in each of two groups");
    assert!(cache.request(&event(&[1, 2], 32, 1000)).refused, "the output does not fit");
    assert_eq!(cache.refused(), 2);
    let mut after = cache.save();
    after.refused = before.refused;
    assert_eq!(before, after);
    assert_eq!(cache.request(&event(&[1, 2], 32, 1)).hits, 1, "the last token is computed again");
}

#[test]
fn equal_ids_in_two_scopes_are_two_prompts() {
    let rules = HybridRules {
        attention: attention("f3m"),
        retention: BlockRetention::All,
        prefill_chunk: 16,
        page_size: PageSize::new(16).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::default(),
    };
    let mut cache = HybridCache::new(PageCount(100), rules).expect("sound rules");
    let ids = [1, 2, 3];
    let [a, b] = [b"a", b"b"].map(|name| RequestEvent { scope: Scope::named(name), ..event(&ids, 40, 0) });
    assert_eq!([&a, &b, &a, &b].map(|event| cache.request(event).hits), [0, 0, 2, 2]);
}

#[test]
fn damaged_states_and_rules_that_contradict_each_other_are_refused() {
    let rules = HybridRules {
        attention: attention("f1s128"),
        retention: BlockRetention::Ends,
        prefill_chunk: 8192,
        page_size: PageSize::new(16).expect("not zero"),
        outputs: Outputs::Cached,
        head: DraftHead::default(),
    };
    let made = |rules: &HybridRules| HybridCache::new(PageCount(40), rules.clone());
    let odd = HybridRules { retention: BlockRetention::Every(24), ..rules.clone() };
    assert!(made(&odd).expect_err("24 of 16").to_string().contains("no multiple of the page"));
    let short = HybridRules { prefill_chunk: 8, ..rules.clone() };
    assert!(made(&short).expect_err("8 of 16").to_string().contains("smaller than the page"));

    let mut sound = made(&rules).expect("sound rules");
    sound.request(&event(&[1, 2, 3], 48, 20));
    sound.request(&event(&[1, 2, 4], 48, 0));
    let sound = sound.save();
    assert!(HybridCache::restore(&sound).is_ok());
    type Damage = fn(&mut SavedHybrid);
    let damages: [(&str, Damage); 9] = [
        ("precedes its parent", |s| s.runs.nodes[0].parent = 1),
        ("has no pages", |s| s.runs.nodes[1].ids.clear()),
        ("begins like another child", |s| s.runs.nodes[2].ids = s.runs.nodes[1].ids.clone()),
        ("is of no node", |s| s.runs.pieces[0].node = 9),
        ("lies outside its node", |s| s.runs.pieces[1].to = 9),
        ("is of no group", |s| s.runs.pieces[0].tag = 2),
        ("not served yet", |s| s.requests = 1),
        ("more than its capacity", |s| s.capacity = PageCount(4)),
        ("contradict each other", |s| s.rules.prefill_chunk = 1),
    ];
    for (expected, damage) in damages {
        let mut damaged = sound.clone();
        damage(&mut damaged);
        let error = HybridCache::restore(&damaged).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should say: {expected}");
    }
}
