//! A history in one line of text.

/// Heights of the bars, lowest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the last `width` values, scaled from 0 to their largest; a gap is a space.
pub fn sparkline(values: &[Option<f64>], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let largest = shown.iter().flatten().copied().fold(0.0, f64::max);
    let bar = |value: f64| {
        let height = if largest > 0.0 { value / largest * (BARS.len() - 1) as f64 } else { 0.0 };
        BARS[(height.round().max(0.0) as usize).min(BARS.len() - 1)]
    };
    shown.iter().map(|value| value.map_or(' ', bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_the_highest_bar() {
        let values: Vec<_> = (0..8).map(|value| Some(f64::from(value))).collect();
        assert_eq!(sparkline(&values, 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&values, 2), "▇█");
        assert_eq!(sparkline(&[Some(0.0), None, Some(0.0)], 9), "▁ ▁");
        assert_eq!(sparkline(&[Some(f64::NAN), Some(2.0)], 9), "▁█");
        assert_eq!(sparkline(&[], 9), "");
    }
}
