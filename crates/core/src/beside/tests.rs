//! What windows say beside their estimates, against the same counted request by request, and what a
//! snapshot keeps of it.

use super::*;
use crate::engine::Engine;
use crate::estimate::Estimate;
use crate::event::RequestEvent;
use crate::labels::{Label, Labels};
use crate::naive::chained_requests;
use crate::outcome::Outcome;
use crate::pages::PageIds;
use crate::pool::RestoredPool;
use crate::pool_set::{
    History, PoolConfigs, PoolRecord, PoolSet, PoolSetConfig, PoolSetImage, PoolSetRestoreError,
    RestoredPoolSet,
};
use crate::profile::Profile;
use crate::ratio::Ratio;
use crate::units::{EventTime, Offset, PageSize};
use crate::window::WindowKind;
use proptest::prelude::*;
use std::sync::Arc;

const NAMES: [&str; 3] = ["a", "b", "c"];
const GRACE_MS: i64 = 5;

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

fn asked(routers: &[&str], measured: bool) -> Asked {
    let routers = routers.iter().map(|text| text.parse().expect(text)).collect();
    Asked { measured, routers, provisioned: None }
}

fn config(provisioned: Option<u64>, sample_rate: Ratio) -> PoolConfig {
    let all = asked(&["logged", "round-robin:2", "least-in-flight:3", "prefix:2:match=0.2"], true);
    let provisioned = provisioned.map(|pages| format!("{pages}p").parse().expect("pages"));
    PoolConfig {
        profile: Profile::Vllm,
        page_size: PageSize::new(4),
        target_ratios: vec![Ratio::ONE, Ratio::per_mille(500)],
        capacities: ["4p", "9p", "40p"].map(|text| text.parse().expect("pages")).to_vec(),
        windows: ["tumbling:50ms", "hopping:90ms/30ms", "last:7", "all"]
            .map(|text| text.parse().expect("a window"))
            .to_vec(),
        grace_ms: GRACE_MS as u64,
        allowed_lateness_ms: 20,
        publish_every_ms: 70,
        max_tracked_pages: PageCount(64),
        asked: Asked { provisioned, ..all },
        sample_rate,
        ..PoolConfig::default()
    }
}

fn set_config(config: &PoolConfig) -> PoolSetConfig {
    let pools = PoolConfigs::new(config.clone(), []).expect("usable");
    PoolSetConfig { pools: Arc::new(pools), partition: 0, max_pools: 2 }
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
            cached_tokens: cached.map(|share| tokens * u64::from(share) / 100),
            labels: replica
                .map(|replica| (Label::Replica, NAMES[usize::from(replica)]))
                .into_iter()
                .collect(),
            ..RequestEvent::default()
        };
        each(index, &event);
    }
}

fn observe(set: &mut PoolSet, index: usize, event: &RequestEvent<'_>) -> Vec<Estimate> {
    let mut closed = Vec::new();
    let record = PoolRecord { pool: "pool", event, offset: Offset(index as i64), counted: index > 2 };
    set.observe(record, &mut closed).expect("accepted");
    closed
}

/// The requests so far, each with the watermark before it.
struct Model {
    config: PoolConfig,
    engine: Engine,
    beside: Box<Beside>,
    counted: Vec<(i64, Option<EventTime>, BesideShare)>,
}

impl Model {
    fn new(config: &PoolConfig) -> Self {
        let beside = Beside::new(config).expect("asked");
        Self { config: config.clone(), engine: Engine::new(config.engine()), beside, counted: Vec::new() }
    }

    fn observe(&mut self, index: usize, event: &RequestEvent<'_>, watermark: Option<EventTime>) {
        let page_size = PageSize::new(4).expect("not zero");
        let mut outcome = Outcome::default();
        self.engine.observe(event, page_size, &mut outcome).expect("chained");
        let (session, counted, index) = (None, index > 2, index as u64);
        let accepted = Accepted { event, session, outcome: &outcome, page_size, index, counted };
        let share = self.beside.observe(&accepted, &self.config);
        if counted {
            self.counted.push((event.event_time.0, watermark, share));
        }
    }

