//! What windows say alongside their estimates, against the same counted request by request, and what a
//! snapshot keeps of it.

mod classes;
mod emptied;
mod limits;

use super::*;
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::engines::profile::{OverlapMode, Profile};
use crate::engines::rules::EngineRules;
use crate::estimate::config::PoolConfig;
use crate::estimate::{CapacityPoint, Estimate};
use crate::pool::set::{
    PoolConfigs, PoolHistory, PoolRecord, PoolSet, PoolSetConfig, PoolSetImage, PoolSetRestoreError, Timeline,
};
use crate::questions::costs::{PrefillCosts, Prices};
use crate::questions::counters::Counter;
use crate::questions::enabled::Questions;
use crate::questions::restarts::HOUR_MS;
use crate::questions::reuse::ReuseSetting;
use crate::questions::worth::WorthAt;
use crate::request::event::RequestEvent;
use crate::request::labels::{Label, Labels};
use crate::request::outcome::Outcome;
use crate::sizing::curve::Curve;
use crate::sizing::tiers::{Inclusion, TierConfig};
use crate::stack::ChainCheck;
use crate::stack::naive::chained_requests;
use crate::stack::needs::Needs;
use crate::units::pages::{PageIds, Scope};
use crate::units::ratio::Ratio;
use crate::units::window::WindowKind;
use crate::units::{EventTime, Offset, PageCount};
use proptest::prelude::*;
use std::sync::Arc;

const NAMES: [&str; 3] = ["a", "b", "c"];
const GRACE_MS: i64 = 5;

/// Tokens per page.
const PAGE: PageSize = PageSize::new(4).expect("not zero");

/// A request: ids, gap to the one before (seldom back in time), share of the prompt that was cached, replica.
type Request = (Vec<u64>, i64, Option<u8>, Option<u8>);

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let gap = prop_oneof![9 => 0i64..30, 1 => -60i64..0];
    let about = (gap, prop::option::weighted(0.8, 0u8..=100), prop::option::weighted(0.7, 0u8..3));
    (chained_requests(60), prop::collection::vec(about, 60)).prop_map(|(requests, about)| {
        let pairs = requests.into_iter().zip(about);
        pairs.map(|(ids, (gap, cached, replica))| (ids, gap, cached, replica)).collect()
    })
}

fn enabled(routers: &[&str], measured: bool) -> Questions {
    let routers = routers.iter().map(|text| text.parse().expect(text)).collect();
    Questions { measured, routers, ..Questions::default() }
}

fn config(provisioned: Option<u64>, sample_rate: Ratio) -> PoolConfig {
    let all = enabled(&["logged", "round-robin:2", "least-in-flight:3", "prefix:2:match=0.2"], true);
    let provisioned = provisioned.map(|pages| format!("{pages}p").parse().expect("pages"));
    PoolConfig {
        cache: CacheConfig {
            profile: Profile::Vllm,
            page_size: Some(PAGE),
            target_ratios: vec![Ratio::ONE, Ratio::per_mille(500)],
            capacities: ["4p", "9p", "40p"].map(|text| text.parse().expect("pages")).to_vec(),
            max_tracked_pages: PageCount(64),
            sample_rate,
            ..CacheConfig::default()
        },
        windows: ["tumbling:50ms", "hopping:90ms/30ms", "last:7", "all"]
            .map(|text| text.parse().expect("a window"))
            .to_vec(),
        grace_ms: GRACE_MS as u64,
        allowed_lateness_ms: 20,
        max_lateness_ms: 30,
        publish_every_ms: 70,
        tiers: ["fast=0.5", "slow=1"].map(tier).to_vec(),
        questions: Questions {
            provisioned,
            reuse: ReuseSetting {
                ttls: ["60ms", "7ms", "1h"].map(|text| text.parse().expect("a time")).to_vec(),
                tenants: Some(2),
                optimal: true,
                traffic: true,
                prefill_rate: Some(100.0),
            },
            worth: (sample_rate == Ratio::ONE).then(worth),
            restarts: sample_rate == Ratio::ONE,
            retention_classes: true,
            ..all
        },
        ..PoolConfig::default()
    }
}

