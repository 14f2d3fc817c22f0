//! A trace of several models: an answer for each, and the sums of what was read.

use super::output::{ReplayResult, TraceSummary};
use super::replicas::{self, PoolReplicas};
use crate::present::document::{Cell, Section, Table};
use crate::present::terminal::{self, Terminal};
use crate::present::words;
use crate::replay::{Demand, MemorySplit, PoolReplay};
use kvset_core::estimate::TheoreticalHits;
use kvset_core::sizing::curve::share;
use kvset_core::units::{Bytes, PageBytes};
use serde::Serialize;

/// What a pool is called whose requests name no model.
const UNNAMED: &str = "(no model)";

/// The result of a replay of several pools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolsResult<'a> {
    /// What was read, summed over the pools; nothing where they differ.
    pub trace: TraceSummary,
    /// Hits with unlimited capacity, each pool in a cache of its own.
    pub theoretical: TheoreticalHits,
    /// What a reader of the results should know about the trace.
    pub notes: Vec<String>,
    /// One memory for all of them, where `--plan` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_split: Option<MemorySplit>,
    /// What one replica fewer and one more bring each part, where a router is named alongside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<PoolReplicas>,
    /// The answer of each pool, in the order in which the trace names them.
    pub pools: Vec<PoolResult<'a>>,
}

/// The result of one pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolResult<'a> {
    /// The model.
    pub pool: &'a str,
    /// The whole result of its requests.
    #[serde(flatten)]
    pub result: ReplayResult<'a>,
}

/// The name of a pool for people.
pub(super) fn name(pool: &PoolReplay) -> &str {
    pool.name.as_deref().unwrap_or(UNNAMED)
}

/// That the trace has several pools.
pub(super) fn note(pools: &[PoolReplay]) -> String {
    let names: Vec<_> = pools.iter().map(name).collect();
    format!(
        "the trace names {} models, each with a cache and an answer of its own: {}; --pool chooses one, --id-scope global \
         merges them",
        pools.len(),
        names.join(", ")
    )
}

impl<'a> PoolsResult<'a> {
    /// Puts the results of pools together; there is at least one. So many rows could not be read.
    pub(super) fn new(pools: Vec<PoolResult<'a>>, rejected_rows: u64, notes: Vec<String>) -> Option<Self> {
        let first = &pools.first()?.result;
        let sum = |of: fn(&TraceSummary) -> u64| pools.iter().map(|pool| of(&pool.result.trace)).sum::<u64>();
        let hits = |of: fn(&TheoreticalHits) -> u64| {
            pools.iter().map(|pool| of(&pool.result.theoretical)).sum::<u64>()
        };
        let same = |of: fn(&TraceSummary) -> Option<u64>| {
            let value = of(&first.trace);
            value.filter(|_| pools.iter().all(|pool| of(&pool.result.trace) == value))
        };
        let page_accesses = sum(|trace| trace.page_accesses);
        let rate = |hits| share(hits, page_accesses);
        let (page_hits, prefix_hits) = (hits(|found| found.page_hits), hits(|found| found.prefix_hits));
        let hit_tokens = pools.iter().map(|pool| {
            let page = u64::from(pool.result.trace.page_size.unwrap_or(0));
            pool.result.theoretical.prefix_hits * page
        });
        let prompt_tokens = sum(|trace| trace.prompt_tokens);
        let errors = pools.iter().map(|pool| pool.result.trace.sample_error);
        let trace = TraceSummary {
            requests: sum(|trace| trace.requests),
            warm_up_requests: sum(|trace| trace.warm_up_requests),
            page_accesses,
            prompt_tokens,
            distinct_pages: sum(|trace| trace.distinct_pages),
            page_size: same(|trace| trace.page_size.map(u64::from)).and_then(|size| u32::try_from(size).ok()),
            page_bytes: same(|trace| trace.page_bytes),
            rejected_rows,
            chain_violations: sum(|trace| trace.chain_violations),
            sample_error: errors.fold(0.0, f64::max),
            output_reuse_unseen: pools.iter().any(|pool| pool.result.trace.output_reuse_unseen),
            ..first.trace.clone()
        };
        let theoretical = TheoreticalHits {
            page_hits,
            prefix_hits,
            page_hit_rate: rate(page_hits),
            prefix_hit_rate: rate(prefix_hits),
            hit_rate_tokens: Some(share(hit_tokens.sum(), prompt_tokens)),
        };
        Some(Self { trace, theoretical, notes, memory_split: None, replicas: Vec::new(), pools })
    }

