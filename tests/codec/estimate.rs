//! Estimates: both encodings read back, bytes are deterministic, keys are unambiguous.

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::writer::datum::GenericDatumWriter;
use kvset::codec::{
    EstimateDetail, EstimateEncoding, EstimateError, EstimateKey, SchemaId, decode_estimate, encode_estimate,
    pool_partition,
};
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::profile::{Outputs, Profile};
use kvset::core::estimate::config::PoolConfig;
use kvset::core::estimate::{
    CapacityPoint, CoverageCapacity, CoverageSize, Estimate, InFlightFigures, Required, RequiredCapacity,
    SCHEMA_VERSION, Status, TheoreticalHits,
};
use kvset::core::families::certainty::{Certainty, CertaintyStatus, FigureStanding};
use kvset::core::pool::{Arrival, Pool};
use kvset::core::questions::costs::Prices;
use kvset::core::questions::draft_range::{DraftRangeEstimate, DraftRangePoint};
use kvset::core::questions::measured::{
    EffectiveCapacity, LedgerEstimate, Loss, MeasuredEstimate, RestartEstimate, Verdict,
};
use kvset::core::questions::restarts::{RestartHour, RestartsAt, RestartsEstimate};
use kvset::core::questions::retention::{
    RetainedCapacityEstimate, RetentionEstimate, RetentionKind, TtlCoverage,
};
use kvset::core::questions::retention_classes::{RetentionClassAt, RetentionClassEstimate};
use kvset::core::questions::routing::{RoutedCapacity, RouterCoverage, RouterEstimate, RouterRequirement};
use kvset::core::questions::tenants::TenantEstimate;
use kvset::core::questions::traffic::{LoadSizes, PeakTraffic, TierTraffic, TrafficEstimate};
use kvset::core::questions::worth::{CoverageWorth, TimeToFirstToken, WorthAt, WorthEstimate};
use kvset::core::request::event::RequestEvent;
use kvset::core::sizing::figures::EvictionAge;
use kvset::core::sizing::recommendation::{Recommendation, RecommendationStatus};
use kvset::core::sizing::tiers::{Inclusion, NextUnit, Purchase, Settled, TierEstimate, TierEstimates};
use kvset::core::units::pages::PageIds;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::window::WindowKind;
use kvset::core::units::{EventTime, Offset, PageCount, PageSize};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::sync::Arc;

const ENCODINGS: [EstimateEncoding; 3] =
    [EstimateEncoding::Json, EstimateEncoding::Avro, EstimateEncoding::ConfluentAvro(SchemaId(7))];

/// Counts as far as an Avro long holds them.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..1000, 0..=i64::MAX as u64]
}

fn maybe<T: std::fmt::Debug>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(inner)
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64]
}

fn ratio() -> impl Strategy<Value = Ratio> {
    prop::sample::select(vec!["0.5", "0.9", "0.95", "0.99", "0.999", "1", "0.123456789"])
        .prop_map(|text| text.parse().expect("a share"))
}

fn window() -> impl Strategy<Value = WindowKind> {
    prop_oneof![
        Just(WindowKind::All),
        (1u32..10_000_000).prop_map(|requests| WindowKind::Last { requests }),
        (1u64..86_400_000).prop_map(|size_ms| WindowKind::Tumbling { size_ms }),
        (1u64..86_400, 1u64..1440)
            .prop_map(|(advance_ms, panes)| WindowKind::Hopping { size_ms: advance_ms * panes, advance_ms }),
    ]
}

fn trend() -> impl Strategy<Value = (Settled, Option<f64>)> {
    (prop::sample::select(vec![Settled::Converged, Settled::NotConverged]), maybe(-1.0..10.0f64))
}

prop_compose! {
    fn worth_at()(
        pages in maybe(count()), bytes in maybe(count()), accelerator_hours in 0.0..1e9f64,
        amounts in prop::collection::vec(maybe(-1e9..1e9f64), 6), times in prop::array::uniform3(0.0..1e9f64),
    ) -> WorthAt {
        let [p50_ms, p95_ms, p99_ms] = times;
        WorthAt {
            pages, bytes, accelerator_hours, accelerator_hours_a_day: amounts[0], money_a_day: amounts[1],
            saved_a_day: amounts[2], memory_a_day: amounts[3], step_earns_a_gib_day: amounts[4],
            next_step_earns_a_gib_day: amounts[5], time_to_first_token: TimeToFirstToken { p50_ms, p95_ms, p99_ms },
        }
    }
}