/// The same of an engine that is modelled a capacity at a time: it answers for measured hits alone.
fn pointwise(profile: Profile, provisioned: Option<u64>) -> PoolConfig {
    let config = config(provisioned, Ratio::ONE);
    let Questions { provisioned, worth, .. } = config.questions;
    let questions = Questions { provisioned, worth, ..enabled(&[], true) };
    PoolConfig { cache: CacheConfig { profile, ..config.cache }, tiers: Vec::new(), questions, ..config }
}

/// A millisecond a token.
fn worth() -> PrefillCosts {
    let prices = Prices { accelerator_hour: Some(3.0), gib_hour: None };
    PrefillCosts { prefill_rate: "1000".parse().expect("a rate"), prices }
}

/// Any engine, its pages sampled and requests in flight modelled where that can be.
fn configs() -> impl Strategy<Value = PoolConfig> {
    let rate = prop::sample::select(vec![Ratio::ONE, Ratio::per_mille(500)]);
    let overlap = prop::sample::select(vec![OverlapMode::On, OverlapMode::Off]);
    let curve = (prop::option::of(1u64..30), rate, overlap).prop_map(|(provisioned, rate, overlap)| {
        let rules = EngineRules { overlap, ..EngineRules::default() };
        PoolConfig {
            cache: CacheConfig { rules, ..config(provisioned, rate).cache },
            ..config(provisioned, rate)
        }
    });
    let profile = prop::sample::select(vec![Profile::Sglang, Profile::Mooncake]);
    let provisioned = prop::option::of(prop::sample::select(vec![4, 9, 27, 40]));
    let points = (profile, provisioned).prop_map(|(profile, pages)| pointwise(profile, pages));
    prop_oneof![3 => curve, 2 => points]
}

/// A tier in units of three pages.
fn tier(text: &str) -> TierConfig {
    let (name, coverage) = text.split_once('=').expect("a tier");
    TierConfig {
        name: name.to_owned(),
        coverage: coverage.parse().expect("a share"),
        inclusion: Inclusion::Exclusive,
        unit: "3p".parse().expect("pages"),
        unit_price: None,
    }
}

/// The capacities that can be known, in followed pages.
fn capacities(config: &PoolConfig) -> Vec<u64> {
    let curve =
        Curve::new(&config.cache.capacities, None, config.cache.max_tracked_pages, config.cache.sample_rate);
    curve.thresholds().to_vec()
}

fn set_config(config: &PoolConfig) -> PoolSetConfig {
    let pools = PoolConfigs::new(config.clone(), []).expect("usable");
    PoolSetConfig {
        pools: Arc::new(pools),
        partition: 0,
        max_pools: 2,
        idle_timeout_ms: Some(100),
        forget_after_ms: None,
        put_aside_after_ms: Some(40),
    }
}

