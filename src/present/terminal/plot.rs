//! The hit-rate curve as a drawing of characters.
//!
//! Braille characters hold two by four dots each, which makes a curve out of text. Capacities are on a
//! logarithmic axis, as in the report.

use super::Terminal;
use kvset_core::estimate::CapacityPoint;

/// Narrowest terminal that is drawn on, and widest drawing, in columns.
const NARROWEST: usize = 60;
const WIDEST: usize = 100;
/// Lines of the drawing, and dots a line and a column.
const LINES: usize = 10;
const DOTS_A_LINE: usize = 4;
const DOTS_A_COLUMN: usize = 2;
/// Columns of the labels to the left: `100 % ┤`.
const MARGIN: usize = 7;
/// The first braille character; each of its eight dots is a bit.
const BLANK: u32 = 0x2800;
/// Bits of the dots by column and line.
const BITS: [[u32; DOTS_A_LINE]; DOTS_A_COLUMN] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// Blue, as the report's first series, and back.
const CURVE_COLOUR: &str = "\x1b[34m";
const PLAIN: &str = "\x1b[0m";

/// The curve through these points, which may be in any order, with a mark at the recommended capacity, and how it is
/// written, where there is one; `size` writes a capacity of so many pages. Empty where the terminal is too narrow, or
/// there is nothing to draw.
pub fn curve<'a>(
    points: impl IntoIterator<Item = &'a CapacityPoint>,
    marker: Option<(u64, String)>,
    size: &dyn Fn(u64) -> String,
    terminal: &Terminal,
) -> String {
    let Some(width) = terminal.width.filter(|width| *width >= NARROWEST) else { return String::new() };
    let columns = width.min(WIDEST) - MARGIN;
    let mut known: Vec<(f64, f64)> = points.into_iter().filter_map(place).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(first), Some(last)) = (known.first(), known.last()) else { return String::new() };
    let (low, high) = (first.0, last.0);
    if high <= low {
        return String::new();
    }
    let dots = columns * DOTS_A_COLUMN;
    let across = |x: f64| (((x - low) / (high - low)) * (dots - 1) as f64).round().max(0.0) as usize;
    let mut cells = vec![vec![0; columns]; LINES];
    let mut previous: Option<usize> = None;
    for dot in 0..dots {
        let x = low + (high - low) * dot as f64 / (dots - 1) as f64;
        let height = upwards(height_at(&known, x));
        // Steep parts are filled, so that the line has no holes.
        let from = previous.map_or(height, |before| before.min(height));
        (from..=height.max(previous.unwrap_or(height))).for_each(|y| set(&mut cells, dot, y));
        previous = Some(height);
    }
    let marker = marker.as_ref().filter(|(pages, _)| *pages > 0);
    let marker = marker.map(|(pages, label)| ((*pages as f64).ln(), label.as_str()));
    let marker = marker.filter(|(x, _)| (low..=high).contains(x));
    let at = marker.map(|(x, _)| across(x) / DOTS_A_COLUMN);
    let mut text = lines(&cells, at, terminal.colour);
    text.push_str(&axis(columns, at));
    let ends = [low, high].map(|x| size(x.exp().round() as u64));
    text.push_str(&labels(columns, &ends, at.zip(marker.map(|(_, label)| label))));
    text
}

/// Where a point lies: the logarithm of its pages, and its prefix hit rate.
fn place(point: &CapacityPoint) -> Option<(f64, f64)> {
    let rate = point.prefix_hit_rate.filter(|rate| (0.0..=1.0).contains(rate))?;
    (point.pages > 0).then(|| ((point.pages as f64).ln(), rate))
}

/// The curve's height at a place: straight between its neighbours.
fn height_at(known: &[(f64, f64)], x: f64) -> f64 {
    let after = known.partition_point(|point| point.0 < x).min(known.len() - 1);
    let (right, left) = (known[after], known[after.saturating_sub(1)]);
    let run = right.0 - left.0;
    if run <= 0.0 { right.1 } else { left.1 + (right.1 - left.1) * ((x - left.0) / run).clamp(0.0, 1.0) }
}

/// Dots from the bottom for a share.
fn upwards(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * (LINES * DOTS_A_LINE - 1) as f64).round() as usize
}

/// Sets a dot, counted from the bottom left, in the cells that the dots stand in.
fn set(cells: &mut [Vec<u32>], x: usize, y: usize) {
    let line = LINES - 1 - y / DOTS_A_LINE;
    let bit = BITS[x % DOTS_A_COLUMN][DOTS_A_LINE - 1 - y % DOTS_A_LINE];
    cells[line][x / DOTS_A_COLUMN] |= bit;
}

