//! Axes: a range, a scale, and ticks at round figures of their unit.

use super::layout;
use crate::present::words;

/// Ticks an axis aims at.
const TICKS: f64 = 6.0;

/// A tick: where, and what is written alongside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// One axis. Values outside its range are not drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub title: String,
    low: f64,
    high: f64,
    log: bool,
    pub ticks: Vec<Tick>,
}

impl Axis {
    /// Shares from none to all.
    pub(crate) fn shares(title: &str) -> Self {
        let label = |value: f64| format!("{:.0} %", value * 100.0);
        Self::linear(title, 0.0, 1.0, 0.2, label)
    }

    /// Numbers from 0 to at least `max`.
    pub(crate) fn numbers(title: &str, max: f64) -> Self {
        let step = round_step(max.max(f64::MIN_POSITIVE) / TICKS, 10.0);
        Self::linear(title, 0.0, (max / step).ceil().max(1.0) * step, step, words::short)
    }

    /// Multiples from 0 to at least `max`: `5 ×`.
    pub(crate) fn factors(title: &str, max: f64) -> Self {
        let mut axis = Self::numbers(title, max);
        axis.ticks.iter_mut().for_each(|tick| tick.label.push_str(" ×"));
        axis
    }

    /// Requests since the start, from `first` to `last`.
    pub(crate) fn requests(first: f64, last: f64) -> Self {
        let last = if last > first { last } else { first + 1.0 };
        let step = round_step((last - first) / TICKS, 10.0).max(1.0);
        Self::linear("requests seen", first, last, step, |value| words::integer(value as u64))
    }

    /// Event time: dates in UTC where times are dates, else time since the trace's zero.
    pub(crate) fn event_time(first_ms: i64, last_ms: i64) -> Self {
        let (low, high) = (first_ms as f64, (last_ms.max(first_ms.saturating_add(1))) as f64);
        let step = time_step((high - low) / TICKS);
        let dated = words::date(first_ms).is_some();
        let title = if dated { "event time (UTC)" } else { "event time since the trace's start" };
        let label = move |value: f64| match words::date(value as i64) {
            Some(date) if step >= 86_400_000.0 => date[..10].to_owned(),
            Some(date) if step >= 60_000.0 => format!("{} {}", &date[5..10], &date[11..16]),
            Some(date) => date[11..19].to_owned(),
            None => words::elapsed(value as i64),
        };
        Self::linear(title, low, high, step, label)
    }

    /// Capacities from 0 to at least `max_pages`, in bytes where a page's bytes are known. Positions are pages.
    pub(crate) fn capacity(name: &str, max_pages: f64, page_bytes: Option<u64>) -> Self {
        let Some(page_bytes) = page_bytes else {
            return Self::numbers(&format!("{name} (pages)"), max_pages);
        };
        let page_bytes = page_bytes.max(1) as f64;
        let max = (max_pages * page_bytes).max(1.0);
        // Powers of two only: what is round in tens of one binary unit is crooked in the next smaller one.
        let step = 2f64.powf((max / (TICKS + 2.0)).log2().ceil());
        let high = (max / step).ceil().max(1.0) * step;
        let mut axis = Self::linear(&format!("{name} (bytes)"), 0.0, high, step, size_label);
        axis.rescale(1.0 / page_bytes);
        axis
    }

    /// Capacities on a logarithmic scale, in bytes where a page's bytes are known. Positions are pages.
    pub(crate) fn log_capacity(name: &str, low_pages: f64, high_pages: f64, page_bytes: Option<u64>) -> Self {
        let (low_pages, high_pages) = match high_pages > low_pages {
            true => (low_pages, high_pages),
            false => (low_pages / 2.0, low_pages * 2.0),
        };
        let unit = page_bytes.map_or(1.0, |bytes| bytes.max(1) as f64);
        let (low, high) = (low_pages * unit, high_pages * unit);
        let (measure, base, label): (_, f64, fn(f64) -> String) = match page_bytes {
            Some(_) => ("bytes", 2.0, size_label),
            None => ("pages", 10.0, words::short),
        };
        let (low, high) = match log_ticks(low, high, base).len() {
            0 | 1 => (base.powf(low.log(base).floor()), base.powf(high.log(base).ceil())),
            _ => (low, high),
        };
        let ticks = log_ticks(low, high, base).into_iter().map(|value| Tick { value, label: label(value) });
        let title = format!("{name} ({measure}, logarithmic)");
        let mut axis = Self { title, low, high, log: true, ticks: ticks.collect() };
        axis.rescale(1.0 / unit);
        axis
    }