/// Calls `each` with every request as an event.
fn replay(requests: &[Request], mut each: impl FnMut(usize, &RequestEvent<'_>)) {
    let mut now = 1000;
    for (index, (ids, gap, cached, replica)) in requests.iter().enumerate() {
        now += gap;
        let tokens = ids.len() as u64 * 4 + index as u64 % 4;
        let event = RequestEvent {
            event_time: EventTime(now),
            page_ids: PageIds::from_slice(ids),
            input_tokens: Some(tokens),
            output_tokens: Some(index as u64 % 9),
            duration_ms: Some(index as u64 % 40),
            cached_tokens: cached.map(|share| tokens * u64::from(share) / 100).into(),
            labels: replica
                .map(|replica| (Label::Replica, NAMES[usize::from(replica)]))
                .into_iter()
                .chain(NAMES.get(ids.len() % 4).map(|name| (Label::Tenant, *name)))
                .chain(NAMES.get(ids.len() % 3).map(|name| (Label::RetentionClass, *name)))
                .collect(),
            ..RequestEvent::default()
        };
        each(index, &event);
    }
}

fn observe(set: &mut PoolSet, index: usize, event: &RequestEvent<'_>) -> Vec<Estimate> {
    let mut closed = Vec::new();
    let record = PoolRecord::in_order("pool", event, Offset(index as i64), index > 2);
    set.observe(record, &mut closed).expect("accepted");
    closed
}

/// The requests so far, each with the watermark before it.
struct Model {
    config: PoolConfig,
    engine: Engine,
    caches: CacheBank,
    observers: Box<Observers>,
    counted: Vec<(i64, Option<EventTime>, Arc<Observation>)>,
    /// Milliseconds that each of them computes: without a cache, with unlimited capacity, by capacity.
    computed: Vec<Vec<u64>>,
}

impl Model {
    fn new(config: &PoolConfig) -> Self {
        let capacities = capacities(config);
        let caches = CacheBank::new(&capacities, PAGE, &config.cache).expect("pages of any size");
        let observers = Observers::new(config.observed(), &capacities, PAGE).expect("asked");
        let engine = Engine::new(config.cache.engine());
        Self { config: config.clone(), engine, caches, observers, counted: Vec::new(), computed: Vec::new() }
    }

    fn observe(&mut self, index: usize, event: &RequestEvent<'_>, watermark: Option<EventTime>) {
        let (page_size, mut outcome) = (PAGE, Outcome::default());
        self.engine.observe(event, page_size, &mut outcome).expect("chained");
        if self.config.cache.is_pointwise() {
            self.caches.request(event, outcome.reusable_prefix(), &self.config.cache, page_size);
        }
        let (counted, index) = (index > 2, index as u64);
        let share = self.observers.observe(&Accepted {
            event,
            session: None,
            outcome: &outcome,
            page_size,
            index,
            counted,
            engine: &self.engine,
            own: &self.caches,
            cache: self.config.observed().provisioned(),
            generated: None,
        });
        if counted {
            self.counted.push((event.event_time.0, watermark, share));
            let unlimited = self.caches.last_ceiling().unwrap_or_else(|| outcome.reusable_prefix());
            let hits = match self.config.cache.is_pointwise() {
                true => self.caches.last_hits().to_vec(),
                false => capacities(&self.config).iter().map(|capacity| outcome.hits_at(*capacity)).collect(),
            };
            let hits = [0, unlimited].into_iter().chain(hits);
            let prompt = event.input_tokens.expect("every request says so");
            self.computed.push(hits.map(|hits| prompt.saturating_sub(hits * 4)).collect());
        }
    }

    /// The requests of a window, by their place among those that count.
    fn in_window<'a>(
        &'a self,
        estimate: &Estimate,
    ) -> impl Iterator<Item = (usize, &'a Arc<Observation>)> + use<'a> {
        let (start, end, window) = (estimate.start_ms, estimate.end_ms, estimate.window);
        let skipped = match window {
            WindowKind::Last { requests } => self.counted.len().saturating_sub(requests as usize),
            _ => 0,
        };
        let is_in = move |time: i64, watermark: Option<EventTime>| match window {
            WindowKind::Last { .. } | WindowKind::All => true,
            _ => (start..end).contains(&time) && watermark.is_none_or(|at| at.0 < end + GRACE_MS),
        };
        let all = self.counted.iter().enumerate().skip(skipped);
        all.filter(move |(_, (time, watermark, _))| is_in(*time, *watermark))
            .map(|(place, (_, _, share))| (place, share))
    }

    /// Whether what a window says the cache is worth is what its requests compute one by one.
    fn agrees_on_worth(&self, estimate: &Estimate) -> bool {
        let Some(worth) = &estimate.worth else { return self.config.questions.worth.is_none() };
        let (mut times, _): (Vec<usize>, Vec<_>) = self.in_window(estimate).unzip();
        let (first, last) = times
            .iter()
            .map(|place| self.counted[*place].0)
            .fold((i64::MAX, i64::MIN), |(first, last), time| (first.min(time), last.max(time)));
        let days = (last - first) as f64 / 86_400_000.0;
        let columns = [&worth.without_cache, &worth.unlimited].into_iter().chain(&worth.capacities);
        let agrees = |(column, at): (usize, &WorthAt)| {
            times.sort_by_key(|place| self.computed[*place][column]);
            let of = |place: &usize| self.computed[*place][column] as f64;
            let hours = times.iter().map(of).sum::<f64>() / 3_600_000.0;
            let is_near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(1e-9);
            let ttft = at.time_to_first_token;
            is_near(at.accelerator_hours, hours)
                && at.money_a_day.is_none_or(|money| is_near(money, hours / days * 3.0))
                && at.money_a_day.is_some() == (days > 0.0)
                && [(50, ttft.p50_ms), (95, ttft.p95_ms), (99, ttft.p99_ms)].into_iter().all(
                    |(share, told)| is_near(told, of(&times[(share * times.len()).div_ceil(100).max(1) - 1])),
                )
        };
        let provisioned = self.config.questions.provisioned.as_ref().and_then(|spec| spec.pages(None));
        let is_one = |at: &WorthAt| at.pages == provisioned.map(|pages| pages.0);
        let own = worth.provisioned.iter().all(is_one)
            && worth.capacities.iter().filter(|at| is_one(at)).all(|at| Some(*at) == worth.provisioned);
        own && (worth.days - days).abs() < 1e-12 && columns.enumerate().all(agrees)
    }

    /// What a window says that holds these requests and nothing was ever taken out of.
    fn says(&self, estimate: &Estimate) -> QuestionAnswers {
        let (_, shares): (Vec<usize>, Vec<&Arc<Observation>>) = self.in_window(estimate).unzip();
        let shape = self.observers.shape();
        let shape = if estimate.window == WindowKind::All { shape.without_end() } else { shape };
        let mut tally = shape.tally().expect("asked");
        shares.into_iter().for_each(|share| tally.as_mut().add(share));
        let totals: Vec<_> = estimate.capacities.iter().map(|point| PageCount(point.pages)).collect();
        let config = self.config.observed().provisioned();
        let room = room_of(estimate, config.total(None));
        let figures = QuestionFigures {
            config,
            page_size: PAGE,
            page_bytes: None,
            totals: &totals,
            page_accesses: estimate.page_accesses,
            prompts: estimate.prompts(),
            tiers: estimate.plan.as_ref().map(|plan| plan.tiers.as_slice()),
            capacities: &bare(estimate),
            required: &estimate.required,
            recommended: &estimate.recommended,
            below_a_day: 0.0,
            room: &room,
            during: estimate.start_ms..estimate.end_ms,
        };
        self.observers.answers(&tally, &figures)
    }
}

/// As many needs of room as the estimate names beyond what is provisioned, and none of the other requests.
fn room_of(estimate: &Estimate, provisioned: Option<PageCount>) -> Needs {
    let mut room = Needs::default();
    let shortages = estimate.in_flight.iter().flat_map(|found| &found.without_room);
    let beyond = shortages.filter(|found| Some(PageCount(found.pages)) == provisioned);
    let beyond: u64 = beyond.map(|found| found.requests).sum();
    let more = provisioned.map_or(0, |pages| pages.0 + 1);
    room.insert_many(more, beyond as u32);
    room.insert_many(0, (estimate.requests - beyond) as u32);
    room
}

/// The curve without what is asked of its capacities.
fn bare(estimate: &Estimate) -> Vec<CapacityPoint> {
    let bare = |point: &CapacityPoint| CapacityPoint {
        optimal_page_hits: None,
        eviction_age_ms: None,
        ..point.clone()
    };
    estimate.capacities.iter().map(bare).collect()
}

/// A set's image as a snapshot keeps it.
fn bytes(set: &PoolSet) -> Vec<u8> {
    let PoolSetImage { log, pools, timelines } = set.image();
    postcard::to_allocvec(&(log, timelines, pools)).expect("bytes")
}

/// The image, read back.
fn read(kept: &[u8]) -> PoolSetImage {
    let (log, timelines, pools) = postcard::from_bytes(kept).expect("a set");
    PoolSetImage { log, pools, timelines }
}

fn restore(config: &PoolConfig, kept: &[u8]) -> Result<PoolSet, PoolSetRestoreError> {
    PoolSet::restore(set_config(config), read(kept))
}

proptest! {
    #[test]
    fn every_window_says_what_its_requests_say_one_by_one(
        requests in requests(), config in configs(),
    ) {
        let mut set = PoolSet::new(set_config(&config), PoolHistory::Whole);
        let mut model = Model::new(&config);
        let mut windows = 0;
        let mut compare = |model: &Model, estimates: Vec<Estimate>| {
            for estimate in estimates {
                let QuestionAnswers { measured, routers, reuse, .. } = model.says(&estimate);
                prop_assert_eq!(&estimate.retention, &reuse.retention, "{}", estimate.window);
                prop_assert_eq!(&estimate.retention_required, &reuse.retention_required, "{}", estimate.window);
                prop_assert_eq!(&estimate.traffic, &reuse.traffic, "{}", estimate.window);
                prop_assert_eq!(&estimate.tenants, &reuse.tenants, "{}", estimate.window);
                prop_assert_eq!(&estimate.capacities, &reuse.with_points(bare(&estimate)), "{}", estimate.window);
                let has_curve = !config.cache.is_pointwise();
                prop_assert_eq!(reuse.retention.len(), if has_curve { 6 } else { 0 });
                prop_assert_eq!(estimate.traffic.is_some(), has_curve && estimate.window != WindowKind::All);
                prop_assert_eq!(&estimate.measured, &measured, "{}", estimate.window);
                prop_assert_eq!(&estimate.routing, &routers, "{}", estimate.window);
                prop_assert!(model.agrees_on_worth(&estimate), "{}: {:?}", estimate.window, estimate.worth);
                windows += 1;
            }
            Ok(())
        };
        let mut result = Ok(());
        replay(&requests, |index, event| {
            let watermark = set.timelines().first().and_then(Timeline::watermark);
            model.observe(index, event, watermark);
            let closed = observe(&mut set, index, event);
            let both = compare(&model, closed).and_then(|()| compare(&model, set.provisional(Offset(0))));
            result = result.clone().and(both);
        });
        result?;
        prop_assert!(windows > 0 || requests.len() <= 3);
    }

    #[test]
    fn a_restored_set_goes_on_as_if_it_had_never_stopped(
        requests in requests(), cut in any::<prop::sample::Index>(), config in configs(),
    ) {
        let cut = cut.index(requests.len());
        let mut set = PoolSet::new(set_config(&config), PoolHistory::Whole);
        let mut restored = None;
        let mut pairs = Vec::new();
        replay(&requests, |index, event| {
            if index == cut {
                let kept = bytes(&set);
                let other = restore(&config, &kept).expect("the same configuration");
                assert!(bytes(&other) == kept, "a snapshot is a function of the log alone");
                restored = Some(other);
            }
            let closed = observe(&mut set, index, event);
            if let Some(restored) = &mut restored {
                pairs.push((observe(restored, index, event), closed));
            }
        });
        for (after, unstopped) in pairs {
            prop_assert_eq!(after, unstopped);
        }
        let mut restored = restored.expect("the cut lies within the log");
        let mut ends = [Vec::new(), Vec::new()];
        set.finish(Offset(99), &mut ends[0]);
        restored.finish(Offset(99), &mut ends[1]);
        prop_assert_eq!(&ends[0], &ends[1]);
    }
}

/// A set that has seen a few requests, and what a snapshot keeps of it.
fn kept(config: &PoolConfig) -> Vec<u8> {
    let mut set = PoolSet::new(set_config(config), PoolHistory::Whole);
    let requests: Vec<Request> = (0..9).map(|turn| (vec![1, 2, turn], 10, Some(60), Some(1))).collect();
    replay(&requests, |index, event| drop(observe(&mut set, index, event)));
    bytes(&set)
}

#[test]
fn a_snapshot_of_other_questions_is_refused() {
    let config = config(None, Ratio::ONE);
    let whole = kept(&config);
    assert!(restore(&config, &whole).is_ok());
    // What the one pool of these tests keeps of its questions, changed.
    let refuses = |change: &dyn Fn(&mut Option<RestoredSections>)| {
        let mut image = read(&whole);
        image.pools.iter_mut().for_each(|(_, pool)| change(&mut pool.sections));
        PoolSet::restore(set_config(&config), image).is_err()
    };
    let sections_of = |config: &PoolConfig| {
        let mut pools = read(&kept(config)).pools;
        pools.pop().and_then(|(_, pool)| pool.sections).expect("questions")
    };
    assert!(refuses(&|sections| *sections = None), "nothing was kept");
    assert!(refuses(&|sections| sections.as_mut().expect("questions").reuse = None), "time is asked");
    let refuses_sections = |other: &PoolConfig| refuses(&|sections| *sections = Some(sections_of(other)));
    let refuses_sections_without = |change: fn(&mut Questions)| {
        let mut questions = config.questions.clone();
        change(&mut questions);
        refuses_sections(&PoolConfig { questions, ..config.clone() })
    };
    assert!(refuses_sections_without(|questions| questions.restarts = false), "restarts are asked");
    assert!(refuses_sections_without(|questions| questions.worth = None), "worth is asked");
    assert!(refuses_sections_without(|questions| questions.retention_classes = false), "classes are asked");
    let refuses_of = |other: &PoolConfig| {
        refuses(&|sections| {
            let (own, other) = (sections.as_mut().expect("questions"), sections_of(other));
            (own.measured, own.routers) = (other.measured, other.routers);
        })
    };
    for questions in [enabled(&["logged"], true), enabled(&["round-robin:2"], false), enabled(&[], true)] {
        assert!(refuses_of(&PoolConfig { questions, ..config.clone() }), "other questions");
    }
    let of_cache = |cache: CacheConfig| PoolConfig { cache, ..config.clone() };
    let capacities = config.cache.capacities[1..].to_vec();
    let fewer_columns = of_cache(CacheConfig { capacities, ..config.cache.clone() });
    assert!(refuses_sections(&fewer_columns), "other capacities");
    let target_ratios = vec![Ratio::ONE];
    let fewer = of_cache(CacheConfig { target_ratios, ..config.cache.clone() });
    assert!(refuses_of(&fewer), "other target ratios");
}

#[test]
fn nothing_asked_is_nothing_kept_and_no_part_of_a_fingerprint() {
    let config = PoolConfig { questions: Questions::default(), ..config(None, Ratio::ONE) };
    assert!(Observers::new(config.observed(), &[], PAGE).is_none());
    assert!(read(&kept(&config)).pools.iter().all(|(_, pool)| pool.sections.is_none()));
    let fingerprint = |config: &PoolConfig| config.fingerprint().expect("json");
    let provisioned = Questions { provisioned: Some("9p".parse().expect("pages")), ..Questions::default() };
    assert_eq!(fingerprint(&PoolConfig { questions: provisioned, ..config.clone() }), fingerprint(&config));
    let some = PoolConfig { questions: enabled(&["hash:2:tenant"], false), ..config.clone() };
    let other = PoolConfig { questions: enabled(&["hash:2:first-page"], false), ..config.clone() };
    assert_ne!(fingerprint(&some), fingerprint(&config));
    assert_ne!(fingerprint(&some), fingerprint(&other));
}