/// The lines with their labels, and a marker over the columns that hold no dot.
fn lines(cells: &[Vec<u32>], marker: Option<usize>, colour: bool) -> String {
    let mut text = String::new();
    for (number, line) in cells.iter().enumerate() {
        let label = match number {
            0 => "100 % ┤",
            n if n == LINES / 2 => " 50 % ┤",
            n if n == LINES - 1 => "  0 % ┤",
            _ => "      │",
        };
        let dots: String =
            line.iter().enumerate().map(|(at, bits)| glyph(*bits, marker == Some(at))).collect();
        let dots = dots.trim_end();
        text.push_str(label);
        match (colour, dots.is_empty()) {
            (true, false) => text.push_str(&format!("{CURVE_COLOUR}{dots}{PLAIN}")),
            _ => text.push_str(dots),
        }
        text.push('\n');
    }
    text
}

fn glyph(bits: u32, marked: bool) -> char {
    match (bits, marked) {
        (0, true) => '┊',
        (0, false) => ' ',
        (bits, _) => char::from_u32(BLANK + bits).unwrap_or(' '),
    }
}

fn axis(columns: usize, marker: Option<usize>) -> String {
    let line: String = (0..columns).map(|at| if marker == Some(at) { '┴' } else { '─' }).collect();
    format!("      └{line}\n")
}

/// The ends of the axis and the marker's label below it; an end gives way to the marker.
fn labels(columns: usize, [low, high]: &[String; 2], marker: Option<(usize, &str)>) -> String {
    let mut line = vec![' '; MARGIN + columns];
    let mut taken = vec![false; line.len()];
    let mut put = |start: usize, text: &str| {
        let length = text.chars().count();
        let free = start + length <= line.len()
            && taken[start.saturating_sub(1)..(start + length + 1).min(line.len())].iter().all(|used| !used);
        if free {
            for (offset, character) in text.chars().enumerate() {
                (line[start + offset], taken[start + offset]) = (character, true);
            }
        }
    };
    if let Some((at, label)) = marker {
        let length = label.chars().count();
        let last = (MARGIN + columns).saturating_sub(length);
        put((MARGIN + at).saturating_sub(length / 2).clamp(MARGIN.min(last), last), label);
    }
    put(MARGIN, low);
    put((MARGIN + columns).saturating_sub(high.chars().count()), high);
    let line: String = line.into_iter().collect();
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(pages: u64, rate: f64) -> CapacityPoint {
        CapacityPoint {
            label: None,
            pages,
            bytes: None,
            page_hits: None,
            prefix_hits: None,
            page_hit_rate: Some(rate),
            reuse_hit_rate: None,
            prefix_hit_rate: Some(rate),
            relative_prefill_throughput: None,
            beyond_bound: false,
            ..CapacityPoint::default()
        }
    }

    fn drawn(points: &[CapacityPoint], marker: Option<u64>, width: Option<usize>, colour: bool) -> String {
        let size = |pages: u64| format!("{pages} p");
        let marker = marker.map(|pages| (pages, format!("99 %: {pages} p")));
        curve(points, marker, &size, &Terminal { width, colour })
    }

    #[test]
    fn a_curve_climbs_from_the_lower_left_to_the_upper_right() {
        let points = [point(1, 0.0), point(1000, 1.0)];
        let text = drawn(&points, Some(900), Some(80), false);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        let column = |line: &str| line.chars().position(|c| (BLANK + 1..BLANK + 256).contains(&u32::from(c)));
        let starts: Vec<_> = lines[..LINES].iter().map(|line| column(line).expect("a dot")).collect();
        assert!(
            starts.windows(2).all(|pair| pair[0] > pair[1]),
            "each line begins left of the one above: {text}"
        );
        assert_eq!(starts[LINES - 1], MARGIN);
        assert!(lines[LINES].contains('┴') && lines[LINES + 1].contains("99 %: 900 p"), "{text}");
        assert!(lines[LINES + 1].contains("1 p"), "{text}");
    }

    #[test]
    fn colours_are_written_only_where_they_are_wanted() {
        let points = [point(1, 0.2), point(1000, 0.9)];
        assert!(drawn(&points, None, Some(80), true).contains("\x1b["));
        assert!(!drawn(&points, None, Some(80), false).contains('\x1b'));
    }

    #[test]
    fn nothing_is_drawn_without_room_or_without_a_curve() {
        let points = [point(1, 0.2), point(1000, 0.9)];
        assert_eq!(drawn(&points, None, Some(NARROWEST - 1), true), "");
        assert_eq!(drawn(&points, None, None, true), "");
        assert_eq!(drawn(&points[..1], None, Some(80), true), "");
        assert_eq!(drawn(&[point(5, f64::NAN), point(9, 2.0)], None, Some(80), true), "");
    }

    #[test]
    fn a_wide_terminal_gets_no_wider_drawing_and_every_marker_fits() {
        let points = [point(1, 0.2), point(1_000_000, 0.9)];
        for pages in [1, 2, 30, 500, 999_999, 1_000_000] {
            for width in [60, 80, 120, 300] {
                let text = drawn(&points, Some(pages), Some(width), false);
                assert!(text.lines().all(|line| line.chars().count() <= width.min(WIDEST)), "{text}");
                assert!(text.contains(&format!("99 %: {pages} p")), "{text}");
            }
        }
    }
}
