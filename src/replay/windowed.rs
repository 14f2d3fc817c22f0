//! Retention in each of the windows asked for: a tally a window that is open.

use kvset_core::estimate::Estimate;
use kvset_core::retention::{Followed, RetentionConfig, RetentionTally};
use kvset_core::units::EventTime;
use kvset_core::window::WindowKind;
use std::collections::{HashMap, VecDeque};

/// Most requests that are kept for a window of the latest ones.
const MOST_LATEST: u32 = 1 << 16;

/// A window: its kind and where it begins, in milliseconds.
pub(super) type WindowKey = (WindowKind, i64);

/// The windows of a replay.
#[derive(Debug)]
pub(super) struct Windowed {
    /// Those of event time that were asked for: kind, size and advance in milliseconds.
    spans: Vec<(WindowKind, i64, i64)>,
    open: HashMap<WindowKey, RetentionTally>,
    /// Where the latest window of each kind ended that was closed.
    closed_end: HashMap<WindowKind, i64>,
    /// The latest requests, and how many of them each window holds.
    latest: VecDeque<Followed>,
    latest_kinds: Vec<(WindowKind, u32)>,
}

impl Windowed {
    pub(super) fn new(kinds: &[WindowKind]) -> Self {
        let span = |kind: &WindowKind| match *kind {
            WindowKind::Tumbling { size_ms } => Some((*kind, size_ms as i64, size_ms as i64)),
            WindowKind::Hopping { size_ms, advance_ms } => Some((*kind, size_ms as i64, advance_ms as i64)),
            WindowKind::Last { .. } | WindowKind::All => None,
        };
        let latest = |kind: &WindowKind| match *kind {
            WindowKind::Last { requests } => Some((*kind, requests)).filter(|_| requests <= MOST_LATEST),
            _ => None,
        };
        Self {
            spans: kinds.iter().filter_map(span).collect(),
            open: HashMap::new(),
            closed_end: HashMap::new(),
            latest: VecDeque::new(),
            latest_kinds: kinds.iter().filter_map(latest).collect(),
        }
    }

    /// Counts a request in every window that is still open for it.
    pub(super) fn add(&mut self, event_time: EventTime, followed: &Followed, rules: &RetentionConfig) {
        for (kind, size, advance) in &self.spans {
            let newest = event_time.0.div_euclid(*advance) * advance;
            let starts = (0..size / advance).map(|back| newest - back * advance);
            let closed = self.closed_end.get(kind).copied().unwrap_or(i64::MIN);
            for start in starts.filter(|start| start + size > closed) {
                let tally = self.open.entry((*kind, start)).or_insert_with(|| RetentionTally::new(rules));
                tally.add(followed, rules);
            }
        }
        if let Some(most) = self.latest_kinds.iter().map(|(_, requests)| *requests).max() {
            if self.latest.len() >= most as usize {
                self.latest.pop_front();
            }
            self.latest.push_back(followed.clone());
        }
    }

    /// The tally of a window that was closed; none of one that is not followed.
    pub(super) fn close(&mut self, estimate: &Estimate, rules: &RetentionConfig) -> Option<RetentionTally> {
        let kind = estimate.window;
        if let Some((_, requests)) = self.latest_kinds.iter().find(|(latest, _)| *latest == kind) {
            let mut tally = RetentionTally::new(rules);
            let skipped = self.latest.len().saturating_sub(*requests as usize);
            self.latest.iter().skip(skipped).for_each(|followed| tally.add(followed, rules));
            return Some(tally);
        }
        let (_, size, _) = self.spans.iter().find(|(span, _, _)| *span == kind)?;
        let tally = self.open.remove(&(kind, estimate.start_ms));
        let end = estimate.end_ms;
        self.closed_end.insert(kind, end);
        self.open.retain(|(other, start), _| *other != kind || start + size > end);
        tally
    }
}
