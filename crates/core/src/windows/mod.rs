//! The windows of one pool: what each covers, when it closes, what it is called (docs/design.md, section 3).
//!
//! Everything here is a function of the requests and watermarks it was given, in order.
//!
//! - Tumbling and hopping windows close when the pool's watermark reaches their end plus the grace.
//!   Windows without a request are never published, so a watermark that jumps over a year of them
//!   costs what the open panes cost.
//! - `last:N` and `all` are published when the watermark reaches a multiple of the publishing interval,
//!   provided a request was counted since they were last published. They then cover every record up to
//!   and including the one that moved the watermark. A jump over several multiples publishes once, at
//!   the last of them.
//! - A late record is one that comes after a window it belongs to was closed. It is counted, once a kind of
//!   window, and left out of what is closed; `last:N` and `all` follow offsets, so nothing is late there.
pub mod in_flight;
pub mod missing;
pub mod overlaps;
pub mod step_counts;
pub mod tally;

mod event_time;
mod recent;

use crate::questions::observers::{PoolSections, UnreadSections};
use crate::units::heap::heap_bytes;
use crate::units::window::{WindowKind, WindowRules};
use crate::units::{EventTime, Offset};
use crate::windows::tally::{Position, RequestSummary, Tally, TallyShape};
use event_time::EventWindows;
use recent::{Everything, LastRequests};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;

/// One window as it is shown: closed, or still open.
#[derive(Debug)]
pub struct Window<'a> {
    /// Start (inclusive); for `last:N` and `all`, event time of the earliest request in it.
    pub start_ms: i64,
    /// End (exclusive).
    pub end_ms: i64,
    /// Offset of the first record counted.
    pub first_offset: Offset,
    /// The counts.
    pub tally: Cow<'a, Tally>,
    /// Records that came too late for this kind of window, since the start.
    pub late_records: u64,
}

impl<'a> Window<'a> {
    /// One of `last:N` and `all`.
    fn over_offsets(extent: Position, end_ms: i64, tally: Cow<'a, Tally>) -> Self {
        Self {
            // All its requests may be ahead of the watermark that it ends at.
            start_ms: extent.event_time.0.min(end_ms),
            end_ms,
            first_offset: extent.offset,
            tally,
            late_records: 0,
        }
    }
}

/// One kind of window with its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum KindWindows {
    EventTime(EventWindows),
    Last(LastRequests),
    All(Everything),
}

heap_bytes!(
    enum KindWindows {
        EventTime(windows),
        Last(windows),
        All(windows),
    }
);

/// The windows of one pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WindowSet {
    /// One entry a configured kind, in that order.
    kinds: Vec<KindWindows>,
    allowed_lateness_ms: u64,
    publish_every_ms: u64,
    /// The multiple of the publishing interval at which `last:N` and `all` go out next; none while
    /// nothing was counted since they last did.
    publish_at: Option<EventTime>,
    /// Largest event time counted.
    latest: Option<EventTime>,
}

heap_bytes!(WindowSet { kinds; allowed_lateness_ms, publish_every_ms, publish_at, latest });

impl WindowSet {
    /// Windows that have seen nothing.
    pub fn new(rules: &WindowRules<'_>, shape: TallyShape) -> Self {
        let state = |kind: &WindowKind| match *kind {
            WindowKind::Tumbling { size_ms } => {
                KindWindows::EventTime(EventWindows::new(size_ms, size_ms, rules.grace_ms, shape))
            }
            WindowKind::Hopping { size_ms, advance_ms } => {
                KindWindows::EventTime(EventWindows::new(size_ms, advance_ms, rules.grace_ms, shape))
            }
            WindowKind::Last { requests } => KindWindows::Last(LastRequests::new(requests, shape)),
            WindowKind::All => KindWindows::All(Everything::new(shape)),
        };
        Self {
            kinds: rules.kinds.iter().map(state).collect(),
            allowed_lateness_ms: rules.allowed_lateness_ms,
            publish_every_ms: rules.publish_every_ms,
            publish_at: None,
            latest: None,
        }
    }

