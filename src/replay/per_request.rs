//! `--per-request`: what every request found, one JSON line each.

use kvset_core::engines::bank::CacheBank;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::request::outcome::{BEYOND, Outcome};
use kvset_core::sizing::curve::Curve;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Seek as _, Write};

/// One line. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Serialize)]
struct RequestRow<'a> {
    index: u64,
    /// The pool, where the trace names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'a str>,
    pages: u64,
    theoretical_prefix_hits: u64,
    /// One per target ratio, as configured; `null` where each capacity is modelled on its own.
    required_pages: Option<&'a [Option<u64>]>,
    /// One per capacity, ascending.
    prefix_hits: &'a [Option<u64>],
    /// What each tier below found after that, from the fastest: one list per capacity, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_hits: Option<&'a [Vec<u64>]>,
    /// Pages that a draft head loses of it at any size.
    #[serde(skip_serializing_if = "Option::is_none")]
    draft_head_pages: Option<u64>,
    /// What it finds at most, by capacity and without limit, where page ids leave open what a draft head loses: the
    /// others are the lower end.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<&'a HitsAtMost>,
}

/// The upper end of a request's hits.
#[derive(Debug, Serialize)]
struct HitsAtMost {
    theoretical_prefix_hits: u64,
    prefix_hits: Vec<u64>,
}

/// Where the rows go. A trace may have to be read again from its start: its rows are taken back then.
pub trait RowSink: Write {
    /// Takes back all that was written.
    ///
    /// # Errors
    /// It cannot be taken back.
    fn start_over(&mut self) -> io::Result<()>;
}

impl RowSink for Vec<u8> {
    fn start_over(&mut self) -> io::Result<()> {
        self.clear();
        Ok(())
    }
}

impl RowSink for File {
    fn start_over(&mut self) -> io::Result<()> {
        self.set_len(0)?;
        self.rewind()
    }
}

/// Bytes that are written at once.
const WRITTEN_AT_ONCE: usize = 1 << 16;

/// Writes the rows; keeps its buffers from row to row.
pub(super) struct PerRequest<'a> {
    out: &'a mut dyn RowSink,
    /// Rows that are not written yet, and whether some are.
    buffer: Vec<u8>,
    is_written: bool,
    index: u64,
    required: Vec<Option<u64>>,
    hits: Vec<Option<u64>>,
    below: Option<Vec<Vec<u64>>>,
    draft_head: Option<u64>,
    at_most: Option<HitsAtMost>,
}

impl<'a> PerRequest<'a> {
    pub(super) fn new(out: &'a mut dyn RowSink) -> Self {
        let (required, hits, buffer) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            out,
            buffer,
            is_written: false,
            index: 0,
            required,
            hits,
            below: None,
            draft_head: None,
            at_most: None,
        }
    }

    /// Begins with no rows.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.buffer.clear();
        (self.index, self.below) = (0, None);
        match std::mem::take(&mut self.is_written) {
            true => self.out.start_over(),
            false => Ok(()),
        }
    }

    /// Takes what the tiers below found of the next request, one list per capacity.
    pub(super) fn set_below<'h>(&mut self, hits: impl Iterator<Item = &'h [u64]>) {
        self.below = Some(hits.map(<[u64]>::to_vec).collect());
    }

    /// Takes what a draft head loses of the next request.
    pub(super) fn set_draft_head(&mut self, pages: Option<u64>) {
        self.draft_head = pages;
    }

    /// Takes what the next request finds at most, without limit and by capacity.
    pub(super) fn set_at_most(&mut self, found: Option<(u64, &[u64])>) {
        self.at_most = found.map(|(theoretical_prefix_hits, hits)| HitsAtMost {
            theoretical_prefix_hits,
            prefix_hits: hits.to_vec(),
        });
    }

    /// Writes the next request's row; hits are those of `caches`, where its capacities are modelled by themselves.
    pub(super) fn write(
        &mut self,
        pool: Option<&str>,
        outcome: &Outcome,
        caches: Option<&CacheBank>,
        config: &PoolConfig,
        curve: &Curve,
    ) -> io::Result<()> {
        let reusable = outcome.reusable_prefix();
        let need = |ratio: &kvset_core::units::ratio::Ratio| outcome.need_of_prefix(ratio.ceil_of(reusable));
        let shown = |need: u64| (need != BEYOND).then(|| config.cache.nominal_pages(need));
        self.required.clear();
        self.required.extend(config.cache.target_ratios.iter().map(|ratio| shown(need(ratio))));
        let whole = |pages: u64| config.cache.sample_rate.whole_of(pages);
        self.hits.clear();
        match caches {
            Some(caches) => self.hits.extend(caches.last_hits().iter().copied().map(Some)),
            None => {
                self.hits.extend(curve.thresholds().iter().map(|pages| Some(whole(outcome.hits_at(*pages)))));
            }
        }
        self.hits.resize(curve.len(), None);
        self.put(pool, whole(outcome.page_accesses), whole(reusable), true)
    }

    /// Writes the next request's row where each capacity is modelled on its own.
    pub(super) fn write_pointwise(
        &mut self,
        pool: Option<&str>,
        outcome: &Outcome,
        caches: &CacheBank,
        curve: &Curve,
    ) -> io::Result<()> {
        self.hits.clear();
        self.hits.extend(caches.last_hits().iter().copied().map(Some));
        self.hits.resize(curve.len(), None);
        let unlimited = caches.last_ceiling().unwrap_or_else(|| outcome.reusable_prefix());
        self.put(pool, outcome.page_accesses, unlimited, false)
    }

    fn put(
        &mut self,
        pool: Option<&str>,
        pages: u64,
        theoretical_prefix_hits: u64,
        has_requirement: bool,
    ) -> io::Result<()> {
        let row = RequestRow {
            index: self.index,
            pool,
            pages,
            theoretical_prefix_hits,
            required_pages: has_requirement.then_some(self.required.as_slice()),
            prefix_hits: &self.hits,
            below_hits: self.below.as_deref(),
            draft_head_pages: self.draft_head.filter(|_| self.at_most.is_none()),
            at_most: self.at_most.as_ref(),
        };
        serde_json::to_writer(&mut self.buffer, &row)?;
        self.buffer.push(b'\n');
        self.index += 1;
        if self.buffer.len() < WRITTEN_AT_ONCE {
            return Ok(());
        }
        self.flush()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.is_written |= !self.buffer.is_empty();
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        self.out.flush()
    }
}
