//! Routers against obvious models, and one pass against a replay of each replica's part of the log.

use super::*;
use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::one_pass::Engine;
use crate::engines::profile::{Outputs, Profile};
use crate::estimate::config::PoolConfig;
use crate::questions::counters::Counter;
use crate::questions::question::{Accepted, MAX_REPLICAS};
use crate::request::event::RequestEvent;
use crate::request::labels::{Label, Labels};
use crate::request::outcome::{BEYOND, Outcome};
use crate::stack::naive::{NaiveStack, chained_requests};
use crate::units::capacity::CapacitySize;
use crate::units::pages::PageIds;
use crate::units::ratio::Ratio;
use crate::units::{EventTime, PageCount, PageSize};
use proptest::prelude::*;
use std::collections::HashSet;

/// A request: ids, session, gap to the one before, duration.
type Request = (Vec<u64>, u8, u8, Option<u16>);

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let about = || (0u8..6, 0u8..20, prop::option::of(0u16..100));
    (chained_requests(80), prop::collection::vec(about(), 80)).prop_map(|(requests, about)| {
        let pairs = requests.into_iter().zip(about);
        pairs.map(|(ids, (session, gap, duration))| (ids, session, gap, duration)).collect()
    })
}

/// Calls `each` with every request as a router sees it.
fn replay(requests: &[Request], mut each: impl FnMut(usize, (&RequestEvent<'_>, &str))) {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut now = 0;
    for (index, (ids, session, gap, duration)) in requests.iter().enumerate() {
        now += i64::from(*gap);
        let event = RequestEvent {
            event_time: EventTime(now),
            page_ids: PageIds::from_slice(ids),
            duration_ms: duration.map(u64::from),
            output_tokens: Some(u64::from(*gap)),
            labels: (*session > 0)
                .then(|| (Label::Replica, names[usize::from(*session)]))
                .into_iter()
                .collect(),
            ..RequestEvent::default()
        };
        each(index, (&event, names[usize::from(*session)]));
    }
}

/// The pool's own engine.
struct Accepting(Engine);

impl Accepting {
    fn new(config: &PoolConfig) -> Self {
        Self(Engine::new(config.cache.engine()))
    }

    fn accept(&mut self, event: &RequestEvent<'_>) -> &Engine {
        self.0.observe(event, page_size(), &mut Outcome::default()).expect("chained");
        &self.0
    }
}

/// A router, its caches and what requests found there.
struct Run {
    routed: RoutedCaches,
    tally: RoutingTally,
}

impl Run {
    fn new(routed: RoutedCaches, config: &PoolConfig) -> Self {
        Self { routed, tally: RoutingTally::new(config.cache.target_ratios.len()) }
    }

    fn observe(
        &mut self,
        (event, session): (&RequestEvent<'_>, &str),
        config: &PoolConfig,
        pool: &Engine,
        counted: bool,
    ) -> (usize, &Outcome) {
        let routed = self.routed.observe(&Accepted {
            event,
            session: Some(session),
            outcome: &Outcome::default(),
            page_size: page_size(),
            index: 0,
            counted,
            engine: pool,
            own: &CacheBank::default(),
            cache: config.observed().provisioned(),
            generated: None,
        });
        let routed = routed.expect("few replicas");
        let (replica, _, outcome) = routed;
        if counted {
            self.tally.add(&RoutingShare::of(replica, outcome, &config.cache.target_ratios));
        }
        (replica, outcome)
    }

    fn estimate(&self, totals: &[PageCount], config: &PoolConfig) -> RouterEstimate {
        let (router, tally, page_size) = (self.routed.router(), &self.tally, page_size());
        RoutingFigures { router, tally, totals, config: &config.cache, page_size, page_bytes: None }
            .estimate()
    }
}

/// Replicas follow the pool's engine all the while, or until half of the larger pools' pages are there.
fn config(profile: Profile) -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            profile,
            max_pages_per_request: (1 << 20) - 150,
            outputs: Outputs::Cached,
            target_ratios: vec![Ratio::ONE, Ratio::per_mille(500)],
            coverages: vec![Ratio::per_mille(500), Ratio::per_mille(990)],
            max_tracked_pages: PageCount(1 << 20),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    }
}

fn page_size() -> PageSize {
    PageSize::new(4).expect("not zero")
}

fn specs() -> impl Strategy<Value = RouterSpec> {
    let names = prop::sample::select(vec![
        "logged",
        "round-robin:1",
        "round-robin:3",
        "hash:2",
        "hash:3:first-page",
        "least-in-flight:3",
        "prefix:3",
        "prefix:2:match=0.1,balance=1,tree=1024",
    ]);
    names.prop_map(|name| name.parse().expect("a router"))
}

/// The outcomes of one replica's requests, replayed by themselves.
fn replay_part(requests: &[Request], config: &PoolConfig, is_own: impl Fn(usize) -> bool) -> Vec<Outcome> {
    let mut engine = Engine::new(config.cache.engine());
    let mut outcomes = Vec::new();
    replay(requests, |index, request| {
        if is_own(index) {
            let mut outcome = Outcome::default();
            engine.observe(request.0, page_size(), &mut outcome).expect("chained");
            outcomes.push(outcome);
        }
    });
    outcomes
}

proptest! {
    #[test]
    fn one_pass_equals_a_replay_of_each_replicas_part(
        requests in requests(), spec in specs(), (vllm, apart) in any::<(bool, bool)>(), warm_up in 0usize..20,
    ) {
        let config = config(if vllm { Profile::Vllm } else { Profile::Paper });
        let routed = if apart { RoutedCaches::apart(spec, &config.cache) } else { RoutedCaches::new(spec) };
        let (mut run, mut pool) = (Run::new(routed, &config), Accepting::new(&config));
        let mut replicas = Vec::new();
        replay(&requests, |index, request| {
            let counted = index >= warm_up;
            let pool = pool.accept(request.0);
            let (replica, _) = run.observe(request, &config, pool, counted);
            replicas.push(replica);
        });
        let count = run.routed.router().replicas();
        let parts: Vec<_> = (0..count)
            .map(|replica| {
                let outcomes = replay_part(&requests, &config, |index| replicas[index] == replica);
                let cold = replicas.iter().take(warm_up).filter(|at| **at == replica).count();
                outcomes[cold.min(outcomes.len())..].to_vec()
            })
            .collect();
        let totals: Vec<_> = (0..40).map(|step| PageCount(step * step)).collect();
        let result = run.estimate(&totals, &config);
        let all = || parts.iter().flatten();
        prop_assert!(result.required.iter().all(|required| required.requests == all().count() as u64));
        prop_assert_eq!(result.page_accesses, all().map(|outcome| outcome.page_accesses).sum::<u64>());
        prop_assert_eq!(result.unlimited_page_hits, all().map(Outcome::reusable_prefix).sum::<u64>());
        for point in &result.capacities {
            prop_assert_eq!(point.pages, point.total_pages / count.max(1) as u64);
            let hits = all().map(|outcome| outcome.hits_at(point.pages)).sum::<u64>();
            prop_assert_eq!(point.page_hits, Some(hits));
            let uncached: Vec<_> = parts
                .iter()
                .map(|part| {
                    part.iter().map(|outcome| outcome.page_accesses - outcome.hits_at(point.pages)).sum::<u64>()
                })
                .collect();
            let (most, sum) = (uncached.iter().max().copied().unwrap_or(0), uncached.iter().sum::<u64>());
            let expected = (sum > 0).then(|| most as f64 * count as f64 / sum as f64);
            prop_assert_eq!(point.imbalance, expected);
        }
        for (target, required) in config.cache.target_ratios.iter().zip(&result.required) {
            let need = |outcome: &Outcome| outcome.need_of_prefix(target.ceil_of(outcome.reusable_prefix()));
            let mut needs: Vec<_> = all().map(need).collect();
            needs.sort_unstable();
            for quantile in &required.coverage {
                let rank = quantile.coverage.nearest_rank(needs.len() as u64);
                let expected = rank.map(|rank| needs[rank as usize - 1]).filter(|need| *need != BEYOND);
                prop_assert_eq!(quantile.pages, expected);
                prop_assert_eq!(quantile.total_pages, expected.map(|pages| pages * count as u64));
            }
        }
    }

    #[test]
    fn least_in_flight_is_the_obvious_count(requests in requests(), replicas in 1usize..5) {
        let spec = RouterSpec { kind: RouterKind::LeastInFlight, replicas };
        let mut router = Router::new(spec);
        let mut held: Vec<(usize, EventTime)> = Vec::new();
        let mut got = vec![0; replicas];
        replay(&requests, |_, (event, session)| {
            let now = event.event_time;
            let in_flight = |replica| held.iter().filter(|(at, end)| *at == replica && *end > now).count();
            let least = (0..replicas).min_by_key(|replica| (in_flight(*replica), got[*replica], *replica));
            let least = least.expect("one at least");
            assert_eq!(router.route(event, Some(session)), Ok(least));
            got[least] += 1;
            held.push((least, EventTime(now.0 + event.duration_ms.unwrap_or(0) as i64)));
        });
    }

    #[test]
    fn a_prefix_router_follows_the_prefixes_it_sent(requests in requests(), replicas in 1usize..5) {
        let rules = PrefixRules::default();
        let mut router = Router::new(RouterSpec { kind: RouterKind::Prefix(rules), replicas });
        let mut sent: Vec<HashSet<Vec<u64>>> = vec![HashSet::new(); replicas];
        let mut loads = vec![0_u64; replicas];
        replay(&requests, |_, (event, session)| {
            let ids: Vec<u64> = event.page_ids.iter().collect();
            let known = |replica: usize| {
                (1..=ids.len()).take_while(|end| sent[replica].contains(&ids[..*end])).count()
            };
            let longest = (0..replicas).map(known).max().unwrap_or(0);
            let least = |replicas: &mut dyn Iterator<Item = usize>| {
                replicas.min_by_key(|replica| (loads[*replica], *replica)).expect("one at least")
            };
            let best = least(&mut (0..replicas).filter(|replica| known(*replica) == longest));
            let mean = loads.iter().sum::<u64>() as f64 / replicas as f64;
            let overloaded = loads[best] as f64 > mean * 1.5 + ids.len() as f64;
            let follows = longest > 0 && longest * 2 >= ids.len() && !overloaded;
            let chosen = if follows { best } else { least(&mut (0..replicas)) };
            assert_eq!(router.route(event, Some(session)), Ok(chosen));
            loads[chosen] += (ids.len() - known(chosen)) as u64;
            sent[chosen].extend((1..=ids.len()).map(|end| ids[..end].to_vec()));
        });
    }

    #[test]
    fn a_router_that_asks_the_caches_goes_where_most_is_found(
        requests in requests(), replicas in 1usize..5, each in 1u64..30, vllm in any::<bool>(),
    ) {
        let config = config(if vllm { Profile::LeafFirst } else { Profile::Paper });
        let at = CapacitySize::Pages(PageCount(each * replicas as u64));
        let kind = RouterKind::Precise(PreciseRules { at, balance_per_mille: 1500 });
        let mut run = Run::new(RoutedCaches::new(RouterSpec { kind, replicas }), &config);
        let mut pool = Accepting::new(&config);
        let mut caches = vec![NaiveStack::new(config.cache.profile.spec().order); replicas];
        let (mut loads, mut hits) = (vec![0_u64; replicas], 0);
        replay(&requests, |_, request| {
            let ids: Vec<u64> = request.0.page_ids.iter().collect();
            let found = |cache: &NaiveStack| {
                let needs = cache.clone().access(&ids).needs;
                needs.iter().take_while(|need| **need <= each).count() as u64
            };
            let found: Vec<_> = caches.iter().map(found).collect();
            let most = found.iter().copied().max().expect("one at least");
            let least = |replicas: &mut dyn Iterator<Item = usize>| {
                replicas.min_by_key(|replica| (loads[*replica], *replica)).expect("one at least")
            };
            let best = least(&mut (0..replicas).filter(|replica| found[*replica] == most));
            let mean = loads.iter().sum::<u64>() as f64 / replicas as f64;
            let overloaded = loads[best] as f64 > mean * 1.5 + ids.len() as f64;
            let chosen = if most > 0 && !overloaded { best } else { least(&mut (0..replicas)) };
            let pool = pool.accept(request.0);
            let (replica, outcome) = run.observe(request, &config, pool, true);
            assert_eq!((replica, outcome.hits_at(each)), (chosen, found[chosen]));
            loads[chosen] += ids.len() as u64 - found[chosen];
            hits += found[chosen];
            caches[chosen].access(&ids);
        });
        let result = run.estimate(&[PageCount(1), PageCount(2)], &config);
        let told: Vec<_> = result.capacities.iter().map(|point| (point.total_pages, point.page_hits)).collect();
        prop_assert_eq!(told, vec![(each * replicas as u64, Some(hits))]);
        prop_assert!(result.required.is_empty());
    }
}

#[test]
fn the_replicas_that_a_log_names_are_bounded() {
    let mut router = Router::new("logged".parse().expect("a router"));
    let names: Vec<_> = (0..=MAX_REPLICAS).map(|number| format!("replica-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let event = RequestEvent {
            labels: Labels::from_iter([(Label::Replica, name.as_str())]),
            ..RequestEvent::default()
        };
        let routed = router.route(&event, None);
        assert_eq!(routed.ok(), (number < MAX_REPLICAS).then_some(number));
    }
    assert_eq!(router.name(3), Some("replica-3"));
}

#[test]
fn a_hash_is_that_of_the_session_else_the_tenant_else_the_first_page() {
    let mut router = Router::new("hash:1000".parse().expect("a router"));
    let mut route = |session, tenant: Option<&str>, ids: &[u64]| {
        let event = RequestEvent {
            labels: tenant.map(|tenant| (Label::Tenant, tenant)).into_iter().collect(),
            page_ids: PageIds::from_slice(ids),
            ..RequestEvent::default()
        };
        router.route(&event, session).expect("few replicas")
    };
    let session = route(Some("s"), Some("t"), &[1]);
    assert_eq!(session, (xxhash_rust::xxh3::xxh3_64(b"s") % 1000) as usize);
    assert_eq!(session, route(Some("s"), None, &[2, 3]));
    assert_eq!(route(None, Some("t"), &[1]), route(None, Some("t"), &[2]));
    let first = route(None, None, &[1, 2]);
    assert_eq!(first, (xxhash_rust::xxh3::xxh3_64(&1_u64.to_le_bytes()) % 1000) as usize);
}
