//! A log of compact events beside the same log in full: the same is found and published.

use super::super::*;
use super::{PAGE_SIZE, event, model, pointwise, ratios};
use crate::engines::profile::Profile;
use crate::questions::enabled::Asked;
use crate::request::event::KnownPrefix;
use crate::request::labels::{Label, Labels};
use crate::stack::UnknownPrefix;
use crate::stack::naive::chained_requests;
use crate::units::pages::{PageIds, Scope};
use crate::units::ratio::Ratio;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// A vLLM cache asked everything that is asked beside an estimate.
fn asked_everything() -> PoolConfig {
    let routers = ["logged", "round-robin:2", "least-in-flight:3", "prefix:2:match=0.2"];
    PoolConfig {
        profile: Profile::Vllm,
        page_size: PageSize::new(PAGE_SIZE),
        target_ratios: ratios(&["0.5", "1"]),
        capacities: ["4p", "9p", "40p"].map(|text| text.parse().expect("pages")).into(),
        windows: ["tumbling:10ms", "last:7", "all"].map(|text| text.parse().expect("a window")).into(),
        publish_every_ms: 7,
        kv_bytes_per_token: Some(2.5),
        tiers: ["fast:0.5:3p:7", "slow:1:5p"].map(|text| text.parse().expect("a tier")).into(),
        asked: Asked {
            measured: true,
            provisioned: Some("9p".parse().expect("pages")),
            routers: routers.map(|text| text.parse().expect(text)).into(),
            ttls: ["6ms", "1h"].map(|text| text.parse().expect("a time")).into(),
            tenants: Some(2),
            optimal: true,
            traffic: true,
            prefill_rate: Some(100.0),
        },
        ..PoolConfig::default()
    }
}

/// Stacks of either order, bounded or not, engines of a cache a capacity, and one asked everything.
fn configs() -> impl Strategy<Value = PoolConfig> {
    prop_oneof![
        4 => model::configs(),
        3 => prop::sample::select(pointwise::ENGINES.to_vec()).prop_map(pointwise::config),
        2 => Just(asked_everything()),
    ]
}

/// What a snapshot reads back.
fn again<T: serde::de::DeserializeOwned>(image: &impl Serialize) -> T {
    postcard::from_bytes(&postcard::to_allocvec(image).expect("bytes")).expect("the same bytes")
}

/// A pool on its way through a log.
struct Way {
    pool: Pool,
    config: PoolConfig,
    published: Vec<Estimate>,
}

impl Way {
    fn new(config: &PoolConfig) -> Self {
        let pool = Pool::new("p", 0, Arc::new(config.clone())).expect("usable");
        Self { pool, config: config.clone(), published: Vec::new() }
    }

    fn observe(&mut self, event: &RequestEvent<'_>, number: usize) -> Result<String, Refusal> {
        let arrival = Arrival { offset: Offset(number as i64), counted: number > 2, watermark: None };
        self.pool.observe(event, arrival)?;
        self.pool.advance_watermark(event.event_time, Offset(number as i64 + 1), &mut self.published);
        Ok(format!("{:?}", self.pool.last_request().expect("accepted").0))
    }

    /// Goes on from a snapshot, or from where an idle pool is put.
    fn interrupt(&mut self, number: usize) {
        match number % 3 {
            0 => {
                let mut image = self.pool.image();
                let mut beside = image.take_beside();
                let lived = beside.as_mut().and_then(BesideImage::take_lived);
                let mut restored: RestoredPool = again(&image);
                if let Some(beside) = &beside {
                    let beside: RestoredBeside = again(beside);
                    restored = restored.with_beside(match &lived {
                        Some(lived) => beside.with_lived(again(lived)),
                        None => beside,
                    });
                }
                self.pool = Pool::restore("p", 0, Arc::new(self.config.clone()), restored).expect("the same");
            }
            1 => {
                self.pool.put_aside();
                self.pool.take_back().expect("unchanged");
            }
            _ => {}
        }
    }

    /// All that was published; which records were refused differs.
    fn finish(mut self, next: usize) -> Vec<Estimate> {
        self.pool.finish(Offset(next as i64), &mut self.published);
        self.published.iter_mut().for_each(|estimate| estimate.rejected_records = 0);
        self.published
    }
}