    /// The results as people read them, each under the name of its pool.
    pub(super) fn render(&self, asked: bool, terminal: &Terminal) -> String {
        let each = self.pools.iter().map(|pool| {
            let rule = "═".repeat(pool.pool.chars().count());
            format!("{}\n{rule}\n{}", pool.pool, pool.result.render(asked, terminal))
        });
        let split =
            self.memory_split.as_ref().map(|split| terminal::section(&split_section(split), terminal));
        let replicas = replicas::section(&self.replicas);
        let replicas = replicas.map(|section| terminal::section(&section, terminal));
        each.chain(split).chain(replicas).collect::<Vec<_>>().join("\n")
    }
}

/// The parts of one memory, and what it takes to cover the same share of each pool's requests.
fn split_section(split: &MemorySplit) -> Section {
    let title = format!(
        "{} split among {} models, so that the least covered one is covered best; {} are left",
        words::bytes_round(split.bytes),
        split.pools.len(),
        words::bytes_round(split.left_bytes)
    );
    let round = |bytes: u64| Cell::Figure(words::bytes_round(bytes));
    let parts = Table::of(
        "The part of each model",
        &split.pools,
        &[
            ("model", &|part| part.pool.clone().into()),
            ("part", &|part| round(part.bytes)),
            ("pages", &|part| Cell::Count(part.pages)),
            ("requests covered", &|part| Cell::Rate(part.coverage)),
        ],
    );
    let sums = Table::of(
        "To cover the same share of each model's requests",
        &split.together,
        &[
            ("requests covered", &|sum| Cell::Text(words::share(sum.coverage))),
            ("all together", &|sum| Cell::within_bound(sum.bytes, round)),
        ],
    );
    Section::new(title, [], [parts, sums])
}

/// Splits a memory among pools.
///
/// # Errors
/// It cannot be known what a page of one of them costs, or what its requests require.
pub(super) fn split(
    pools: &[PoolReplay],
    bytes: Bytes,
    costs: &[(String, f64)],
) -> Result<MemorySplit, String> {
    if let Some((model, _)) = costs.iter().find(|(model, _)| pools.iter().all(|pool| name(pool) != model)) {
        return Err(format!("--pool-cost {model}: the trace names no such model"));
    }
    let demands = pools.iter().map(|pool| {
        let replay = &pool.replay;
        if replay.config.cache.is_pointwise() {
            let engine = replay.config.cache.profile;
            return Err(format!(
                "--plan needs an engine with one curve, which {engine} has not here: choose another --engine, or with vllm \
                 --attention full"
            ));
        }
        let own = costs.iter().find(|(model, _)| model == name(pool)).map(|(_, cost)| *cost);
        let cost = own.or(replay.config.cache.kv_bytes_per_token).ok_or_else(|| {
            let model = name(pool);
            format!("--plan needs the bytes per token of {model}: give --pool-cost {model}=X or --kv-bytes-per-token")
        })?;
        let page = replay.page_size.and_then(|size| PageBytes::from_token_cost(cost, size));
        let room = replay.whole.as_ref().and_then(|whole| whole.recommendation()?.in_flight_pages);
        Ok(Demand {
            pool: name(pool).to_owned(),
            page_bytes: page.map_or(0, |bytes| bytes.0),
            room_pages: room.unwrap_or(0),
            requirements: &pool.history.distribution,
        })
    });
    let demands = demands.collect::<Result<Vec<_>, String>>()?;
    let coverages = pools.first().map(|pool| pool.replay.config.cache.coverages.clone()).unwrap_or_default();
    Ok(MemorySplit::of(&demands, bytes.0, &coverages))
}