prop_compose! {
    fn worth()(
        prefill_rate in "[0-9@,]{1,20}", accelerator_hour in maybe(0.0..1e9f64), gib_hour in maybe(0.0..1e9f64),
        days in 0.0..1e5f64, ends in prop::array::uniform2(worth_at()), capacities in prop::collection::vec(worth_at(), 0..3),
        some in prop::array::uniform3(maybe(worth_at())),
        covering in prop::collection::vec((ratio(), maybe(worth_at())), 0..3),
    ) -> WorthEstimate {
        let covering = covering.into_iter().map(|(coverage, worth)| CoverageWorth { coverage, worth });
        WorthEstimate {
            prefill_rate, prices: Prices { accelerator_hour, gib_hour }, days, without_cache: ends[0], unlimited: ends[1],
            capacities, provisioned: some[0], recommended: some[1], coverages: covering.collect(), best: some[2],
        }
    }
}

prop_compose! {
    fn restarts()(
        days in 0.0..1e5f64,
        sizes in prop::collection::vec((count(), maybe(count()), any::<(bool, bool)>(), prop::collection::vec((
            0..24u32, count(), maybe(0.0..1e9f64), maybe(0.0..1e9f64), maybe(1..1441u32),
        ), 0..3)), 0..3),
    ) -> RestartsEstimate {
        let hour = |(hour, tokens, prefill_seconds, money, warm_minutes)| {
            RestartHour {
                hour,
                restarts: None,
                tokens,
                most_tokens: None,
                prefill_seconds,
                money,
                warm_minutes,
            }
        };
        let sizes = sizes.into_iter().map(|(pages, bytes, (provisioned, recommended), hours)| {
            let hours = hours.into_iter().map(hour).collect();
            RestartsAt { pages, bytes, provisioned, recommended, hours, restarts: Vec::new() }
        });
        RestartsEstimate { clock: None, days, sizes: sizes.collect() }
    }
}

prop_compose! {
    fn retention_class()(
        class in maybe("[a-z0-9-]{1,12}"), classes in maybe(count()), counts in prop::array::uniform3(count()),
        sizes in prop::collection::vec((count(), maybe(count()), any::<(bool, bool)>(), count(), count()), 0..3),
    ) -> RetentionClassEstimate {
        let at = |(pages, bytes, (provisioned, recommended), page_hits, page_milliseconds)| {
            RetentionClassAt { pages, bytes, provisioned, recommended, page_hits, page_milliseconds }
        };
        let [requests, page_accesses, page_hits] = counts;
        let sizes = sizes.into_iter().map(at).collect();
        RetentionClassEstimate { class, classes, requests, page_accesses, page_hits, sizes }
    }
}

prop_compose! {
    fn draft_range()(
        counts in prop::array::uniform3(count()), capacities in prop::collection::vec((count(), count()), 0..3),
    ) -> DraftRangeEstimate {
        let [requests, page_hits, page_hits_without_head] = counts;
        let capacities = capacities.into_iter().map(|(pages, page_hits)| DraftRangePoint { pages, page_hits });
        DraftRangeEstimate { requests, page_hits, page_hits_without_head, capacities: capacities.collect() }
    }
}

// Strategies nest by value; boxed, they fit a test's stack.
prop_compose! {
    fn purchase()(
        units in maybe(count()), pages in maybe(count()), bytes in maybe(count()), reach_pages in maybe(count()),
        hit_rate in maybe(rate()), hit_rate_tokens in maybe(rate()), relative_prefill_throughput in maybe(1.0..1e9),
        cost in maybe(0.0..1e15),
    ) -> Purchase {
        Purchase { units, pages, bytes, reach_pages, hit_rate, hit_rate_tokens, relative_prefill_throughput, cost }
    }
}

