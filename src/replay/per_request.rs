//! `--per-request`: what every request found, one JSON line each.

use kvset_core::bank::CacheBank;
use kvset_core::curve::Curve;
use kvset_core::outcome::{BEYOND, Outcome};
use kvset_core::pool_config::PoolConfig;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// One line. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    index: u64,
    pages: u64,
    theoretical_prefix_hits: u64,
    /// One a target ratio, as configured; `null` where each capacity is modelled on its own.
    required_pages: Option<&'a [Option<u64>]>,
    /// One a capacity, ascending.
    prefix_hits: &'a [Option<u64>],
    /// What each tier below found after that, from the fastest: one list a capacity, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_hits: Option<&'a [Vec<u64>]>,
}

/// Writes the rows; keeps its buffers from row to row.
pub(super) struct PerRequest<'a> {
    out: BufWriter<&'a mut dyn Write>,
    index: u64,
    required: Vec<Option<u64>>,
    hits: Vec<Option<u64>>,
    below: Option<Vec<Vec<u64>>>,
}

impl<'a> PerRequest<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        let (required, hits) = (Vec::new(), Vec::new());
        Self { out: BufWriter::new(out), index: 0, required, hits, below: None }
    }

    /// Takes what the tiers below found of the next request, one list a capacity.
    pub(super) fn set_below<'h>(&mut self, hits: impl Iterator<Item = &'h [u64]>) {
        self.below = Some(hits.map(<[u64]>::to_vec).collect());
    }

    /// Writes the next request's row.
    pub(super) fn write(&mut self, outcome: &Outcome, config: &PoolConfig, curve: &Curve) -> io::Result<()> {
        let reusable = outcome.reusable_prefix();
        let need = |ratio: &kvset_core::ratio::Ratio| outcome.need_of_prefix(ratio.ceil_of(reusable));
        let shown = |need: u64| (need != BEYOND).then(|| config.nominal_pages(need));
        self.required.clear();
        self.required.extend(config.target_ratios.iter().map(|ratio| shown(need(ratio))));
        let whole = |pages: u64| config.sample_rate.whole_of(pages);
        self.hits.clear();
        self.hits.extend(curve.thresholds().iter().map(|pages| Some(whole(outcome.hits_at(*pages)))));
        self.hits.resize(curve.len(), None);
        self.put(whole(outcome.page_accesses), whole(reusable), true)
    }

    /// Writes the next request's row where each capacity is modelled on its own.
    pub(super) fn write_pointwise(
        &mut self,
        outcome: &Outcome,
        caches: &CacheBank,
        curve: &Curve,
    ) -> io::Result<()> {
        self.hits.clear();
        self.hits.extend(caches.last_hits().iter().copied().map(Some));
        self.hits.resize(curve.len(), None);
        let unlimited = caches.last_ceiling().unwrap_or_else(|| outcome.reusable_prefix());
        self.put(outcome.page_accesses, unlimited, false)
    }

    fn put(&mut self, pages: u64, theoretical_prefix_hits: u64, has_requirement: bool) -> io::Result<()> {
        let row = Row {
            index: self.index,
            pages,
            theoretical_prefix_hits,
            required_pages: has_requirement.then_some(self.required.as_slice()),
            prefix_hits: &self.hits,
            below_hits: self.below.as_deref(),
        };
        serde_json::to_writer(&mut self.out, &row)?;
        self.index += 1;
        self.out.write_all(b"\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
