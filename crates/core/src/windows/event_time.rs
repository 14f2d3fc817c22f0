//! Tumbling and hopping windows, made of panes as wide as the advance.

use super::{Window, reserve_few};
use crate::questions::observers::{PoolSections, UnreadSections};
use crate::units::heap::heap_bytes;
use crate::units::{EventTime, is_countable};
use crate::windows::tally::{Position, RequestSummary, Tally, TallyShape};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;

/// Changes of a pane's found pages that gather before they are merged. They are looked through once, as the pane's
/// windows close.
const MOST_PENDING: usize = 1 << 14;

/// The windows of one size and advance: each request is counted in one pane, and a window is the sum
/// of its panes, made when it closes. A window is named by its end, in panes since the epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EventWindows {
    advance_ms: i64,
    /// Panes a window.
    span: i64,
    grace_ms: i64,
    shape: TallyShape,
    /// Windows with an end up to this one are closed.
    closed_end: i64,
    late_records: u64,
    /// Panes that hold a request and belong to a window still open, ascending by index.
    panes: VecDeque<Pane>,
    /// The open panes by the first arrival in each, ascending, with their index.
    openings: Vec<(u64, i64)>,
}

heap_bytes!(EventWindows { panes, openings; advance_ms, span, grace_ms, shape, closed_end, late_records });

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pane {
    /// Starts at `index * advance_ms`.
    index: i64,
    extent: Position,
    /// Its own distinct pages are those last touched before any open pane.
    tally: Tally,
    /// `behind[k]`: pages last touched in the pane `k` before this one; `k` lies below the span.
    behind: Vec<u64>,
    /// The same for the pane `k` after this one: there where event times go back.
    ahead: Vec<u64>,
}

heap_bytes!(Pane { tally, behind, ahead; index, extent });

impl EventWindows {
    pub(super) fn new(size_ms: u64, advance_ms: u64, grace_ms: u64, shape: TallyShape) -> Self {
        let milliseconds = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let advance_ms = milliseconds(advance_ms).max(1);
        Self {
            advance_ms,
            span: (milliseconds(size_ms) / advance_ms).max(1),
            grace_ms: milliseconds(grace_ms),
            shape,
            closed_end: i64::MIN,
            late_records: 0,
            panes: VecDeque::new(),
            openings: Vec::new(),
        }
    }

    /// Counts a request; whether it came too late for a window that it belongs to.
    pub(super) fn observe(&mut self, summary: &RequestSummary, watermark: Option<EventTime>) -> bool {
        if let Some(watermark) = watermark {
            debug_assert!(self.next_deadline().is_none_or(|due| due > watermark), "a window was not closed");
            self.closed_end = self.last_closed(watermark);
        }
        let index = summary.position.event_time.0.div_euclid(self.advance_ms);
        let is_late = index < self.closed_end;
        self.late_records += u64::from(is_late);
        if index.saturating_add(self.span) <= self.closed_end {
            return is_late;
        }
        let at = self.open_pane(index, summary.position);
        let pane = &mut self.panes[at];
        let mut unseen = summary.new_pages;
        for touch in &summary.touches {
            let toucher = pane.pane_of(touch.last_touched_by, &self.openings);
            match toucher.map(|toucher| toucher.saturating_sub(index)) {
                Some(0) => {}
                Some(distance) if distance.unsigned_abs() < self.span.unsigned_abs() => {
                    pane.note(distance, touch.pages)
                }
                _ => unseen += touch.pages,
            }
        }
        pane.tally.add_but_found(summary, unseen);
        if let Some(found) = &mut pane.tally.found {
            summary.found.iter().for_each(|run| found.defer(run));
            if found.pending() > MOST_PENDING {
                found.consolidate();
            }
        }
        is_late
    }

    /// Position of the pane with this index, opened if need be.
    fn open_pane(&mut self, index: i64, extent: Position) -> usize {
        let at = self.panes.partition_point(|pane| pane.index < index);
        match self.panes.get_mut(at) {
            Some(pane) if pane.index == index => pane.extent = pane.extent.earliest(extent),
            _ => {
                let tally = Tally::new(self.shape);
                reserve_few(&mut self.panes);
                self.panes.insert(at, Pane { index, extent, tally, behind: Vec::new(), ahead: Vec::new() });
                self.openings.push((extent.arrival, index));
            }
        }
        at
    }

    pub(super) fn next_deadline(&self) -> Option<EventTime> {
        let first = self.panes.front()?.index;
        let end = first.max(self.closed_end).saturating_add(1);
        Some(EventTime(self.start_of(end).saturating_add(self.grace_ms)))
    }