prop_compose! {
    fn tier()(
        name in "[a-z0-9._-]{1,40}", coverage in ratio(), inclusive: bool, required_pages in maybe(count()),
        flags in any::<[bool; 2]>(), trend in trend(), planned in purchase().boxed(), recommended in purchase().boxed(),
        next in maybe((count(), maybe(rate()), maybe(1.0..1e9), maybe(0.0..1e15))),
    ) -> TierEstimate {
        TierEstimate {
            name, coverage, required_pages, planned, recommended,
            inclusion: if inclusive { Inclusion::Inclusive } else { Inclusion::Exclusive },
            beyond_bound: flags[0], recommendation_changed: flags[1],
            convergence: trend.0, growth_per_window: trend.1,
            next_unit: next.map(|next| NextUnit {
                reach_pages: PageCount(next.0), hit_rate_gain: next.1,
                relative_prefill_throughput: next.2, cost: next.3,
            }),
        }
    }
}

prop_compose! {
    fn plan()(
        target_ratio in ratio(), cost in maybe(0.0..1e15), recommended_cost in maybe(0.0..1e15),
        tiers in prop::collection::vec(tier().boxed(), 0..4),
    ) -> TierEstimates {
        TierEstimates { target_ratio, cost, recommended_cost, tiers }
    }
}

/// Ends, standard error, conversations above, standing.
type AnyInterval = (Option<u64>, Option<u64>, Option<f64>, Option<u64>, Option<FigureStanding>);

fn interval() -> impl Strategy<Value = AnyInterval> {
    let standings = vec![FigureStanding::Stated, FigureStanding::Rough, FigureStanding::NotStated];
    let standing = maybe(prop::sample::select(standings));
    (maybe(count()), maybe(count()), maybe(rate()), maybe(count()), standing)
}

prop_compose! {
    fn certainty()(
        level in rate(), method in "[a-z0-9 ]{1,20}", counts in (count(), maybe(count())), largest_share in rate(),
        by in "[a-z ]{1,9}",
        status in prop::sample::select(vec![CertaintyStatus::Ready, CertaintyStatus::TooFewConversations]),
    ) -> Certainty {
        let (method, by) = (method.into(), by.into());
        let (conversations, common_pages) = counts;
        Certainty { level, method, conversations, largest_share, common_pages, by, status, ..Certainty::by_page_tree() }
    }
}

prop_compose! {
    fn coverage()(
        coverage in ratio(), pages in maybe(count()), bytes in maybe(count()), tokens in maybe(count()),
        pages_with_reuse in maybe(count()), beyond_bound: bool, trend in trend(), interval in interval(),
    ) -> CoverageCapacity {
        let (convergence, growth_per_window) = trend;
        CoverageCapacity {
            coverage, pages, bytes, tokens, pages_with_reuse, beyond_bound, convergence, growth_per_window,
            low: interval.0, high: interval.1, standard_error: interval.2, conversations_above: interval.3,
            status: interval.4,
        }
    }
}

prop_compose! {
    fn required()(
        target_ratio in ratio(), mean_pages in maybe(0.0..1e15), max_pages in maybe(count()),
        coverage in prop::collection::vec(coverage().boxed(), 0..4),
    ) -> RequiredCapacity {
        RequiredCapacity { target_ratio, mean_pages, max_pages, coverage }
    }
}

prop_compose! {
    fn capacity()(
        label in maybe("[0-9]{1,3}(GiB|p)"), pages in count(), bytes in maybe(count()), hits in maybe((count(), count())),
        rates in maybe((rate(), rate(), rate())), throughput in maybe(1.0..1e9), beyond_bound: bool,
        told in (maybe(count()), maybe((maybe(count()), maybe(count()), maybe(count())))), hit_rate_tokens in maybe(rate()),
    ) -> CapacityPoint {
        CapacityPoint {
            label, pages, bytes, beyond_bound, hit_rate_tokens,
            page_hits: hits.map(|h| h.0), prefix_hits: hits.map(|h| h.1),
            page_hit_rate: rates.map(|r| r.0), reuse_hit_rate: rates.map(|r| r.1), prefix_hit_rate: rates.map(|r| r.2),
            relative_prefill_throughput: throughput,
            optimal_page_hits: told.0, eviction_age_ms: told.1.map(|(p10, p50, p90)| EvictionAge { p10, p50, p90 }),
        }
    }
}