    /// Whether these windows, read back from a snapshot, are those of the configuration and can go on.
    pub fn are_those_of(&self, rules: &WindowRules<'_>, shape: TallyShape) -> bool {
        let fresh = Self::new(rules, shape);
        let is_sound = |(windows, fresh): (&KindWindows, &KindWindows)| match (windows, fresh) {
            (KindWindows::EventTime(windows), KindWindows::EventTime(fresh)) => windows.are_sound(fresh),
            (KindWindows::Last(last), KindWindows::Last(fresh)) => last.is_sound(fresh, shape),
            (KindWindows::All(all), KindWindows::All(_)) => all.is_sound(shape),
            _ => false,
        };
        (self.allowed_lateness_ms, self.publish_every_ms, self.kinds.len())
            == (fresh.allowed_lateness_ms, fresh.publish_every_ms, fresh.kinds.len())
            && self.kinds.iter().zip(&fresh.kinds).all(is_sound)
    }

    /// Gives what is counted alongside, window by window.
    pub fn save_observations<'a>(&'a self, image: &mut PoolSections<'a>) {
        for windows in &self.kinds {
            match windows {
                KindWindows::EventTime(windows) => windows.save_observations(image),
                KindWindows::Last(last) => last.save_observations(image),
                KindWindows::All(all) => all.save_observations(image),
            }
        }
    }

    /// Takes it back. What is missing, or left over, does not pass [`WindowSet::are_those_of`] and
    /// [`UnreadSections::is_empty`].
    pub fn take_question_counts(&mut self, shape: TallyShape, saved: &mut UnreadSections) {
        for windows in &mut self.kinds {
            match windows {
                KindWindows::EventTime(windows) => windows.take_question_counts(shape, saved),
                KindWindows::Last(last) => last.take_question_counts(shape, saved),
                KindWindows::All(all) => all.take_question_counts(shape, saved),
            }
        }
    }

    /// Counts a request; whether it came too late for a window that it belongs to. `watermark` is the pool's before
    /// this record, and decides what is late; where it reached [`WindowSet::next_deadline`], [`WindowSet::close`]
    /// comes first.
    pub fn observe(&mut self, summary: &RequestSummary, watermark: Option<EventTime>) -> bool {
        let time = summary.position.event_time;
        let mut is_late = false;
        for windows in &mut self.kinds {
            match windows {
                KindWindows::EventTime(windows) => is_late |= windows.observe(summary, watermark),
                KindWindows::Last(last) => last.observe(summary),
                KindWindows::All(all) => all.observe(summary),
            }
        }
        self.latest = self.latest.max(Some(time));
        if self.publish_at.is_none() && self.publish_every_ms > 0 && self.has_sliding_windows() {
            let lateness = i64::try_from(self.allowed_lateness_ms).unwrap_or(i64::MAX);
            let now = watermark.unwrap_or(EventTime(time.0.saturating_sub(lateness)));
            self.publish_at = Some(EventTime(self.last_multiple(now).saturating_add(self.interval())));
        }
        is_late
    }

    /// The smallest watermark that closes or publishes something; `None` while nothing waits.
    pub fn next_deadline(&self) -> Option<EventTime> {
        let ends = self.kinds.iter().filter_map(|windows| match windows {
            KindWindows::EventTime(windows) => windows.next_deadline(),
            KindWindows::Last(_) | KindWindows::All(_) => None,
        });
        ends.chain(self.publish_at).min()
    }

    /// Closes the windows the watermark has passed and shows each of them with the index of its kind in
    /// the configuration, one kind after another, each in order of end.
    pub fn close(&mut self, watermark: EventTime, mut show: impl FnMut(usize, Window<'_>)) {
        let boundary = EventTime(self.last_multiple(watermark));
        let publishes = self.publish_at.is_some_and(|due| due <= watermark);
        for (order, windows) in self.kinds.iter_mut().enumerate() {
            if let KindWindows::EventTime(windows) = windows {
                windows.close(watermark, |window| show(order, window));
            } else if publishes {
                windows.consolidate();
                windows.sliding(boundary.0).into_iter().for_each(|window| show(order, window));
            }
        }
        if publishes {
            self.publish_at = None;
        }
    }

    /// Closes everything that holds a request: the end of a trace. `last:N` and `all` end just after
    /// the largest event time.
    pub fn finish(&mut self, mut show: impl FnMut(usize, Window<'_>)) {
        let end = self.end_of_data();
        for (order, windows) in self.kinds.iter_mut().enumerate() {
            if let KindWindows::EventTime(windows) = windows {
                windows.finish(|window| show(order, window));
            } else if let Some(window) = windows.sliding(end) {
                show(order, window);
            }
        }
        self.publish_at = None;
    }

    /// Shows what is still open, as it stands: `last:N`, `all`, and the windows over event time that hold
    /// a request and end no later than their newest pane does.
    pub fn provisional(&self, mut show: impl FnMut(usize, Window<'_>)) {
        let end = self.end_of_data();
        for (order, windows) in self.kinds.iter().enumerate() {
            if let KindWindows::EventTime(windows) = windows {
                windows.provisional(|window| show(order, window));
            } else if let Some(window) = windows.sliding(end) {
                show(order, window);
            }
        }
    }

    /// Shows `last:N` and `all` as they stand.
    pub fn show_sliding(&mut self, mut show: impl FnMut(usize, Window<'_>)) {
        let end = self.end_of_data();
        for (order, windows) in self.kinds.iter_mut().enumerate() {
            windows.consolidate();
            windows.sliding(end).into_iter().for_each(|window| show(order, window));
        }
    }

    /// The window over offsets in this place of the configuration as it stands, without what is counted only when a
    /// window is shown, so that it can be looked at often; `None` of others, and where it holds no request.
    pub fn counted_so_far(&self, order: usize) -> Option<Window<'_>> {
        let (extent, tally) = match self.kinds.get(order)? {
            KindWindows::EventTime(_) => return None,
            KindWindows::Last(last) => (last.view()?, &last.tally),
            KindWindows::All(all) => all.view()?,
        };
        Some(Window::over_offsets(extent, self.end_of_data(), Cow::Borrowed(tally)))
    }

    /// The counts since the start, where `all` is among the windows and holds a request, and the number of the first
    /// request counted.
    pub fn since_start(&self) -> Option<(&Tally, u64)> {
        self.kinds.iter().find_map(|windows| match windows {
            KindWindows::All(all) => all.view().map(|(extent, tally)| (tally, extent.arrival)),
            KindWindows::EventTime(_) | KindWindows::Last(_) => None,
        })
    }

    /// Whether any window follows offsets and so is published at intervals.
    fn has_sliding_windows(&self) -> bool {
        self.kinds.iter().any(|windows| !matches!(windows, KindWindows::EventTime(_)))
    }

    fn end_of_data(&self) -> i64 {
        self.latest.map_or(0, |latest| latest.0.saturating_add(1))
    }

    fn interval(&self) -> i64 {
        i64::try_from(self.publish_every_ms).unwrap_or(i64::MAX).max(1)
    }

    /// The last multiple of the publishing interval that is not after `time`.
    fn last_multiple(&self, time: EventTime) -> i64 {
        time.0.saturating_sub(time.0.rem_euclid(self.interval()))
    }
}

/// Makes room for one element more, and for a quarter of what there is: most pools have few of them.
fn reserve_few<T>(values: &mut VecDeque<T>) {
    if values.len() == values.capacity() {
        values.reserve_exact(1 + values.len() / 4);
    }
}

impl KindWindows {
    /// Prepares a window over offsets to be read often: it never closes, so nothing else would.
    fn consolidate(&mut self) {
        match self {
            Self::EventTime(_) => {}
            Self::Last(last) => last.tally.consolidate_distributions(),
            Self::All(all) => all.tally.consolidate_distributions(),
        }
    }

    /// The window over offsets, if this is one and holds a request.
    fn sliding(&self, end_ms: i64) -> Option<Window<'_>> {
        let (extent, tally) = match self {
            Self::EventTime(_) => return None,
            Self::Last(last) => (last.view()?, last.shown()),
            Self::All(all) => all.view().map(|(extent, tally)| (extent, Cow::Borrowed(tally)))?,
        };
        Some(Window::over_offsets(extent, end_ms, tally))
    }
}