    /// What a window says that holds these requests and nothing was ever taken out of.
    fn says(&self, estimate: &Estimate) -> (Option<MeasuredEstimate>, Vec<RouterEstimate>) {
        let (start, end) = (estimate.start_ms, estimate.end_ms);
        let shape = BesideShape::of(&self.config.asked, self.config.target_ratios.len());
        let mut tally = shape.tally().expect("asked");
        let was_open = |watermark: &Option<EventTime>| watermark.is_none_or(|at| at.0 < end + GRACE_MS);
        let skipped = match estimate.window {
            WindowKind::Last { requests } => self.counted.len().saturating_sub(requests as usize),
            _ => 0,
        };
        for (time, watermark, share) in &self.counted[skipped..] {
            let is_in = match estimate.window {
                WindowKind::Last { .. } | WindowKind::All => true,
                _ => (start..end).contains(time) && was_open(watermark),
            };
            if is_in {
                tally.add(share);
            }
        }
        let totals: Vec<_> = estimate.capacities.iter().map(|point| PageCount(point.pages)).collect();
        let measured = MeasuredFigures {
            config: &self.config,
            page_size: PageSize::new(4).expect("not zero"),
            page_bytes: None,
            provisioned: provisioned(&self.config, None),
            during: start..end,
        };
        let figures = BesideFigures { measured, totals: &totals };
        (self.beside.measured(&figures, &tally), self.beside.routing(&figures, &tally))
    }
}

/// A set's image as a snapshot keeps it: the pools, then what they are asked beside.
fn bytes(set: &PoolSet) -> (Vec<u8>, Vec<u8>) {
    let PoolSetImage { watermark, history, mut pools } = set.image();
    let beside: Vec<_> = pools.iter_mut().filter_map(|(_, pool)| pool.take_beside()).collect();
    let pools = postcard::to_allocvec(&(watermark, history, pools)).expect("bytes");
    (pools, postcard::to_allocvec(&beside).expect("bytes"))
}

fn restore(
    config: &PoolConfig,
    (pools, beside): &(Vec<u8>, Vec<u8>),
) -> Result<PoolSet, PoolSetRestoreError> {
    let (watermark, history, pools) = postcard::from_bytes(pools).expect("a set");
    let pools: Vec<(Box<str>, RestoredPool)> = pools;
    let mut beside = postcard::from_bytes::<Vec<RestoredBeside>>(beside).expect("what is asked").into_iter();
    let with = |(name, pool): (Box<str>, RestoredPool)| match beside.next() {
        Some(beside) => (name, pool.with_beside(beside)),
        None => (name, pool),
    };
    let pools = pools.into_iter().map(with).collect();
    PoolSet::restore(set_config(config), RestoredPoolSet { watermark, history, pools })
}