prop_compose! {
    fn recommendation()(
        coverage in ratio(), target_ratio in ratio(), act_on: bool, status in prop::sample::select(&RecommendationStatus::ALL),
        counts in prop::collection::vec(maybe(count()), 6), hit_rate in maybe(rate()), throughput in maybe(1.0..1e9),
        trend in trend(), why in maybe("\\PC{0,20}"), hit_rate_tokens in maybe(rate()), interval in interval(),
    ) -> Recommendation {
        Recommendation {
            coverage, target_ratio, act_on, status, why, hit_rate, hit_rate_tokens, relative_prefill_throughput: throughput,
            pages: counts[0], bytes: counts[1], required_pages: counts[2], in_flight_pages: counts[3],
            held_pages: counts[4], held_bytes: counts[5], convergence: trend.0, growth_per_window: trend.1,
            low: interval.0, high: interval.1, conversations_above: interval.3, interval_status: interval.4,
        }
    }
}

fn recommended() -> impl Strategy<Value = (bool, Vec<Recommendation>, Vec<CapacityPoint>)> {
    let recommended = prop::collection::vec(recommendation().boxed(), 0..4).boxed();
    (any::<bool>(), recommended, prop::collection::vec(capacity().boxed(), 0..3).boxed())
}

prop_compose! {
    fn required_in_flight()(
        target_ratio in ratio(), entries in prop::collection::vec((ratio(), maybe(count()), maybe(count())), 0..4),
    ) -> Required<CoverageSize> {
        let entry = |(coverage, pages, bytes)| CoverageSize { coverage, pages, bytes };
        Required { target_ratio, coverage: entries.into_iter().map(entry).collect() }
    }
}

prop_compose! {
    fn in_flight()(
        max_requests in count(), max_pages in maybe(count()), max_bytes in maybe(count()),
        mean_pages in maybe(0.0..1e15), p99_pages in maybe(count()), modelled: bool, required in prop::collection::vec(required_in_flight(), 0..4),
    ) -> InFlightFigures {
        InFlightFigures { modelled, max_requests, max_pages, max_bytes, mean_pages, p99_pages, required, without_room: Vec::new() }
    }
}

prop_compose! {
    fn retention()(
        ttl_ms in count(), is_fixed: bool, hits in maybe((count(), count())), rates in (maybe(rate()), maybe(rate())),
        held in maybe((0.0..1e15, count(), maybe((0.0..1e18, count())))), covered in maybe(rate()),
        capacities in prop::collection::vec((count(), maybe(count()), maybe(rate())), 0..3),
    ) -> RetentionEstimate {
        let bytes = held.and_then(|(_, _, bytes)| bytes);
        let capacity = |(pages, page_hits, honoured)| RetainedCapacityEstimate { pages, page_hits, honoured };
        RetentionEstimate {
            ttl_ms, kind: if is_fixed { RetentionKind::Fixed } else { RetentionKind::Sliding },
            page_hits: hits.map(|hits| hits.0), prefix_hits: hits.map(|hits| hits.1), page_hit_rate: rates.0,
            hit_rate_tokens: rates.1, mean_pages: held.map(|held| held.0), peak_pages: held.map(|held| held.1),
            mean_bytes: bytes.map(|bytes| bytes.0), peak_bytes: bytes.map(|bytes| bytes.1), covered,
            capacities: capacities.into_iter().map(capacity).collect(),
        }
    }
}

prop_compose! {
    fn required_ttl()(
        target_ratio in ratio(), entries in prop::collection::vec((ratio(), maybe(count())), 0..3),
    ) -> Required<TtlCoverage> {
        let entry = |(coverage, ttl_ms)| TtlCoverage { coverage, ttl_ms };
        Required { target_ratio, coverage: entries.into_iter().map(entry).collect() }
    }
}

prop_compose! {
    fn tier_traffic()(
        tier in "[a-z]{1,9}", exclusive: bool, pages in prop::collection::vec(count(), 6), bytes in maybe((count(), count())),
        writes in maybe(0.0..1e3), load_bytes in maybe((count(), count())),
        peaks in prop::collection::vec((count(), count(), count(), maybe(0.0..1e12), maybe(0.0..1e12)), 0..3),
    ) -> TierTraffic {
        let peak = |(span_ms, read_pages, written_pages, read_bytes_per_second, written_bytes_per_second)| PeakTraffic {
            span_ms, read_pages, written_pages, read_bytes_per_second, written_bytes_per_second,
        };
        TierTraffic {
            tier, inclusion: if exclusive { Inclusion::Exclusive } else { Inclusion::Inclusive }, pages: pages[0],
            read_pages: pages[1], read_bytes: bytes.map(|b| b.0), written_pages: pages[2], written_bytes: bytes.map(|b| b.1),
            written_otherwise_pages: pages[3], drive_writes_per_day: writes,
            load_pages: LoadSizes { p50: pages[4], p99: pages[5] }, load_bytes: load_bytes.map(|(p50, p99)| LoadSizes { p50, p99 }),
            peaks: peaks.into_iter().map(peak).collect(),
        }
    }
}

