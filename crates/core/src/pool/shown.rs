//! Estimates made of the windows one call showed.

use crate::estimate::estimator::PoolFigures;
use crate::estimate::{Estimate, Status};
use crate::sizing::tiers::{Evidence, Trend};
use crate::units::Offset;
use crate::windows::Window;
use crate::windows::missing::MissingRecords;

/// At which point of the log windows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownMoment {
    /// The offset after the last record observed in the partition: estimates are functions of the
    /// records before it.
    pub next_offset: Offset,
    /// What of the log is not in the pool's windows.
    pub missing: MissingRecords,
}

impl From<Offset> for ShownMoment {
    /// Nothing is missing.
    fn from(next_offset: Offset) -> Self {
        Self { next_offset, missing: MissingRecords::default() }
    }
}

/// The trends of a pool, one a kind of window, and what showing a window does to them.
pub(super) enum Trends<'a> {
    /// It is closed, and taken in.
    Closed(&'a mut [Trend]),
    /// It is still open, and changes nothing.
    Open(&'a [Trend]),
}

/// Estimates under way.
pub(super) struct ShownEstimates<'a> {
    figures: PoolFigures<'a>,
    trends: Trends<'a>,
    /// With the index of the window's kind in the configuration.
    estimates: Vec<(usize, Estimate)>,
}

impl<'a> ShownEstimates<'a> {
    pub(super) fn new(figures: PoolFigures<'a>, trends: Trends<'a>) -> Self {
        Self { figures, trends, estimates: Vec::new() }
    }

    pub(super) fn add(&mut self, order: usize, window: &Window<'_>) {
        let Some(kind) = self.figures.config.windows.get(order).copied() else { return };
        let reading = self.figures.reading(kind, window);
        let (status, standing) = match &mut self.trends {
            Trends::Closed(trends) => {
                let observe = |trend: &mut Trend| trend.observe(&reading.asked, &reading.evidence);
                let standing = trends.get_mut(order).map(observe);
                (Status::Final, standing)
            }
            Trends::Open(trends) => (Status::Provisional, trends.get(order).map(|trend| trend.unchanged())),
        };
        let estimate = self.figures.estimate(kind, window, status, reading, &standing.unwrap_or_default());
        self.estimates.push((order, estimate));
    }

    /// Takes the requirement of a window in without an estimate of it. Readings of a trace come at even distances of
    /// its requests: its times may say nothing.
    pub(super) fn read(&mut self, order: usize, window: &Window<'_>) {
        let Some(kind) = self.figures.config.windows.get(order).copied() else { return };
        if let Trends::Closed(trends) = &mut self.trends
            && let Some(trend) = trends.get_mut(order)
        {
            let reading = self.figures.reading(kind, window);
            trend.observe(&reading.asked, &Evidence { is_timed: false, ..reading.evidence });
        }
    }

    /// By end, then as configured.
    pub(super) fn in_order(mut self) -> impl Iterator<Item = Estimate> {
        self.estimates.sort_by_key(|(order, estimate)| (estimate.end_ms, *order));
        self.estimates.into_iter().map(|(_, estimate)| estimate)
    }
}