proptest! {
    /// Events name a part of the prefix that is known, from none to all of it, in quarters.
    #[test]
    fn compact_events_give_what_full_ones_do(
        requests in chained_requests(50),
        about in prop::collection::vec((0usize..=4, 0u8..3, 0u64..30), 50),
        config in configs(),
        every in 3usize..20,
    ) {
        let (mut full, mut compact) = (Way::new(&config), Way::new(&config));
        let mut seen = BTreeSet::new();
        for (number, (ids, (quarters, name, output))) in requests.iter().zip(&about).enumerate() {
            let scope = [Scope::GLOBAL, Scope::named(b"b")][usize::from(*name == 1)];
            let mut labels = Labels::default();
            labels.set(Label::Replica, Some(["a", "b", "c"][usize::from(*name)]));
            labels.set(Label::Tenant, Some(["x", "y", "z"][number % 3]));
            let whole = RequestEvent {
                ids_chained: true,
                scope,
                output_tokens: Some(*output),
                duration_ms: Some(*output),
                cached_tokens: Some(ids.len() as u64 / 2 * u64::from(PAGE_SIZE)).into(),
                labels,
                ..event(number as i64 * 2, ids)
            };
            let known = (1..=ids.len()).take_while(|end| seen.contains(&(scope.value(), ids[..*end].to_vec()))).count();
            let pages = known * quarters / 4;
            let found = compact.observe(&compacted(&whole, pages), number);
            let found = match found {
                Err(Refusal::UnknownPrefix(UnknownPrefix::NotHeld { pages: unknown })) => {
                    prop_assert_eq!(unknown as usize, pages);
                    let bound = config.max_tracked_pages.0;
                    prop_assert!(bound < 1000, "nothing is forgotten within {} pages", bound);
                    compact.observe(&whole, number)
                }
                found => found,
            };
            prop_assert_eq!(found, full.observe(&whole, number));
            seen.extend((1..=ids.len()).map(|end| (scope.value(), ids[..end].to_vec())));
            if number % every == 0 {
                compact.interrupt(number / every);
            }
        }
        prop_assert_eq!(compact.finish(requests.len()), full.finish(requests.len()));
    }
}

/// The same event, its first pages named.
fn compacted<'a>(event: &RequestEvent<'a>, pages: usize) -> RequestEvent<'a> {
    let Some(last_id) = pages.checked_sub(1).and_then(|last| event.page_ids.get(last)) else { return *event };
    let pages = NonZeroU32::new(pages as u32).expect("a page at least");
    let known_prefix = Some(KnownPrefix { last_id, pages });
    RequestEvent { page_ids: event.page_ids.from(pages.get() as usize), known_prefix, ..*event }
}

fn config() -> PoolConfig {
    PoolConfig { page_size: PageSize::new(PAGE_SIZE), ..PoolConfig::default() }
}

#[test]
fn a_reference_that_is_not_known_is_refused_with_its_own_code_and_changes_nothing() {
    let mut way = Way::new(&config());
    let ids = [1, 2, 3];
    let whole = RequestEvent { ids_chained: true, ..event(0, &ids) };
    let before = way.observe(&compacted(&whole, 2), 0).expect_err("nothing was seen yet");
    assert_eq!(before, Refusal::UnknownPrefix(UnknownPrefix::NotHeld { pages: 2 }));
    assert_eq!(before.code(), "unknown_prefix");
    assert!(before.to_string().contains("read the topic from an earlier offset"), "{before}");
    assert!(way.pool.engine().is_none(), "a refused first event does not fix the page size");
    way.observe(&whole, 1).expect("accepted");
    let wrong_length = KnownPrefix { last_id: 2, pages: NonZeroU32::new(1).expect("one") };
    let wrong =
        RequestEvent { known_prefix: Some(wrong_length), page_ids: PageIds::from_slice(&[3]), ..whole };
    way.observe(&wrong, 2).expect_err("id 2 is that of the second page");
    let other_scope = RequestEvent { scope: Scope::named(b"other"), ..compacted(&whole, 2) };
    way.observe(&other_scope, 3).expect_err("the ids are those of another scope");
    assert_eq!(way.pool.rejected_records(), 3);
    way.observe(&compacted(&whole, 3), 4).expect("all of its pages are known");
    let (outcome, _) = way.pool.last_request().expect("accepted");
    assert_eq!((outcome.page_accesses, outcome.reusable_prefix()), (3, 3));
}

#[test]
fn what_is_wrong_with_the_whole_request_is_found_in_its_compact_form() {
    let mut way = Way::new(&PoolConfig { max_pages_per_request: 3, ..config() });
    let ids = [1, 2, 3, 4];
    way.observe(&RequestEvent { ids_chained: true, ..event(0, &ids[..3]) }, 0).expect("accepted");
    let long = compacted(&RequestEvent { ids_chained: true, ..event(0, &ids) }, 3);
    assert_eq!(way.observe(&long, 1), Err(Refusal::TooManyPages { pages: 4, limit: 3 }));
    let short = RequestEvent { input_tokens: Some(100), ..compacted(&event(0, &ids[..3]), 2) };
    assert_eq!(way.observe(&short, 2).expect_err("25 pages").code(), "page_count_mismatch");
}

#[test]
fn a_pool_that_follows_a_sample_refuses_compact_events() {
    let mut way = Way::new(&PoolConfig { sample_rate: Ratio::per_mille(500), ..config() });
    let whole = RequestEvent { ids_chained: true, ..event(0, &[1, 2, 3]) };
    way.observe(&whole, 0).expect("accepted");
    let refused = way.observe(&compacted(&whole, 2), 1);
    assert_eq!(refused, Err(Refusal::UnknownPrefix(UnknownPrefix::Sampled)));
}