prop_compose! {
    fn traffic()(
        span_ms in count(), tiers in prop::collection::vec(tier_traffic(), 0..3), pages_touched_once in maybe(count()),
        second_sight_saves in maybe(rate()), break_even_bytes_per_second in maybe(0.0..1e15),
    ) -> TrafficEstimate {
        TrafficEstimate { span_ms, tiers, pages_touched_once, second_sight_saves, break_even_bytes_per_second }
    }
}

prop_compose! {
    fn tenant()(
        tenant in maybe("\\PC{0,9}"), tenants in maybe(count()), counts in prop::collection::vec(count(), 4),
        cold_bytes in maybe(count()), hits in prop::collection::vec(count(), 0..3), held in prop::collection::vec(count(), 0..3),
        required in prop::collection::vec((ratio(), prop::collection::vec((ratio(), maybe(count()), maybe(count())), 0..3)), 0..3),
    ) -> TenantEstimate {
        let coverage = |(coverage, pages, bytes)| CoverageSize { coverage, pages, bytes };
        let requirement = |(target_ratio, entries): (_, Vec<_>)| Required {
            target_ratio, coverage: entries.into_iter().map(coverage).collect(),
        };
        TenantEstimate {
            tenant, tenants, requests: counts[0], page_accesses: counts[1], page_hits: counts[2], cold_pages: counts[3],
            cold_bytes, capacity_page_hits: hits, page_milliseconds: held,
            required: required.into_iter().map(requirement).collect(),
        }
    }
}

prop_compose! {
    fn loss()(
        pages in any::<i64>(), tokens in any::<i64>(), share in -1.0..1.0f64, speed in maybe(0.0..1e9),
    ) -> Loss {
        Loss { pages, tokens, share, relative_prefill_throughput: speed }
    }
}

prop_compose! {
    fn ledger()(
        counts in prop::collection::vec(count(), 3), hits in maybe((count(), count())), provisioned: bool,
        at in maybe((count(), count())), losses in (maybe(loss()), maybe(loss()), maybe(loss())),
        prompt_tokens in count(),
    ) -> LedgerEstimate {
        LedgerEstimate {
            page_accesses: counts[0], prompt_tokens, unlimited_pages: counts[1], measured_pages: counts[2], provisioned,
            shared_pages: hits.map(|h| h.0), routed_pages: hits.map(|h| h.1),
            total_capacity_pages: at.map(|at| at.0), capacity_pages: at.map(|at| at.1),
            lost_to_capacity: losses.0, lost_to_routing: losses.1, lost_in_engine: losses.2,
        }
    }
}

prop_compose! {
    fn measured()(
        counts in prop::collection::vec(count(), 8), decode_side: bool, effective in maybe((count(), maybe(count()), rate(), rate(), maybe(count()))),
        ledger in ledger().boxed(),
        restarts in prop::collection::vec((maybe("[a-z0-9-]{1,9}"), count(), any::<i64>(), count()), 0..3),
        verdict in maybe(prop::sample::select(vec![Verdict::IdScope, Verdict::MoreCaches, Verdict::Healthy])),
    ) -> MeasuredEstimate {
        let effective_capacity = effective.map(|(pages_from, pages_to, agreement, agreement_by_pages, bytes_from)| {
            EffectiveCapacity { pages_from, pages_to, agreement, agreement_by_pages, bytes_from }
        });
        let restart = |(replica, request, event_time_ms, misses)| RestartEstimate { replica, request, event_time_ms, misses };
        MeasuredEstimate {
            requests: counts[0], cached_pages: counts[1], effective_capacity, ledger, replicas: counts[2],
            requests_beyond_log: counts[3], pages_beyond_log: counts[4], requests_left_out: counts[5],
            requests_taken_as_zero: counts[6], generated_pages: counts[7], decode_side,
            restarts: restarts.into_iter().map(restart).collect(), verdict,
        }
    }
}