    /// Amounts on a logarithmic scale, from a power of ten to another.
    pub(crate) fn log_amounts(title: &str, low: f64, high: f64) -> Self {
        let (low, high) = (low.max(f64::MIN_POSITIVE), high.max(f64::MIN_POSITIVE));
        let power = |exponent: f64| 10f64.powf(exponent);
        let low = power((low.log10() + 1e-9).floor());
        let high = power((high.log10() - 1e-9).ceil()).max(low * 10.0);
        let label = |value: f64| if value < 0.001 { format!("{value:.0e}") } else { words::short(value) };
        let ticks = log_ticks(low, high, 10.0).into_iter().map(|value| Tick { value, label: label(value) });
        Self { title: title.to_owned(), low, high, log: true, ticks: ticks.collect() }
    }

    fn linear(title: &str, low: f64, high: f64, step: f64, label: impl Fn(f64) -> String) -> Self {
        let first = (low / step).ceil();
        let count = ((high / step - first) + 1e-9).floor().max(0.0) as u64;
        // A broken step must not make endless ticks: the range holds a handful by construction.
        let ticks = (0..=count.min(50)).map(|index| {
            let value = (first + index as f64) * step;
            Tick { value, label: label(value) }
        });
        Self { title: title.to_owned(), low, high, log: false, ticks: ticks.collect() }
    }

    /// The values at its ends.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    fn rescale(&mut self, factor: f64) {
        self.low *= factor;
        self.high *= factor;
        self.ticks.iter_mut().for_each(|tick| tick.value *= factor);
    }

    /// Where a value lies: 0 at the low end, 1 at the high end; `None` outside and for no number.
    pub(crate) fn position(&self, value: f64) -> Option<f64> {
        let share = match self.log {
            true if value <= 0.0 => return None,
            true => (value / self.low).log2() / (self.high / self.low).log2(),
            false => (value - self.low) / (self.high - self.low),
        };
        (-1e-9..=1.0 + 1e-9).contains(&share).then(|| share.clamp(0.0, 1.0))
    }

    /// Drops tick labels that would touch on an axis `pixels` wide.
    pub(crate) fn thin(&mut self, pixels: f64, font_px: f64) {
        let positions: Vec<f64> =
            self.ticks.iter().map(|tick| self.position(tick.value).unwrap_or(0.0) * pixels).collect();
        let widths: Vec<f64> =
            self.ticks.iter().map(|tick| layout::text_width(&tick.label, font_px)).collect();
        let step = layout::thinning(&positions, &widths, font_px);
        self.ticks = std::mem::take(&mut self.ticks).into_iter().step_by(step).collect();
    }
}

/// The smallest of 1, 2, 5 times a power of `base` that is at least `least`.
fn round_step(least: f64, base: f64) -> f64 {
    let power = base.powf(least.log(base).floor());
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(power)
}

/// The smallest usual length of time that is at least `least` milliseconds.
fn time_step(least: f64) -> f64 {
    const SECOND: f64 = 1000.0;
    const HOUR: f64 = 3_600_000.0;
    const DAY: f64 = 86_400_000.0;
    const STEPS: [f64; 22] = [
        SECOND,
        2.0 * SECOND,
        5.0 * SECOND,
        10.0 * SECOND,
        15.0 * SECOND,
        30.0 * SECOND,
        60.0 * SECOND,
        120.0 * SECOND,
        300.0 * SECOND,
        600.0 * SECOND,
        900.0 * SECOND,
        1800.0 * SECOND,
        HOUR,
        2.0 * HOUR,
        3.0 * HOUR,
        6.0 * HOUR,
        12.0 * HOUR,
        DAY,
        2.0 * DAY,
        7.0 * DAY,
        14.0 * DAY,
        28.0 * DAY,
    ];
    match STEPS.iter().find(|step| **step >= least) {
        Some(step) => *step,
        None => round_step(least / DAY, 10.0) * DAY,
    }
}

