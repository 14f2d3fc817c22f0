//! The windows asked for: what retention found in each, and which requests are its own.

use kvset_core::estimate::Estimate;
use kvset_core::questions::retention::{Followed, RetentionConfig, RetentionTally};
use kvset_core::units::EventTime;
use kvset_core::windows::window::WindowKind;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Most requests that are kept for a window of the latest ones.
const MOST_LATEST: u32 = 1 << 16;

/// A window under way.
#[derive(Debug)]
struct Open {
    tally: Option<RetentionTally>,
    /// Its first request and the one after its last, by their numbers in the pool.
    requests: Range<u32>,
    /// How many of these are its own.
    count: u32,
}

/// A window that was closed.
pub(super) struct Closed {
    /// What retention found, where that is followed.
    pub(super) tally: Option<RetentionTally>,
    /// Its requests, where no others came between them.
    pub(super) requests: Option<Range<u32>>,
}

/// A window: its kind and where it begins, in milliseconds.
pub(super) type WindowKey = (WindowKind, i64);

/// The windows of a replay.
#[derive(Debug)]
pub(super) struct Windowed {
    /// Those of event time that were asked for: kind, size and advance in milliseconds.
    spans: Vec<(WindowKind, i64, i64)>,
    open: HashMap<WindowKey, Open>,
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
    pub(super) fn add(
        &mut self,
        event_time: EventTime,
        number: u32,
        followed: Option<(&Followed, &RetentionConfig)>,
    ) {
        for (kind, size, advance) in &self.spans {
            let newest = event_time.0.div_euclid(*advance) * advance;
            let starts = (0..size / advance).map(|back| newest - back * advance);
            let closed = self.closed_end.get(kind).copied().unwrap_or(i64::MIN);
            for start in starts.filter(|start| start + size > closed) {
                let open = self.open.entry((*kind, start)).or_insert_with(|| Open {
                    tally: followed.map(|(_, rules)| RetentionTally::new(rules.shape())),
                    requests: number..number,
                    count: 0,
                });
                if let (Some(tally), Some((followed, _))) = (&mut open.tally, followed) {
                    tally.add(followed);
                }
                open.requests.end = number + 1;
                open.count += 1;
            }
        }
        let most = self.latest_kinds.iter().map(|(_, requests)| *requests).max();
        if let (Some(most), Some((followed, _))) = (most, followed) {
            if self.latest.len() >= most as usize {
                self.latest.pop_front();
            }
            self.latest.push_back(followed.clone());
        }
    }

    /// What is known of a window that was closed; none of one that is not followed. So many requests came until then.
    pub(super) fn close(
        &mut self,
        estimate: &Estimate,
        until: u32,
        rules: Option<&RetentionConfig>,
    ) -> Option<Closed> {
        let kind = estimate.window;
        if let Some((_, requests)) = self.latest_kinds.iter().find(|(latest, _)| *latest == kind) {
            let skipped = self.latest.len().saturating_sub(*requests as usize);
            let tally = rules.map(|rules| {
                let mut tally = RetentionTally::new(rules.shape());
                self.latest.iter().skip(skipped).for_each(|followed| tally.add(followed));
                tally
            });
            let count = u32::try_from(estimate.requests).unwrap_or(u32::MAX).min(until);
            return Some(Closed { tally, requests: Some(until - count..until) });
        }
        let (_, size, _) = self.spans.iter().find(|(span, _, _)| *span == kind)?;
        let open = self.open.remove(&(kind, estimate.start_ms));
        let end = estimate.end_ms;
        self.closed_end.insert(kind, end);
        self.open.retain(|(other, start), _| *other != kind || start + size > end);
        let Open { tally, requests, count } = open?;
        let is_unbroken = requests.len() == count as usize;
        Some(Closed { tally, requests: Some(requests).filter(|_| is_unbroken) })
    }
}
