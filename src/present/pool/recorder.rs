//! A history of bounded length out of a log of unknown length.

use crate::present::pool::{HistoryPoint, PoolEstimates};
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;

/// Most points kept; when they are reached every other one is dropped and the stride doubles.
const MAX_POINTS: usize = 256;

/// Decides after which requests an estimate is taken, and keeps the points evenly spaced.
///
/// Ask [`HistoryRecorder::is_due`] after every counted request, and where it is, hand an estimate to
/// [`HistoryRecorder::record`]: one over the last few thousand requests, as in the paper's figure 4.
#[derive(Debug, Clone)]
pub struct HistoryRecorder {
    history: PoolEstimates,
    /// Requests between two points; a power of two.
    stride: u64,
    /// Event times never went back, so they may serve as an axis.
    ordered: bool,
    latest_ms: i64,
}

impl Default for HistoryRecorder {
    fn default() -> Self {
        Self { history: PoolEstimates::default(), stride: 1, ordered: true, latest_ms: i64::MIN }
    }
}

impl HistoryRecorder {
    /// Whether an estimate is wanted after `requests` requests, counted from 1. `event_time_ms` is that
    /// of the latest request.
    pub fn is_due(&mut self, requests: u64, event_time_ms: i64) -> bool {
        self.ordered &= event_time_ms >= self.latest_ms;
        self.latest_ms = self.latest_ms.max(event_time_ms);
        requests.is_multiple_of(self.stride)
    }

    /// Keeps an estimate as a point of the history.
    pub fn record(&mut self, estimate: &Estimate, requests: u64) {
        if self.history.points.len() >= MAX_POINTS {
            self.stride = self.stride.saturating_mul(2);
            let stride = self.stride;
            self.history.points.retain(|point| point.requests_seen.is_multiple_of(stride));
            if !requests.is_multiple_of(stride) {
                return;
            }
        }
        self.push(estimate, requests);
    }

    /// The history, ended by the estimate after the last request, whatever the stride.
    pub fn finish(mut self, last: Option<(&Estimate, u64)>) -> PoolEstimates {
        if let Some((estimate, requests)) = last
            && self.history.points.last().is_none_or(|point| point.requests_seen < requests)
        {
            self.push(estimate, requests);
        }
        if !self.ordered {
            self.history.points.iter_mut().for_each(|point| point.span_ms = None);
        }
        self.history
    }

    fn push(&mut self, estimate: &Estimate, requests: u64) {
        if self.history.coverage.is_empty() {
            self.history = PoolEstimates {
                points: std::mem::take(&mut self.history.points),
                ..PoolEstimates::of(std::slice::from_ref(estimate))
            };
        }
        self.history.points.push(HistoryPoint::of(estimate, requests));
    }
}

/// The history that published estimates of one kind of window of one pool tell, one after another.
#[derive(Debug, Clone)]
pub struct EstimateHistory {
    history: PoolEstimates,
    /// The newest point, while the stride passes it over.
    passed_over: Option<HistoryPoint>,
    most: usize,
    /// Every so many estimates one point is kept.
    stride: u64,
    estimates: u64,
    requests: u64,
}

impl EstimateHistory {
    /// At most this many points; when there are more every other one is dropped.
    pub fn of_at_most(most: usize) -> Self {
        let history = PoolEstimates::default();
        Self { history, passed_over: None, most, stride: 1, estimates: 0, requests: 0 }
    }

    /// Takes the next estimate in.
    pub fn add(&mut self, estimate: &Estimate) {
        if self.estimates == 0 {
            self.history =
                PoolEstimates { points: Vec::new(), ..PoolEstimates::of(std::slice::from_ref(estimate)) };
        }
        self.requests = match estimate.window {
            WindowKind::All => estimate.requests,
            WindowKind::Tumbling { .. } => self.requests.saturating_add(estimate.requests),
            // Overlapping windows count a request more than once.
            WindowKind::Hopping { .. } | WindowKind::Last { .. } => 0,
        };
        self.estimates += 1;
        if self.estimates.is_multiple_of(self.stride) && self.history.points.len() >= self.most {
            self.stride = self.stride.saturating_mul(2);
            let mut index = 0;
            self.history.points.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        let point = HistoryPoint::of(estimate, self.requests);
        if self.estimates.is_multiple_of(self.stride) {
            self.history.points.push(point);
            self.passed_over = None;
        } else {
            self.passed_over = Some(point);
        }
    }

    /// What was kept, and the newest estimate whatever the stride.
    pub fn history(&self) -> PoolEstimates {
        let mut history = self.history.clone();
        history.points.extend(self.passed_over.clone());
        history
    }
}