/// Powers of `base` inside the range, thinned to whole powers of a power so that few remain.
fn log_ticks(low: f64, high: f64, base: f64) -> Vec<f64> {
    let exponent = |value: f64| value.log(base);
    let (first, last) = ((exponent(low) - 1e-9).ceil() as i32, (exponent(high) + 1e-9).floor() as i32);
    let stride = [1, 2, 5, 10, 20].into_iter().find(|stride| (last - first) / stride < 10).unwrap_or(20);
    (first..=last).filter(|power| power.rem_euclid(stride) == 0).map(|power| base.powi(power)).collect()
}

/// A round size on an axis: `512 GiB`, `1.5 TiB`, `0`.
fn size_label(bytes: f64) -> String {
    if bytes <= 0.0 {
        return "0".to_owned();
    }
    words::bytes_round(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn sizes_fall_on_round_binary_figures() {
        let axis = Axis::capacity("capacity", 1000.0, Some(1 << 30));
        assert_eq!(
            labels(&axis),
            ["0", "128 GiB", "256 GiB", "384 GiB", "512 GiB", "640 GiB", "768 GiB", "896 GiB", "1 TiB"]
        );
        let axis = Axis::capacity("capacity", 1100.0, Some(1 << 30));
        assert_eq!(labels(&axis), ["0", "256 GiB", "512 GiB", "768 GiB", "1 TiB", "1.25 TiB"]);
        let axis = Axis::log_capacity("c", 1.0, 1e6, Some(1 << 20));
        assert_eq!(
            labels(&axis),
            [
                "1 MiB", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB", "4 GiB", "16 GiB", "64 GiB",
                "256 GiB"
            ]
        );
        assert_eq!(
            labels(&Axis::log_capacity("c", 1.0, 1e6, None)),
            ["1", "10", "100", "1k", "10k", "100k", "1M"]
        );
    }

    #[test]
    fn times_fall_on_usual_steps() {
        let day = Axis::event_time(1_763_702_547_000, 1_763_702_547_000 + 86_400_000);
        assert_eq!(labels(&day), ["11-21 06:00", "11-21 12:00", "11-21 18:00", "11-22 00:00"]);
        assert_eq!(
            labels(&Axis::event_time(0, 5_400_000)),
            ["0 s", "15 min", "30 min", "45 min", "1 h", "1 h 15 min", "1 h 30 min"]
        );
        assert_eq!(day.title, "event time (UTC)");
    }

    #[test]
    fn the_scale_tells_where_values_lie() {
        let axis = Axis::log_capacity("c", 1.0, 1024.0, None);
        assert_eq!(
            [axis.position(1.0), axis.position(32.0), axis.position(0.0)],
            [Some(0.0), Some(0.5), None]
        );
        assert_eq!(axis.position(f64::NAN), None);
        assert_eq!(axis.position(4096.0), None);
    }

    proptest! {
        #[test]
        fn every_axis_has_few_ticks_inside_its_range(low in 1e-3..1e15f64, times in 1.0..1e9f64, bytes in 1u64..1 << 40) {
            let high = low * times;
            let axes = [
                Axis::numbers("n", high), Axis::requests(low, high), Axis::capacity("c", high, Some(bytes)),
                Axis::log_capacity("c", low, high, Some(bytes)), Axis::log_capacity("c", low, high, None),
                Axis::event_time(low as i64, high as i64), Axis::log_amounts("a", low, high),
            ];
            for axis in axes {
                prop_assert!(axis.ticks.len() <= 12, "{} ticks on {axis:?}", axis.ticks.len());
                prop_assert!(axis.ticks.iter().all(|tick| axis.position(tick.value).is_some()), "{axis:?}");
            }
        }
    }
}
