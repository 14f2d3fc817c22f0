//! Every metric there is. Names begin with `kvset_`, or `process_` for what Prometheus' own clients
//! export of every process; units come last, counters end in `_total`.
//!
//! Labels: `partition` is bounded by the input topic, `pool` by `http.max_pool_labels` (see
//! [`PoolLabels`](super::PoolLabels)), `window`, `target`, `coverage`, `capacity`, `ttl`
//! and `tier` by the configured lists, `tenant` by a hundred names a pool, the others by the values named in the help.

use super::metric::{Metric, MetricKind, MetricUnit};

/// Upper bounds for what takes from a millisecond to minutes, in seconds.
const DURATIONS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Declares the metrics and the list of them.
macro_rules! metrics {
    ($($NAME:ident = $name:literal, $kind:expr, $unit:ident, [$($label:literal),*], $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $NAME: Metric = Metric {
                name: $name,
                kind: $kind,
                unit: MetricUnit::$unit,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// All of them, in the order in which they are documented.
        pub const ALL: &[Metric] = &[$($NAME),+];
    };
}

metrics! {
    BUILD_INFO = "kvset_build_info", MetricKind::Gauge, Info, ["version", "group", "fingerprint"],
        "Always 1; the program's version, its consumer group and the configuration's fingerprint.";

    READY = "kvset_ready", MetricKind::Gauge, Things, [],
        "1 while the instance is ready, as `/readyz` says, else 0.";
    KAFKA_UP = "kvset_kafka_up", MetricKind::Gauge, Things, [],
        "1 while a broker is connected, else 0.";

    CONSUMED_RECORDS = "kvset_consumed_records_total", MetricKind::Counter, Records, ["partition"],
        "Records taken from the input topic.";
    CONSUMED_BYTES = "kvset_consumed_bytes_total", MetricKind::Counter, Bytes, ["partition"],
        "Bytes of the records taken from the input topic.";
    TOMBSTONES = "kvset_tombstones_total", MetricKind::Counter, Things, ["partition"],
        "Records without a value, which say nothing to a log of requests and were passed.";
    CONSUMED_REQUESTS = "kvset_consumed_requests_total", MetricKind::Counter, Requests, ["pool", "partition"],
        "Requests accepted; pools without a label of their own share `other`. A pool is to have one partition.";
    CONSUMED_PAGES = "kvset_consumed_pages_total", MetricKind::Counter, Pages, ["pool"],
        "Prompt pages accessed; pools without a label of their own share `other`.";
    DECODE_ERRORS = "kvset_decode_errors_total", MetricKind::Counter, Things, ["code"],
        "Records that could not be used, by error code.";
    REFUSED_REQUESTS = "kvset_refused_requests_total", MetricKind::Counter, Requests, ["pool"],
        "Records refused of the pool that their key or their event names; a record that names none counts nowhere here.";
    POOL_REFUSED = "kvset_pool_refused", MetricKind::Gauge, Things, ["pool"],
        "1 while more of the pool's records are refused, in a row or as a share, than `[dead_letters]` tolerates, else 0.";
    DEAD_LETTERS = "kvset_dead_letters_total", MetricKind::Counter, Things, ["partition"],
        "Records committed to the dead-letter topic.";
    LATE_RECORDS = "kvset_late_records_total", MetricKind::Counter, Records, ["pool"],
        "Records that came after a window they belong to was closed; they still touch the cache.";
    OUT_OF_ORDER_RECORDS = "kvset_out_of_order_records_total", MetricKind::Counter, Records, ["pool"],
        "Records that were taken after one that arrived later: their requests took longer than estimate.hold_back.";
    EARLY_RECORDS = "kvset_early_records_total", MetricKind::Counter, Records, ["pool"],
        "Records held back that were taken early, since more than estimate.hold_back_bytes waited.";
    WAITING_RECORDS = "kvset_waiting_records", MetricKind::Gauge, Records, ["partition"],
        "Records held back until no earlier arrival within estimate.hold_back can follow.";
    CHAIN_VIOLATIONS = "kvset_chain_violations_total", MetricKind::Counter, Things, ["pool"],
        "New pages whose sampled id was already known under another prefix: a wrong id scope.";
    FORGOTTEN_POOLS = "kvset_forgotten_pools_total", MetricKind::Counter, Things, ["partition"],
        "Pools that were silent longest and made room for new ones, with estimate.max_pools reached.";
    SPLIT_POOLS = "kvset_split_pools_total", MetricKind::Counter, Things, [],
        "Times a pool was found in a second partition of this instance, its history split: a wrong record key.";

    PREPARED_REQUESTS = "kvset_prepared_requests_total", MetricKind::Counter, Requests, ["pool"],
        "Request events made of raw records; pools without a label of their own share `other`.";
    PREPARED_TOKENS = "kvset_prepared_tokens_total", MetricKind::Counter, Things, ["pool"],
        "Prompt tokens of these.";
    PREPARED_PAGES = "kvset_prepared_pages_total", MetricKind::Counter, Pages, ["pool"],
        "Pages of these whose ids went out, listed or named, after sampling.";
    PREPARE_DURATION = "kvset_prepare_duration_seconds", MetricKind::Histogram(DURATIONS), Seconds, [],
        "Time a thread took to decode, tokenise and hash a raw record.";

    CONSUMER_LAG_RECORDS = "kvset_consumer_lag_records", MetricKind::Gauge, Records, ["partition"],
        "Offsets between the last record taken and the end of the partition, those of open transactions included.";
    CONSUMER_LAG_SECONDS = "kvset_consumer_lag_seconds", MetricKind::Gauge, Seconds, ["partition"],
        "Wall clock less the event time of the last record taken.";
    WATERMARK = "kvset_watermark_timestamp_seconds", MetricKind::Gauge, Seconds, ["partition"],
        "Event time up to which windows are closed, since the Unix epoch: the lower median of the pools active last.";
    POOL_WATERMARK = "kvset_pool_watermark_timestamp_seconds", MetricKind::Gauge, Seconds, ["pool"],
        "Event time up to which the pool's windows are closed, since the Unix epoch.";

    POOLS = "kvset_pools", MetricKind::Gauge, Things, ["partition"],
        "Pools with state.";
    TRACKED_PAGES = "kvset_tracked_pages", MetricKind::Gauge, Pages, ["pool"],
        "Distinct pages held in the pool's stack.";
    TRACKED_REQUESTS = "kvset_tracked_requests", MetricKind::Gauge, Requests, ["pool"],
        "Requests that still own pages in the pool's stack.";
    ENGINE_BYTES = "kvset_engine_bytes", MetricKind::Gauge, Bytes, ["pool"],
        "Memory of the pool's state.";

    REQUIRED_CAPACITY_PAGES = "kvset_required_capacity_pages", MetricKind::Gauge, Pages,
        ["pool", "window", "target", "coverage"],
        "Capacity that is enough for this share of the window's requests; absent beyond the tracked bound.";
    REQUIRED_CAPACITY_BYTES = "kvset_required_capacity_bytes", MetricKind::Gauge, Bytes,
        ["pool", "window", "target", "coverage"],
        "The same in bytes, where a cost per token is known.";
    IN_FLIGHT_PAGES = "kvset_in_flight_pages", MetricKind::Gauge, Pages, ["pool", "window"],
        "Most distinct pages that other requests in flight held as one arrived; absent without durations.";
    IN_FLIGHT_REQUESTS = "kvset_in_flight_requests", MetricKind::Gauge, Requests, ["pool", "window"],
        "Most other requests in flight as one arrived; absent without durations.";
    REQUIREMENT_CONVERGED = "kvset_requirement_converged", MetricKind::Gauge, Things,
        ["pool", "window", "target", "coverage"],
        "1 while the requirement stayed within the tolerance over the last steps, 0 while it still moves.";
    RECOMMENDED_PAGES = "kvset_recommended_capacity_pages", MetricKind::Gauge, Pages, ["pool", "window", "coverage"],
        "The capacity to have, of the window to act on at the coverage to act on; NaN while its status is not ready.";
    RECOMMENDED_BYTES = "kvset_recommended_capacity_bytes", MetricKind::Gauge, Bytes, ["pool", "window", "coverage"],
        "The same in bytes, where a cost per token is known.";
    HELD_PAGES = "kvset_held_capacity_pages", MetricKind::Gauge, Pages, ["pool", "window", "coverage"],
        "That capacity as it is to be held: it rises at once, and falls once a day asks for less (`plan.hold`).";
    HELD_BYTES = "kvset_held_capacity_bytes", MetricKind::Gauge, Bytes, ["pool", "window", "coverage"],
        "The same in bytes, where a cost per token is known.";
    RECOMMENDED_INTERVAL_PAGES = "kvset_recommended_interval_pages", MetricKind::Gauge, Pages,
        ["pool", "window", "coverage", "bound"],
        "Ends of the 90 % interval of the recommended capacity, `bound` is `low` or `high`; NaN where nothing can be said, absent without `certainty`.";
    RECOMMENDED_INTERVAL_BYTES = "kvset_recommended_interval_bytes", MetricKind::Gauge, Bytes,
        ["pool", "window", "coverage", "bound"],
        "The same in bytes, where a cost per token is known.";
    RECOMMENDED_HIT_RATE = "kvset_recommended_hit_rate_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "coverage"],
        "Prefix hit rate of the window to act on in a cache of exactly the recommended capacity; NaN like it.";
    RECOMMENDATION_STATUS = "kvset_recommendation_status", MetricKind::Gauge, Things, ["pool", "window", "status"],
        "1 for the status of the recommendation to act on, else 0; status is `ready`, `too_few` or `beyond_bound`. Its window is the one to act on.";
    RECOMMENDATION_CONVERGED = "kvset_recommendation_converged", MetricKind::Gauge, Things, ["pool", "window", "coverage"],
        "1 while the requirement behind the recommendation to act on stayed within the tolerance, 0 while it still moves.";
    TIER_RECOMMENDED_UNITS = "kvset_tier_recommended_units", MetricKind::Gauge, Things, ["pool", "window", "tier"],
        "Units of a tier to have, which change only for a reason: what automation should follow.";
    TIER_RECOMMENDED_PAGES = "kvset_tier_recommended_pages", MetricKind::Gauge, Pages, ["pool", "window", "tier"],
        "The whole pages these units hold.";
    TIER_RECOMMENDED_BYTES = "kvset_tier_recommended_bytes", MetricKind::Gauge, Bytes, ["pool", "window", "tier"],
        "The bytes of these units, where they are known.";
    TIER_RECOMMENDED_HIT_RATE = "kvset_tier_recommended_hit_rate_ratio", MetricKind::Gauge, Ratio,
        ["pool", "window", "tier"],
        "Prefix hit rate of the last window with the recommended units of this tier and those above.";
    ACCUMULATED_CAPACITY_PAGES = "kvset_accumulated_capacity_pages", MetricKind::Gauge, Pages, ["pool"],
        "Distinct pages ever seen: what never evicting would hold.";
    ACCUMULATED_CAPACITY_BYTES = "kvset_accumulated_capacity_bytes", MetricKind::Gauge, Bytes, ["pool"],
        "The same in bytes, where a cost per token is known.";
    PROVISIONED_CAPACITY_PAGES = "kvset_provisioned_capacity_pages", MetricKind::Gauge, Pages, ["pool"],
        "What the pool's cache holds today, as configured (`provisioned`).";
    PROVISIONED_CAPACITY_BYTES = "kvset_provisioned_capacity_bytes", MetricKind::Gauge, Bytes, ["pool"],
        "The same in bytes, where a cost per token is known.";
    EFFECTIVE_CAPACITY_PAGES = "kvset_effective_capacity_pages", MetricKind::Gauge, Pages, ["pool", "window", "bound"],
        "What the cache in use behaves like by its own hits, all replicas together; bound is `from` or `to`, which is +Inf where no request sets an upper bound.";
    EFFECTIVE_CAPACITY_BYTES = "kvset_effective_capacity_bytes", MetricKind::Gauge, Bytes, ["pool", "window", "bound"],
        "The same in bytes, where a cost per token is known.";
    MEASURED_AGREEMENT = "kvset_measured_agreement_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "by"],
        "Share of the requests, or of their pages, that agree on that capacity; by is `requests` or `pages`.";
    LEDGER_PAGES = "kvset_ledger_pages", MetricKind::Gauge, Pages, ["pool", "window", "step"],
        "Pages of the measured requests; step is `accessed`, or hits that are `unlimited`, `shared`, `routed` or `measured`.";
    ROUTER_IMBALANCE = "kvset_router_imbalance_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "router"],
        "With this router: the busiest replica's uncached pages over the mean.";
    ROUTER_UNLIMITED_HIT_RATE = "kvset_router_unlimited_hit_rate_ratio", MetricKind::Gauge, Ratio,
        ["pool", "window", "router"],
        "With this router: page hit rate of replicas without limit, above which no memory helps.";
    RETENTION_HIT_RATE = "kvset_retention_hit_rate_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "ttl", "kind"],
        "Page hit rate of pages kept for this time; kind is `sliding`, after the last use, or `fixed`, after the write.";
    RETENTION_PAGES = "kvset_retention_pages", MetricKind::Gauge, Pages, ["pool", "window", "ttl", "kind", "held"],
        "Pages that keeping them for this time holds; held is `mean` or `peak`.";
    RETENTION_HONOURED = "kvset_retention_honoured_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "ttl", "capacity"],
        "Share of the arrivals after which this capacity held all that was used within this time.";
    EVICTION_AGE = "kvset_eviction_age_seconds", MetricKind::Gauge, Seconds, ["pool", "window", "capacity", "quantile"],
        "How long ago that was used which this capacity drops; +Inf where it drops nothing.";
    TIER_TRAFFIC_PAGES = "kvset_tier_traffic_pages", MetricKind::Gauge, Pages, ["pool", "window", "tier", "direction"],
        "Pages that pass between a planned tier and those above in the window; direction is `read` or `written`.";
    TIER_PEAK_BYTES = "kvset_tier_peak_bytes", MetricKind::Gauge, Bytes, ["pool", "window", "tier", "direction"],
        "The same in bytes in the busiest second: the bandwidth to buy.";
    TIER_DRIVE_WRITES = "kvset_tier_daily_drive_writes", MetricKind::Gauge, Things, ["pool", "window", "tier"],
        "How often a planned tier is written full in a day of event time.";
    TENANT_HELD = "kvset_tenant_held_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "tenant"],
        "A tenant's share of what the largest capacity held since the start; tenant is at most 100 names a pool, `other`, or `(none)`.";
    TENANT_COLD_PAGES = "kvset_tenant_cold_pages", MetricKind::Gauge, Pages, ["pool", "window", "tenant"],
        "Pages of a tenant that were never seen before.";
    TENANT_HIT_RATE = "kvset_tenant_hit_rate_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "tenant"],
        "A tenant's page hit rate at the largest capacity.";
    DAILY_PREFILL = "kvset_daily_prefill_seconds", MetricKind::Gauge, Seconds, ["pool", "window", "size"],
        "Prefill of one worker per day of event time; size of the cache is `none`, `provisioned`, `recommended` or `unlimited`.";
    DAILY_SAVINGS = "kvset_daily_savings", MetricKind::Gauge, Things, ["pool", "window", "size"],
        "What a cache of this size saves per day, compared with none, in the currency of `gpu_price`.";
    DAILY_MEMORY_COST = "kvset_daily_memory_cost", MetricKind::Gauge, Things, ["pool", "window", "size"],
        "What a cache of this size costs per day, by `gib_price`.";
    NEXT_GIB_EARNINGS = "kvset_next_gib_daily_earnings", MetricKind::Gauge, Things, ["pool", "window", "size"],
        "What one GiB more than this size would earn per day; NaN where no larger size is reported.";
    TIME_TO_FIRST_TOKEN = "kvset_time_to_first_token_seconds", MetricKind::Gauge, Seconds,
        ["pool", "window", "size", "quantile"],
        "Time to the first token with a cache of this size, without queueing.";
    HIT_RATE = "kvset_hit_rate_ratio", MetricKind::Gauge, Ratio, ["pool", "window", "capacity", "kind"],
        "Hit rate at a configured capacity; kind is `page`, `reuse` or `prefix`.";
    THEORETICAL_HIT_RATE = "kvset_theoretical_hit_rate_ratio", MetricKind::Gauge, Ratio, ["pool", "window"],
        "Prefix hit rate with unlimited capacity.";
    WINDOW_REQUESTS = "kvset_window_requests", MetricKind::Gauge, Requests, ["pool", "window"],
        "Requests of the last window that was published.";
    WARM_UP = "kvset_warm_up", MetricKind::Gauge, Things, ["pool", "window"],
        "1 while the last window published has less history than configured, else 0.";
    PUBLISHED_ESTIMATES = "kvset_published_estimates_total", MetricKind::Counter, Things, ["window"],
        "Estimates committed to the output topic.";

    SNAPSHOT_AGE = "kvset_snapshot_age_seconds", MetricKind::Gauge, Seconds, ["partition"],
        "How long records of the partition have waited for a good snapshot; 0 while there are none.";
    SNAPSHOT_SIZE = "kvset_snapshot_size_bytes", MetricKind::Gauge, Bytes, ["partition"],
        "Size of the state in the last good snapshot of the partition.";
    SNAPSHOT_WRITTEN = "kvset_snapshot_written_bytes_total", MetricKind::Counter, Bytes, [],
        "Bytes written for snapshots: of a state larger than `state.whole_up_to` only what is new.";
    SNAPSHOT_DURATION = "kvset_snapshot_duration_seconds", MetricKind::Histogram(DURATIONS), Seconds, [],
        "Time to write a snapshot.";
    SNAPSHOT_PAUSE = "kvset_snapshot_pause_seconds", MetricKind::Histogram(DURATIONS), Seconds, [],
        "Time a partition stood still for a snapshot.";
    SNAPSHOT_FAILURES = "kvset_snapshot_failures_total", MetricKind::Counter, Things, [],
        "Snapshots that could not be written.";
    RESTORE_DURATION = "kvset_restore_duration_seconds", MetricKind::Histogram(DURATIONS), Seconds, [],
        "Time from a partition's assignment until its state was caught up.";

    TRANSACTIONS = "kvset_transactions_total", MetricKind::Counter, Things, ["outcome"],
        "Transactions by outcome: `committed`, `aborted` or `fenced`.";
    TRANSACTION_DURATION = "kvset_transaction_duration_seconds", MetricKind::Histogram(DURATIONS), Seconds, [],
        "Time from a transaction's begin to its end.";
    SCHEMA_REGISTRY_UP = "kvset_schema_registry_up", MetricKind::Gauge, Things, [],
        "0 while records wait for a schema registry that does not answer, else 1; absent without one.";
    REBALANCES = "kvset_rebalances_total", MetricKind::Counter, Things, ["kind"],
        "Rebalances by kind: `assigned`, `revoked` or `lost`.";
    RESTORING_PARTITIONS = "kvset_restoring_partitions", MetricKind::Gauge, Things, [],
        "Partitions of this instance whose state is being rebuilt: they publish nothing until it has caught up.";
    STALLED_PARTITIONS = "kvset_stalled_partitions", MetricKind::Gauge, Things, [],
        "Partitions of this instance of which records wait, and none has been processed for two minutes.";
    HELD_PARTITIONS = "kvset_held_partitions", MetricKind::Gauge, Things, [],
        "Partitions that cannot go on and are read no further, while all others are: the log and the page say why.";
    UNOWNED_PARTITIONS = "kvset_unowned_partitions", MetricKind::Gauge, Things, [],
        "Partitions of the input topic that no instance of the group has, as its description says; all see the same.";
    ASSIGNED_PARTITIONS = "kvset_assigned_partitions", MetricKind::Gauge, Things, [],
        "Partitions this instance works on.";

    CLIENT_RECEIVED_BYTES = "kvset_kafka_client_received_bytes_total", MetricKind::Counter, Bytes, ["client"],
        "Bytes received from brokers, over all of them; client is `source` or `sink`.";
    CLIENT_SENT_BYTES = "kvset_kafka_client_sent_bytes_total", MetricKind::Counter, Bytes, ["client"],
        "Bytes sent to brokers.";
    CLIENT_TIMEOUTS = "kvset_kafka_client_timeouts_total", MetricKind::Counter, Things, ["client"],
        "Requests that brokers did not answer within their time.";
    CLIENT_IN_FLIGHT = "kvset_kafka_client_in_flight_requests", MetricKind::Gauge, Requests, ["client"],
        "Requests sent to brokers and not answered yet.";
    CLIENT_QUEUED = "kvset_kafka_client_queued_requests", MetricKind::Gauge, Requests, ["client"],
        "Requests that wait to be sent.";
    CLIENT_ROUND_TRIP = "kvset_kafka_client_round_trip_seconds", MetricKind::Gauge, Seconds, ["client"],
        "Mean round trip of a request to the slowest broker; absent until one has answered.";

    PROCESS_CPU = "process_cpu_seconds_total", MetricKind::Counter, Seconds, [],
        "Time on a processor, user and system, in whole seconds.";
    PROCESS_RESIDENT = "process_resident_memory_bytes", MetricKind::Gauge, Bytes, [],
        "Memory of the process that is in use, as the system sees it.";
    PROCESS_VIRTUAL = "process_virtual_memory_bytes", MetricKind::Gauge, Bytes, [],
        "Address space of the process.";
    PROCESS_OPEN_FILES = "process_open_fds", MetricKind::Gauge, Things, [],
        "File descriptors that are open.";
    PROCESS_MAX_FILES = "process_max_fds", MetricKind::Gauge, Things, [],
        "File descriptors that may be open.";
    PROCESS_THREADS = "process_threads", MetricKind::Gauge, Things, [],
        "Threads of the process.";
    PROCESS_START = "process_start_time_seconds", MetricKind::Gauge, Seconds, [],
        "When the process began, since the Unix epoch.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_follow_the_convention_and_are_used_once() {
        let mut seen = BTreeSet::new();
        for metric in ALL {
            let name = metric.name;
            assert!(seen.insert(name), "{name} is there twice");
            assert!(name.starts_with("kvset_") || name.starts_with("process_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            let is_counter = metric.kind == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            let unit_last = name.strip_suffix("_total").unwrap_or(name);
            if let Some(suffix) = metric.unit.suffix() {
                assert!(unit_last.ends_with(suffix), "{name} should end in {suffix}");
            }
        }
    }

    #[test]
    fn every_metric_says_what_it_means_and_labels_are_words() {
        for metric in ALL {
            assert!(metric.help.ends_with('.') && metric.help.len() > 10, "{}", metric.name);
            let labels: BTreeSet<_> = metric.labels.iter().collect();
            assert_eq!(labels.len(), metric.labels.len(), "{}", metric.name);
            for label in metric.labels {
                assert!(label.bytes().all(|byte| byte.is_ascii_lowercase()), "{} {label}", metric.name);
            }
            if let MetricKind::Histogram(bounds) = metric.kind {
                assert!(bounds.is_sorted() && !bounds.is_empty(), "{}", metric.name);
            }
        }
    }
}