prop_compose! {
    fn router()(
        asked in "[a-z]{1,9}:[0-9]", counts in prop::collection::vec(count(), 3), imbalance in maybe(1.0..1e3),
        points in prop::collection::vec((count(), maybe(count()), count(), maybe(count()), (maybe(rate()), maybe(rate())), maybe(1.0..1e3)), 0..3),
        required in prop::collection::vec((ratio(), count(), count(), prop::collection::vec((ratio(), maybe(count())), 0..3)), 0..3),
    ) -> RouterEstimate {
        let point = |(total_pages, total_bytes, pages, page_hits, rates, imbalance): (_, _, _, _, (_, _), _)| RoutedCapacity {
            total_pages, total_bytes, pages, page_hits, prefix_hits: page_hits, imbalance,
            page_hit_rate: rates.0, hit_rate_tokens: rates.1,
        };
        let coverage = |(coverage, pages)| RouterCoverage { coverage, pages, total_pages: pages, total_bytes: None };
        let requirement = |(target_ratio, requests, requests_with_reuse, entries): (_, _, _, Vec<_>)| RouterRequirement {
            target_ratio, requests, requests_with_reuse, coverage: entries.into_iter().map(coverage).collect(),
        };
        RouterEstimate {
            router: asked.clone(), asked, replicas: counts[0], imbalance, unlimited_page_hits: counts[1],
            page_accesses: counts[2], capacities: points.into_iter().map(point).collect(),
            required: required.into_iter().map(requirement).collect(),
        }
    }
}

prop_compose! {
    fn estimate()(
        pool in "\\PC{0,20}".boxed(), window in window().boxed(), times in (any::<i64>(), any::<i64>()).boxed(),
        flags in any::<[bool; 3]>(), profile in 0usize..6, sampling in (rate(), rate()).boxed(),
        fingerprint in "[0-9a-f]{16}".boxed(), place in (0i32..10_000, -1i64..i64::MAX, any::<i64>()).boxed(),
        page in (1u32..65_536, maybe(count())).boxed(), counts in prop::collection::vec(count(), 12).boxed(),
        sums in (maybe(count()), count()).boxed(), rates in (rate(), rate(), maybe(rate())).boxed(),
        required in prop::collection::vec(required().boxed(), 0..4).boxed(), capacities in prop::collection::vec(capacity().boxed(), 0..4).boxed(),
        in_flight in maybe(in_flight().boxed()).boxed(), trend_windows in 0u32..101, plan in maybe(plan().boxed()).boxed(),
        beside in (maybe(measured().boxed()).boxed(), prop::collection::vec(router().boxed(), 0..3).boxed()).boxed(),
        (act_on, recommended, counted) in recommended().boxed(),
        lived in (
            prop::collection::vec(retention().boxed(), 0..3), prop::collection::vec(required_ttl().boxed(), 0..3),
            maybe(traffic().boxed()), prop::collection::vec(tenant().boxed(), 0..3), maybe(worth().boxed()),
            maybe(restarts().boxed()), maybe(prop::collection::vec(retention_class().boxed(), 0..3)),
            maybe(draft_range().boxed()), maybe(certainty().boxed()),
        ).boxed(),
    ) -> Estimate {
        Estimate {
            schema_version: SCHEMA_VERSION, act_on, recommended, counted,
            pool, window, start_ms: times.0, end_ms: times.1,
            status: if flags[0] { Status::Final } else { Status::Provisional }, warm_up: flags[1],
            engine: Profile::NAMES[profile].1, outputs: if flags[2] { Outputs::Cached } else { Outputs::Ignored },
            sample_rate: sampling.0, sample_error: sampling.1, fingerprint,
            partition: place.0, first_offset: place.1, next_offset: place.2, page_size: page.0, page_bytes: page.1,
            requests: counts[0], requests_with_reuse: counts[1], page_accesses: counts[2], distinct_pages: counts[3],
            accumulated_pages: counts[4], accumulated_bytes: sums.0, prompt_tokens: sums.1, tracked_pages: counts[5],
            theoretical: TheoreticalHits {
                page_hits: counts[6], prefix_hits: counts[7], page_hit_rate: rates.0, prefix_hit_rate: rates.1,
                hit_rate_tokens: rates.2,
            },
            required, capacities, late_records: counts[8], chain_violations: counts[9], rejected_records: counts[10],
            output_reuse_unseen: flags[0] ^ flags[1], in_flight, trend_windows, plan,
            measured: beside.0, routing: beside.1,
            retention: lived.0, retention_required: lived.1, traffic: lived.2, tenants: lived.3, worth: lived.4, restarts: lived.5,
            retention_classes: lived.6, draft_range: lived.7, certainty: lived.8, recomputed_pages: counts[11],
        }
    }
}