    pub(super) fn close(&mut self, watermark: EventTime, show: impl FnMut(Window<'_>)) {
        let last = self.last_closed(watermark);
        self.panes.iter_mut().for_each(|pane| pane.tally.consolidate_observation());
        self.show_windows(last, show);
        self.closed_end = last;
        self.drop_panes();
    }

    pub(super) fn finish(&mut self, show: impl FnMut(Window<'_>)) {
        if let Some(newest) = self.panes.back() {
            let last = newest.index.saturating_add(self.span);
            self.panes.iter_mut().for_each(|pane| pane.tally.consolidate_observation());
            self.show_windows(last, show);
            self.closed_end = last;
            self.drop_panes();
        }
    }

    pub(super) fn provisional(&self, show: impl FnMut(Window<'_>)) {
        if let Some(newest) = self.panes.back() {
            self.show_windows(newest.index.saturating_add(1), show);
        }
    }

    /// Gives what is counted alongside, pane by pane.
    pub(super) fn save_observations<'a>(&'a self, image: &mut PoolSections<'a>) {
        self.panes.iter().for_each(|pane| image.push_tally(pane.tally.observation.as_deref()));
    }

    /// Takes it back.
    pub(super) fn take_question_counts(&mut self, shape: TallyShape, saved: &mut UnreadSections) {
        self.shape.observation = shape.observation;
        self.panes.iter_mut().for_each(|pane| pane.tally.observation = saved.tally(shape.observation));
    }

    /// Whether these, read back from a snapshot, are windows like the `fresh` ones.
    pub(super) fn are_sound(&self, fresh: &Self) -> bool {
        (self.advance_ms, self.span, self.grace_ms, self.shape)
            == (fresh.advance_ms, fresh.span, fresh.grace_ms, fresh.shape)
            && is_countable(self.late_records)
            && self.panes.iter().map(|pane| pane.index).is_sorted_by(|one, next| one < next)
            && self.panes.iter().all(|pane| pane.is_sound(self.span, self.shape))
    }

    /// The last window closed at this watermark; windows once closed stay so.
    fn last_closed(&self, watermark: EventTime) -> i64 {
        let ended = watermark.0.saturating_sub(self.grace_ms).div_euclid(self.advance_ms);
        ended.max(self.closed_end)
    }

    fn start_of(&self, pane: i64) -> i64 {
        pane.saturating_mul(self.advance_ms)
    }

    /// Shows the open windows that hold a request, up to the one that ends at `last`, in order.
    fn show_windows(&self, last: i64, mut show: impl FnMut(Window<'_>)) {
        let Some(first) = self.panes.front() else { return };
        let mut end = first.index.max(self.closed_end).saturating_add(1);
        while end <= last && end < i64::MAX {
            let from = self.panes.partition_point(|pane| pane.index < end.saturating_sub(self.span));
            let upto = self.panes.partition_point(|pane| pane.index < end);
            if from < upto {
                show(self.window(end, from, upto));
                end = end.saturating_add(1);
            } else if let Some(next) = self.panes.get(upto) {
                end = next.index.saturating_add(1);
            } else {
                return;
            }
        }
    }

    /// The window that ends at `end`: the panes from position `from` to before `upto`, at least one.
    fn window(&self, end: i64, from: usize, upto: usize) -> Window<'_> {
        let start = end.saturating_sub(self.span);
        let panes = || self.panes.range(from..upto);
        let extent = panes().skip(1).fold(self.panes[from].extent, |all, pane| all.earliest(pane.extent));
        let mut tally = match upto - from {
            1 => Cow::Borrowed(&self.panes[from].tally),
            _ => Cow::Owned(Tally::merged(panes().map(|pane| &pane.tally))),
        };
        let reached: u64 = panes().map(|pane| pane.touched_outside(start, end)).sum();
        if reached > 0 {
            tally.to_mut().distinct_pages += reached;
        }
        Window {
            start_ms: self.start_of(start),
            end_ms: self.start_of(end),
            first_offset: extent.offset,
            tally,
            late_records: self.late_records,
        }
    }

    /// Drops the panes of which every window is closed.
    fn drop_panes(&mut self) {
        while let Some(oldest) = self.panes.front()
            && oldest.index.saturating_add(self.span) <= self.closed_end
        {
            self.panes.pop_front();
        }
        let oldest = self.panes.front().map_or(i64::MAX, |pane| pane.index);
        self.openings.retain(|(_, index)| *index >= oldest);
    }
}

impl Pane {
    fn is_sound(&self, span: i64, shape: TallyShape) -> bool {
        let span = usize::try_from(span).unwrap_or(usize::MAX);
        self.tally.is_sound(shape)
            && self.behind.len().max(self.ahead.len()) <= span
            && self.behind.iter().chain(&self.ahead).all(|pages| is_countable(*pages))
    }

    /// Index of the pane the request `toucher` lies in; none where it lies before all open ones.
    ///
    /// It is taken to lie in the pane opened last before it. That is exact for tumbling windows, and where
    /// event times never go back; elsewhere it is at least the same on every run.
    fn pane_of(&self, toucher: u64, openings: &[(u64, i64)]) -> Option<i64> {
        if toucher >= self.extent.arrival {
            return Some(self.index);
        }
        let opened = openings.partition_point(|(first_arrival, _)| *first_arrival <= toucher);
        Some(openings.get(opened.checked_sub(1)?)?.1)
    }

    /// Notes pages last touched in the pane at this distance, which is not 0.
    fn note(&mut self, distance: i64, pages: u64) {
        let side = if distance < 0 { &mut self.behind } else { &mut self.ahead };
        let panes = usize::try_from(distance.unsigned_abs()).unwrap_or(usize::MAX);
        if side.len() <= panes {
            side.resize(panes + 1, 0);
        }
        side[panes] += pages;
    }

    /// Pages last touched in an open pane outside the window from pane `start` to before `end`, which
    /// holds this one.
    fn touched_outside(&self, start: i64, end: i64) -> u64 {
        let inside = |panes: i64| usize::try_from(panes).unwrap_or(usize::MAX).saturating_add(1);
        let behind = self.behind.iter().skip(inside(self.index.saturating_sub(start)));
        let ahead = self.ahead.iter().skip(inside(end.saturating_sub(self.index).saturating_sub(1)));
        behind.chain(ahead).sum()
    }
}
