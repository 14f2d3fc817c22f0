//! Replicas of the parts of one memory: what one fewer and one more behind the routers named bring each model.

use crate::cli::Failure;
use crate::commands::replicas::replicas_table;
use crate::present::document::Section;
use crate::replay::{Extras, MemorySplit, PoolReplay, ReplayOptions, RequestLog};
use crate::tune::{ReplicasResult, replicas_of};
use kvset_core::questions::enabled::Questions;
use kvset_core::units::capacity::CapacitySpec;
use serde::Serialize;

/// The replicas of one model's part behind one router.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolReplicas {
    /// The model.
    pub pool: String,
    /// The router, as it was written.
    pub router: String,
    /// Bytes of one of its pages.
    #[serde(skip)]
    page_bytes: u64,
    /// One replica fewer, as many as named, which share the part, and one more.
    pub replicas: Vec<ReplicasResult>,
}

/// Replays each model's requests behind each router with one replica fewer, as many as named, and one more; the part
/// is that of as many as named.
///
/// # Errors
/// The traces cannot be read again.
pub(super) fn of_split(
    split: &MemorySplit,
    pools: &[PoolReplay],
    options: &ReplayOptions,
) -> Result<Vec<PoolReplicas>, Failure> {
    let routers = options.pool.questions.routers.iter().filter(|router| router.replicas > 0);
    let routers: Vec<_> = routers.copied().collect();
    if routers.is_empty() {
        return Ok(Vec::new());
    }
    if options.traces.iter().any(|trace| trace.as_os_str() == "-") {
        let reason = "--plan with --router reads the trace again for each model, which standard input cannot be: name a file";
        return Err(Failure::usage(reason));
    }
    let mut all = Vec::new();
    for (part, pool) in split.pools.iter().zip(pools).filter(|(part, _)| part.pages > 0) {
        let page = pool.replay.page_size.map_or(1, |page| u64::from(page.get()));
        let page_bytes = part.bytes / part.pages;
        let mut own = ReplayOptions {
            pool_name: pool.name.clone(),
            provisioned: Some(CapacitySpec::of_pages(part.pages)),
            extras: Extras {
                prefill_rate: options.extras.prefill_rate.clone(),
                prices: options.extras.prices,
                ..Extras::default()
            },
            ..options.clone()
        };
        (own.pool.tiers, own.pool.further_costs) = (Vec::new(), Vec::new());
        own.pool.cache.kv_bytes_per_token = Some(page_bytes as f64 / page as f64);
        let log = RequestLog::read(&own, &mut |_| {})?;
        for router in &routers {
            own.pool.questions = Questions { routers: vec![*router], ..Questions::default() };
            let replicas = replicas_of(&log, &own)?;
            let pool = part.pool.clone();
            all.push(PoolReplicas { pool, router: router.written(), page_bytes, replicas });
        }
    }
    Ok(all)
}

/// The section; `None` where no router is named.
pub(super) fn section(all: &[PoolReplicas]) -> Option<Section> {
    let table = |found: &PoolReplicas| {
        let caption = format!("{} behind {}", found.pool, found.router);
        replicas_table(caption, &found.replicas, Some(found.page_bytes))
    };
    let title = "Replicas of each model's part, each as large as it is now";
    (!all.is_empty()).then(|| Section::new(title, [], all.iter().map(table)))
}
