//! `--per-request`: what every request found, one JSON line each.

use crate::core::curve::Curve;
use crate::core::outcome::{BEYOND, Outcome};
use crate::core::pool_config::PoolConfig;
use serde::Serialize;
use std::io::{self, BufWriter, Write};

/// One line. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    index: u64,
    pages: u64,
    theoretical_prefix_hits: u64,
    /// One a target ratio, as configured.
    required_pages: &'a [Option<u64>],
    /// One a capacity, ascending.
    prefix_hits: &'a [Option<u64>],
}

/// Writes the rows; keeps its buffers from row to row.
pub(super) struct PerRequest<'a> {
    out: BufWriter<&'a mut dyn Write>,
    index: u64,
    required: Vec<Option<u64>>,
    hits: Vec<Option<u64>>,
}

impl<'a> PerRequest<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        let (required, hits) = (Vec::new(), Vec::new());
        Self { out: BufWriter::new(out), index: 0, required, hits }
    }

    /// Writes the next request's row.
    pub(super) fn write(&mut self, outcome: &Outcome, config: &PoolConfig, curve: &Curve) -> io::Result<()> {
        let whole = |pages: u64| config.sample_rate.whole_of(pages);
        let reusable = outcome.reusable_prefix();
        let need = |ratio: &crate::core::ratio::Ratio| outcome.need_of_prefix(ratio.ceil_of(reusable));
        let shown = |need: u64| (need != BEYOND).then(|| whole(need));
        self.required.clear();
        self.required.extend(config.target_ratios.iter().map(|ratio| shown(need(ratio))));
        self.hits.clear();
        self.hits.extend(curve.thresholds().iter().map(|pages| Some(whole(outcome.hits_at(*pages)))));
        self.hits.resize(curve.len(), None);
        let row = Row {
            index: self.index,
            pages: whole(outcome.page_accesses),
            theoretical_prefix_hits: whole(reusable),
            required_pages: &self.required,
            prefix_hits: &self.hits,
        };
        serde_json::to_writer(&mut self.out, &row)?;
        self.index += 1;
        self.out.write_all(b"\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
