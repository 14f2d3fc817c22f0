//! From what a run published to its report.

use crate::present::pool::{EstimateHistory, PoolReport, ReportInput, WindowRow};
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::decode_estimate;
use kvset_formats::position::Partition;
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_service::backfill::Backfill;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Most pools a report shows: those whose names come first.
const MAX_POOLS: usize = 200;
/// Most windows listed of a pool; the latest ones.
const MAX_WINDOWS: usize = 200;
/// Most points kept of a pool's history; when they are reached every other one is dropped.
const MAX_POINTS: usize = 4096;
/// Longest wait for one record.
const MOMENT: Duration = Duration::from_millis(200);

/// Reads back what the run published and makes its report. `None` where it published no estimate.
///
/// # Errors
/// The brokers, or a record of the run's that is no estimate.
pub fn report(backfill: &Backfill) -> Result<Option<ReportInput<'static>>, KafkaFailure> {
    let windows = &backfill.settings.estimate.windows;
    let mut pools: BTreeMap<String, PublishedHistory> = BTreeMap::new();
    let mut more = false;
    published(backfill, &mut |estimate| {
        pools.entry(estimate.pool.clone()).or_insert_with(|| PublishedHistory::over(windows)).add(estimate);
        if pools.len() > MAX_POOLS {
            pools.pop_last();
            more = true;
        }
    })?;
    let pools: Vec<_> = pools.into_values().filter_map(PublishedHistory::finish).collect();
    let mut inputs = inputs(backfill);
    if more {
        inputs.push(("Pools".to_owned(), format!("the first {MAX_POOLS} by name; there are more")));
    }
    let title = "KV cache capacity".to_owned();
    Ok((!pools.is_empty()).then_some(ReportInput { title, inputs, pools, compares_engines: false }))
}

/// Hands out what the run published, in the order of each partition.
///
/// # Errors
/// The brokers, or a record of the run's that is no estimate.
pub(super) fn published(backfill: &Backfill, each: &mut dyn FnMut(Estimate)) -> Result<(), KafkaFailure> {
    let plan = &backfill.plan;
    let topic = plan.stream.outputs.results.name.as_str();
    let mut reader =
        TopicReader::open(&plan.stream.connection, topic, From::Beginning, plan.stream.retry_for)?;
    while !reader.at_end() {
        let Some(record) = reader.next(MOMENT)? else { continue };
        let estimate = decode_estimate(record.value.as_deref().unwrap_or_default()).map_err(|error| {
            let (partition, offset) = (record.partition, record.offset);
            KafkaFailure::fatal(format!("{topic}/{partition}, offset {offset}: {error}"))
        })?;
        // Another run may have written to the same topic.
        if is_of(backfill, &estimate) {
            each(estimate);
        }
    }
    Ok(())
}

fn is_of(backfill: &Backfill, estimate: &Estimate) -> bool {
    let offset_range = backfill.offset_ranges.get(&Partition(estimate.partition));
    offset_range.is_some_and(|offset_range| {
        estimate.next_offset > offset_range.count_from.0 && estimate.next_offset <= offset_range.end.0
    })
}

/// What was read and how.
fn inputs(backfill: &Backfill) -> Vec<(String, String)> {
    let mut inputs = vec![("Topic".to_owned(), backfill.plan.task.topic.clone())];
    for (partition, offset_range) in &backfill.offset_ranges {
        let mut text = format!("offsets {} to {}", offset_range.count_from, offset_range.end);
        if offset_range.begin < offset_range.count_from {
            text += &format!(", warmed up from {}", offset_range.begin);
        }
        inputs.push((format!("Partition {partition}"), text));
    }
    inputs.push(("Backfill run".to_owned(), backfill.run_id.to_string()));
    inputs.push(("Estimates on topic".to_owned(), backfill.plan.stream.outputs.results.name.clone()));
    inputs.push(("kvset".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    inputs
}

/// What is kept of one pool's estimates, in the order they were published.
struct PublishedHistory {
    /// The latest estimate of the window to act on, which the headline is about; of the widest kind where none is.
    headline: Option<Estimate>,
    /// The kind of window the history is taken over: one that tells how many requests came before.
    history_of: Option<WindowKind>,
    history: EstimateHistory,
    windows: VecDeque<WindowRow>,
}

impl PublishedHistory {
    fn over(windows: &[WindowKind]) -> Self {
        let tumbling = windows.iter().find(|kind| matches!(kind, WindowKind::Tumbling { .. }));
        let all = windows.iter().find(|kind| **kind == WindowKind::All);
        Self {
            headline: None,
            history_of: tumbling.or(all).copied(),
            history: EstimateHistory::of_at_most(MAX_POINTS),
            windows: VecDeque::new(),
        }
    }

    fn add(&mut self, estimate: Estimate) {
        if self.history_of == Some(estimate.window) {
            self.history.add(&estimate);
        }
        if self.windows.len() == MAX_WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(WindowRow::of(&estimate));
        let rank = |estimate: &Estimate| (estimate.act_on, width(estimate.window));
        if self.headline.as_ref().is_none_or(|other| rank(&estimate) >= rank(other)) {
            self.headline = Some(estimate);
        }
    }

    fn finish(self) -> Option<PoolReport<'static>> {
        let headline = self.headline?;
        let history = self.history.history();
        Some(PoolReport { history, windows: self.windows.into(), ..PoolReport::of(Cow::Owned(headline)) })
    }
}

/// How much of the log a kind of window covers: in order of kind, then of size.
fn width(kind: WindowKind) -> (u8, u64) {
    match kind {
        WindowKind::Tumbling { size_ms } | WindowKind::Hopping { size_ms, .. } => (0, size_ms),
        WindowKind::Last { requests } => (1, u64::from(requests)),
        WindowKind::All => (2, 0),
    }
}