fn schema() -> Schema {
    Schema::parse_str(include_str!("../../schemas/capacity_estimate.avsc")).expect("a schema")
}

fn encode(estimate: &Estimate, encoding: EstimateEncoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_estimate(estimate, encoding, &mut bytes).expect("an estimate within the schema");
    bytes
}

#[test]
fn json_with_a_number_that_avro_cannot_hold_is_refused() {
    let text = include_str!("../fixtures/codec/capacity_estimate.v1.json");
    let of = |requests: u64| {
        let mut json: serde_json::Value = serde_json::from_str(text).expect("a fixture");
        json["requests"] = requests.into();
        decode_estimate(json.to_string().as_bytes())
    };
    assert_eq!(of(i64::MAX as u64).expect("the largest").requests, i64::MAX as u64);
    let refused = of(1 << 63).expect_err("one more").to_string();
    assert!(refused.contains("too large"), "{refused}");
}

proptest! {
    #[test]
    fn every_encoding_reads_back_exactly(estimate in estimate()) {
        for encoding in ENCODINGS {
            let bytes = encode(&estimate, encoding);
            prop_assert_eq!(&bytes, &encode(&estimate, encoding), "equal estimates, equal bytes");
            prop_assert_eq!(&decode_estimate(&bytes).expect("reads back"), &estimate);
        }
    }

    #[test]
    fn the_datum_is_what_a_general_encoder_writes(estimate in estimate()) {
        let schema = schema();
        let bytes = encode(&estimate, EstimateEncoding::Avro);
        let (header, datum) = bytes.split_at(10);
        let reader = GenericDatumReader::builder(&schema).build().expect("a reader");
        let value = reader.read_value(&mut &*datum).expect("a datum");
        let writer = GenericDatumWriter::builder(&schema).build().expect("a writer");
        let written = writer.write_value_to_vec(value).expect("encodes");
        prop_assert_eq!(&[header, &written].concat(), &bytes);
    }

    #[test]
    fn damaged_estimates_are_refused_or_read_but_never_panic(
        estimate in estimate(), encoding in 0usize..3, at in any::<prop::sample::Index>(), byte: u8, kind in 0u8..3,
    ) {
        let mut bytes = encode(&estimate, ENCODINGS[encoding]);
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => {
                bytes.truncate(at);
                prop_assert!(decode_estimate(&bytes).is_err(), "cut off at {at}");
            }
        }
        if let Ok(read) = decode_estimate(&bytes) {
            // What was read is an estimate like any other.
            prop_assert!(encode_estimate(&read, EstimateEncoding::Json, &mut Vec::new()).is_ok());
        }
    }

    #[test]
    fn keys_read_back_whatever_the_pool_is_called(window in window(), end_ms: i64, partition: i32, pool in "\\PC{0,5}[|:]?\\PC{0,5}") {
        let key = EstimateKey { window, end_ms, partition, pool };
        prop_assert_eq!(EstimateKey::from_bytes(&key.to_bytes()), Some(key));
    }

    #[test]
    fn a_key_has_one_spelling(bytes in "(tumbling:(5m|300s)|all|last:0?3)\\|[-+]?0?[0-9]{1,3}\\|[-+]?0?[0-9]\\|[a|]{0,3}") {
        if let Some(key) = EstimateKey::from_bytes(bytes.as_bytes()) {
            prop_assert_eq!(key.to_bytes(), bytes.into_bytes());
        }
    }
}

fn sample() -> Estimate {
    decode_estimate(include_bytes!("../fixtures/codec/capacity_estimate.v1.json")).expect("the fixture reads")
}