proptest! {
    #[test]
    fn every_window_says_what_its_requests_say_one_by_one(
        requests in requests(), provisioned in prop::option::of(1u64..30), sampled: bool,
    ) {
        let rate = if sampled { Ratio::per_mille(500) } else { Ratio::ONE };
        let config = config(provisioned, rate);
        let mut set = PoolSet::new(set_config(&config), History::Whole);
        let mut model = Model::new(&config);
        let mut windows = 0;
        let mut compare = |model: &Model, estimates: Vec<Estimate>| {
            for estimate in estimates {
                let (measured, routing) = model.says(&estimate);
                prop_assert_eq!(&estimate.measured, &measured, "{}", estimate.window);
                prop_assert_eq!(&estimate.routing, &routing, "{}", estimate.window);
                windows += 1;
            }
            Ok(())
        };
        let mut result = Ok(());
        replay(&requests, |index, event| {
            let watermark = set.watermark();
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
        requests in requests(), cut in any::<prop::sample::Index>(), sampled: bool,
    ) {
        let rate = if sampled { Ratio::per_mille(500) } else { Ratio::ONE };
        let config = config(None, rate);
        let cut = cut.index(requests.len());
        let mut set = PoolSet::new(set_config(&config), History::Whole);
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
fn kept(config: &PoolConfig) -> (Vec<u8>, Vec<u8>) {
    let mut set = PoolSet::new(set_config(config), History::Whole);
    let requests: Vec<Request> = (0..9).map(|turn| (vec![1, 2, turn], 10, Some(60), Some(1))).collect();
    replay(&requests, |index, event| drop(observe(&mut set, index, event)));
    bytes(&set)
}

#[test]
fn a_snapshot_of_other_questions_is_refused() {
    let config = config(None, Ratio::ONE);
    let whole = kept(&config);
    assert!(restore(&config, &whole).is_ok());
    let none = postcard::to_allocvec::<Vec<BesideImage<'_>>>(&Vec::new()).expect("bytes");
    assert!(restore(&config, &(whole.0.clone(), none)).is_err(), "nothing was kept beside");
    for asked in [asked(&["logged"], true), asked(&["round-robin:2"], false), asked(&[], true)] {
        let other = kept(&PoolConfig { asked, ..config.clone() });
        assert!(restore(&config, &(whole.0.clone(), other.1)).is_err(), "other questions");
    }
    let fewer = kept(&PoolConfig { target_ratios: vec![Ratio::ONE], ..config.clone() });
    assert!(restore(&config, &(whole.0, fewer.1)).is_err(), "other target ratios");
}

#[test]
fn nothing_asked_is_nothing_kept_and_no_part_of_a_fingerprint() {
    let config = PoolConfig { asked: Asked::default(), ..config(None, Ratio::ONE) };
    assert!(Beside::new(&config).is_none());
    assert_eq!(kept(&config).1, [0], "an empty list");
    let json = serde_json::to_string(&config).expect("json");
    assert!(!json.contains("asked"), "{json}");
    let fingerprint = |config: &PoolConfig| config.fingerprint().expect("json");
    let some = PoolConfig { asked: asked(&["hash:2"], false), ..config.clone() };
    let other = PoolConfig { asked: asked(&["hash:2:session"], false), ..config.clone() };
    assert_ne!(fingerprint(&some), fingerprint(&config));
    assert_ne!(fingerprint(&some), fingerprint(&other));
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let refused = |asked: Asked, part: &str| {
        let config = PoolConfig { asked, ..PoolConfig::default() };
        let error = config.check().expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(asked(&["hash:2"; 9], false), "`routers` has 9 entries: at most 8");
    refused(asked(&["hash:2", "logged", "hash:2"], false), "names hash:2 twice");
    let in_bytes = Some("1GiB".parse().expect("a size"));
    refused(Asked { provisioned: in_bytes, ..asked(&[], true) }, "`provisioned` is 1GiB");
    let pointwise = PoolConfig { profile: Profile::Sglang, asked: asked(&[], true), ..PoolConfig::default() };
    assert!(pointwise.check().expect_err("no stack").to_string().starts_with("`measured` needs an engine"));
}

/// More names than are followed: the pool goes on, and says how many requests it left out.
#[test]
fn requests_of_too_many_replicas_are_left_out_and_counted() {
    let config = PoolConfig {
        windows: vec![WindowKind::All],
        asked: asked(&["logged"], true),
        ..config(None, Ratio::ONE)
    };
    let mut set = PoolSet::new(set_config(&config), History::Whole);
    for index in 0..1100_usize {
        let (name, ids) = (format!("pod-{index}"), [1, 2]);
        let event = RequestEvent {
            event_time: EventTime(index as i64),
            page_ids: PageIds::from_slice(&ids),
            cached_tokens: Some(0),
            labels: Labels::from_iter([(Label::Replica, name.as_str())]),
            ..RequestEvent::default()
        };
        observe(&mut set, index + 3, &event);
    }
    let estimates = set.provisional(Offset(0));
    let measured = estimates[0].measured.as_ref().expect("asked");
    assert_eq!((measured.requests, measured.requests_left_out, measured.replicas), (1024, 76, 1024));
    assert_eq!(estimates[0].routing[0].required[0].requests, 1024);
    assert_eq!(estimates[0].requests, 1100);
}