#[test]
fn numbers_beyond_the_schema_are_refused_with_the_field_named_in_every_encoding() {
    let large = Estimate { accumulated_bytes: Some(1 << 63), ..sample() };
    let not_finite = Estimate { sample_error: f64::NAN, ..sample() };
    let theoretical = TheoreticalHits { prefix_hits: u64::MAX, ..sample().theoretical };
    let inside = Estimate { theoretical, ..sample() };
    for (estimate, field) in
        [(large, "accumulated_bytes"), (not_finite, "sample_error"), (inside, "prefix_hits")]
    {
        for encoding in ENCODINGS {
            let mut out = b"before".to_vec();
            let error = encode_estimate(&estimate, encoding, &mut out);
            assert_eq!(error, Err(EstimateError::Unrepresentable { field: field.to_owned() }));
            assert_eq!(out, b"before", "nothing is appended");
        }
    }
}

/// Pools of some pages are many: what is published of one is as large as what there is to say.
#[test]
fn an_estimate_of_88_pages_is_at_most_6_kb_of_json_and_its_summary_2() {
    let config = PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(16),
            kv_bytes_per_token: Some(61_505.0),
            ..CacheConfig::default()
        },
        ..PoolConfig::default()
    };
    let mut pool = Pool::new("tenant-1234", 0, Arc::new(config)).expect("usable");
    let ids: Vec<u64> = (1..=88).collect();
    for turn in 1..=8 {
        let event = RequestEvent {
            event_time: EventTime(turn * 60_000),
            page_ids: PageIds::from_slice(&ids[..turn as usize * 11]),
            ..RequestEvent::default()
        };
        pool.observe(&event, Arrival { offset: Offset(turn), counted: true, watermark: None })
            .expect("accepted");
    }
    let mut estimates = Vec::new();
    pool.finish(Offset(9), &mut estimates);
    assert_eq!((estimates.len(), estimates[0].accumulated_pages), (4, 88));
    for estimate in &mut estimates {
        let whole = estimate.clone();
        estimate.thin_curve();
        for point in &whole.capacities {
            // What is left out lies between two that have its hits.
            let above = estimate.capacities.iter().find(|other| other.pages >= point.pages);
            let found = above.expect("hits at every capacity");
            assert_eq!((found.page_hits, found.page_hit_rate), (point.page_hits, point.page_hit_rate));
        }
        for (detail, most) in [(EstimateDetail::Full, 6144), (EstimateDetail::Summary, 2048)] {
            let json = encode(&detail.of(estimate), EstimateEncoding::Json).len();
            assert!(json <= most, "{} takes {json} bytes as {detail:?}", estimate.window);
        }
    }
}

#[test]
fn foreign_records_are_told_apart() {
    assert_eq!(decode_estimate(b""), Err(EstimateError::UnknownEncoding));
    for frame in [b"\0\0\0\0\x01".as_slice(), b"\0\0"] {
        assert!(matches!(decode_estimate(frame), Err(EstimateError::Undecodable { .. })));
    }
    let unknown = decode_estimate(&[0xC3, 0x01, 1, 0, 0, 0, 0, 0, 0, 0x80, 7]);
    assert_eq!(unknown, Err(EstimateError::UnknownSchema { fingerprint: 0x8000_0000_0000_0001 }));
    let mut trailing = encode(&sample(), EstimateEncoding::Avro);
    trailing.push(0);
    assert!(matches!(decode_estimate(&trailing), Err(EstimateError::Undecodable { .. })));
}

#[test]
fn a_reader_ignores_json_fields_it_does_not_know() {
    let mut bytes = encode(&sample(), EstimateEncoding::Json);
    bytes.truncate(bytes.len() - 1);
    bytes.extend(br#","added_later":{"x":[1]}}"#);
    assert_eq!(decode_estimate(&bytes), Ok(sample()));
}

#[test]
fn a_pools_estimates_share_the_partition_of_its_requests() {
    let partitions = NonZeroU32::new(12).expect("not zero");
    // Kafka: toPositive(murmur2("foobar")) % 12, with murmur2("foobar") = -790332482.
    assert_eq!(i64::from(pool_partition("foobar", partitions)), ((-790_332_482i64) & 0x7fff_ffff) % 12);
    assert!((0..100).all(|n| (0..12).contains(&pool_partition(&format!("pool-{n}"), partitions))));
    assert_eq!(pool_partition("anything", NonZeroU32::MIN), 0);
}
