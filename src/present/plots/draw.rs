//! From a description of panels to SVG shapes.
//!
//! The library draws in colours that stand for inks and are turned into class names afterwards, so that
//! a style sheet decides the theme. It snaps to whole units, so a pixel has several.

use super::PlotError;
use super::axis::Axis;
use super::layout::{spread, text_width};
use crate::present::markup::Markup;
use crate::present::theme::Ink;
use crate::present::theme::UNITS_A_PIXEL;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width of a plot in pixels; pages scale it to theirs.
const WIDE: f64 = 880.0;
/// Width on a telephone, where a wide one scaled down could not be read.
const NARROW: f64 = 400.0;
const FONT: f64 = 13.0;
const LINE: f64 = 20.0;
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 50.0;
/// Room for the slanted lines between the labels of markers and the plot.
const CONNECTOR: f64 = 16.0;

/// Shapes and the size they are drawn for, in drawing units.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawing {
    pub width: i32,
    pub height: i32,
    pub shapes: Markup,
}

/// How the points of a series are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesShape {
    Line,
    /// Points alone, where what lies between them is unknown.
    Dots,
    /// Filled columns from 0, each from the point before to its own x.
    Columns,
}

/// One series. A missing point breaks the line.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub label: String,
    pub ink: Ink,
    pub shape: SeriesShape,
    pub on_right: bool,
    pub points: Vec<Option<(f64, f64)>>,
}

impl Series {
    /// A line against the left axis.
    pub(crate) fn line(label: impl Into<String>, ink: Ink, points: Vec<Option<(f64, f64)>>) -> Self {
        Self { label: label.into(), ink, shape: SeriesShape::Line, on_right: false, points }
    }
}

/// A vertical line with a label above the plot, and dots where it meets the series.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    pub x: f64,
    pub dots: Vec<f64>,
    pub label: String,
}

/// One pair of axes and what is drawn on them.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    /// Width of the whole panel, in pixels.
    pub width: f64,
    /// Height of the plotting area, in pixels.
    pub height: f64,
    pub x: Axis,
    pub y: Axis,
    pub right: Option<Axis>,
    pub series: Vec<Series>,
    pub markers: Vec<Marker>,
    /// Whether series are named at the right end of each line; in a row above the plot where not.
    pub names_at_ends: bool,
}

/// A place in drawing units.
type At = (i32, i32);
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Shares, Shares>>;
type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Draws panels one below the other, for wide pages and for narrow ones.
pub(crate) fn draw(plot: &str, panels: Vec<Panel>) -> Result<[Drawing; 2], PlotError> {
    let narrow = panels.iter().cloned().map(|panel| Panel { width: NARROW, ..panel }).collect();
    let drawn = |panels| {
        draw_panels(panels).map_err(|error| PlotError { plot: plot.to_owned(), reason: error.to_string() })
    };
    Ok([drawn(panels)?, drawn(narrow)?])
}

fn draw_panels(mut panels: Vec<Panel>) -> Result<Drawing, Box<dyn std::error::Error + Send + Sync>> {
    let right = panels.iter().map(Panel::right_px).fold(24.0, f64::max);
    let width = panels.iter().map(|panel| panel.width).fold(0.0, f64::max);
    let height: f64 = panels.iter().map(Panel::total_px).sum();
    let size = (units(width), units(height));
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (size.0 as u32, size.1 as u32)).into_drawing_area();
    let mut rest = root.clone();
    for panel in &mut panels {
        let (area, below) = rest.split_vertically(units(panel.total_px()));
        panel.draw(&area, right)?;
        rest = below;
    }
    root.present()?;
    drop((rest, root));
    Ok(Drawing { width: size.0, height: size.1, shapes: Markup::from_backend(with_classes(&svg)) })
}

impl Panel {
    /// A panel of the usual size without markers, its series named above it.
    pub(crate) fn new(x: Axis, y: Axis, series: Vec<Series>) -> Self {
        let (markers, right) = (Vec::new(), None);
        Self { width: WIDE, height: 320.0, x, y, right, series, markers, names_at_ends: false }
    }

    fn top_px(&self) -> f64 {
        let names = LINE * self.name_places().last().map_or(0.0, |(row, _)| row + 1.0);
        let markers = if self.markers.is_empty() { 0.0 } else { LINE + CONNECTOR };
        8.0 + names + self.titles_px() + markers + self.title_gap()
    }

    /// The titles of both axes share a line where they fit.
    fn titles_px(&self) -> f64 {
        let right = self.right.as_ref().map_or(0.0, |axis| text_width(&axis.title, FONT) + 24.0);
        let fit = text_width(&self.y.title, FONT) + right + 16.0 <= self.width;
        if fit || right == 0.0 { LINE } else { 2.0 * LINE }
    }

    /// Row and left edge of each series' name above the plot; none where there is nothing to tell apart.
    fn name_places(&self) -> Vec<(f64, f64)> {
        let named = !self.names_at_ends && self.series.len() > 1;
        let (mut row, mut x) = (0.0, LEFT);
        let place = |series: &Series| {
            let width = 34.0 + text_width(&series.label, FONT);
            if x > LEFT && x + width > self.width {
                (row, x) = (row + 1.0, LEFT);
            }
            let place = (row, x);
            x += width + 24.0;
            place
        };
        self.series.iter().filter(|_| named).map(place).collect()
    }

    /// Without labels of markers between them, the titles must keep clear of the topmost tick labels.
    fn title_gap(&self) -> f64 {
        if self.markers.is_empty() { FONT / 2.0 + 2.0 } else { 0.0 }
    }

    fn total_px(&self) -> f64 {
        self.top_px() + self.height + BOTTOM
    }

    fn right_px(&self) -> f64 {
        let axis = if self.right.is_some() { 64.0 } else { 0.0 };
        let widest = |widest: f64, series: &Series| widest.max(text_width(&series.label, FONT));
        let names = if self.names_at_ends { self.series.iter().fold(0.0, widest) + 26.0 } else { axis };
        // The last label below the axis is centred on its tick and may reach beyond the plot.
        let last = self.x.ticks.last().map_or(0.0, |tick| text_width(&tick.label, FONT) / 2.0);
        names.max(last)
    }

    fn draw(&mut self, area: &Area<'_>, right: f64) -> Drawn {
        self.x.thin(self.width - LEFT - right, FONT);
        let mut chart = ChartBuilder::on(area)
            .margin_top(units(self.top_px()))
            .margin_right(units(right))
            .x_label_area_size(units(BOTTOM))
            .y_label_area_size(units(LEFT))
            .build_cartesian_2d(shares(&self.x), shares(&self.y))?;
        self.draw_mesh(&mut chart)?;
        self.draw_axis_titles(area, right)?;
        for series in &self.series {
            self.draw_series(&mut chart, series)?;
        }
        self.draw_markers(area, &chart)?;
        if self.names_at_ends { self.draw_names_at_ends(area, &chart) } else { self.draw_names_above(area) }
    }

    fn draw_mesh(&self, chart: &mut Chart<'_>) -> Drawn {
        let label_of = |axis: &Axis, at: &f64| {
            let tick = axis.ticks.iter().find(|tick| axis.position(tick.value).as_ref() == Some(at));
            tick.map_or_else(String::new, |tick| tick.label.clone())
        };
        chart
            .configure_mesh()
            .bold_line_style(color(Ink::Grid).stroke_width(UNITS_A_PIXEL as u32))
            .axis_style(color(Ink::Muted).stroke_width(UNITS_A_PIXEL as u32))
            .label_style(style(Ink::Muted))
            .set_all_tick_mark_size(units(4.0))
            .x_label_formatter(&|at| label_of(&self.x, at))
            .y_label_formatter(&|at| label_of(&self.y, at))
            .x_desc(self.x.title.clone())
            .axis_desc_style(style(Ink::Text))
            .draw()?;
        Ok(())
    }

    /// Titles lie flat above their axes: turned text is hard to read.
    fn draw_axis_titles(&self, area: &Area<'_>, right: f64) -> Drawn {
        let markers = if self.markers.is_empty() { 0.0 } else { LINE + CONNECTOR };
        let y = self.top_px() - markers - LINE - self.title_gap() + 2.0;
        let above = y + LINE - self.titles_px();
        text(area, &self.y.title, (8.0, above), Ink::Text, HPos::Left)?;
        let Some(axis) = &self.right else { return Ok(()) };
        text(area, &axis.title, (self.width - 8.0, y), Ink::Text, HPos::Right)?;
        let edge = self.width - right;
        let line = [0.0, self.height].map(|down| (units(edge), units(self.top_px() + down)));
        area.draw(&PathElement::new(line, color(Ink::Muted).stroke_width(UNITS_A_PIXEL as u32)))?;
        for tick in &axis.ticks {
            let Some(share) = axis.position(tick.value) else { continue };
            let y = self.top_px() + self.height * (1.0 - share);
            let line = vec![(units(edge), units(y)), (units(edge + 4.0), units(y))];
            area.draw(&PathElement::new(line, color(Ink::Muted).stroke_width(UNITS_A_PIXEL as u32)))?;
            text(area, &tick.label, (edge + 8.0, y - FONT / 2.0), Ink::Muted, HPos::Left)?;
        }
        Ok(())
    }

    /// A point's place in the plotting area; `None` outside it.
    fn place(&self, series: &Series, point: (f64, f64)) -> Option<(f64, f64)> {
        let y = match (&self.right, series.on_right) {
            (Some(right), true) => right,
            _ => &self.y,
        };
        Some((self.x.position(point.0)?, y.position(point.1)?))
    }

    fn draw_series(&self, chart: &mut Chart<'_>, series: &Series) -> Drawn {
        let line = color(series.ink).stroke_width(units(2.0) as u32);
        let placed = |point: &Option<(f64, f64)>| point.and_then(|point| self.place(series, point));
        let dot = |at| Circle::new(at, units(3.0), color(series.ink).filled());
        match series.shape {
            SeriesShape::Dots => {
                chart.draw_series(series.points.iter().filter_map(placed).map(dot))?;
            }
            SeriesShape::Line => {
                let places: Vec<_> = series.points.iter().map(placed).collect();
                for stretch in places.split(Option::is_none) {
                    let stretch: Vec<(f64, f64)> = stretch.iter().flatten().copied().collect();
                    match stretch.as_slice() {
                        [] => {}
                        [only] => drop(chart.draw_series([dot(*only)])?),
                        _ => drop(chart.draw_series([PathElement::new(stretch, line)])?),
                    }
                }
            }
            SeriesShape::Columns => {
                let places: Vec<_> = series.points.iter().filter_map(placed).collect();
                let columns = places.windows(2).map(|pair| {
                    let corners = [(pair[0].0, 0.0), (pair[1].0, pair[1].1)];
                    Rectangle::new(corners, color(series.ink).mix(0.55).filled())
                });
                chart.draw_series(columns)?;
            }
        }
        Ok(())
    }

    fn draw_markers(&self, area: &Area<'_>, chart: &Chart<'_>) -> Drawn {
        let mut seen: Vec<(&Marker, At, At)> = Vec::new();
        for marker in &self.markers {
            let Some(x) = self.x.position(marker.x) else { continue };
            let origin = area.get_base_pixel();
            let shift = |(x, y): (i32, i32)| (x - origin.0, y - origin.1);
            seen.push((marker, shift(chart.backend_coord(&(x, 1.0))), shift(chart.backend_coord(&(x, 0.0)))));
            for dot in marker.dots.iter().filter_map(|dot| self.y.position(*dot)) {
                let at = shift(chart.backend_coord(&(x, dot)));
                area.draw(&Circle::new(at, units(4.0), color(Ink::Text).filled()))?;
            }
        }
        // Where not all labels fit, the last ones are shown; the table below the plot names the others.
        let mut unnamed = 0;
        let places = loop {
            let named = &seen[unnamed..];
            let centers: Vec<f64> = named.iter().map(|(_, top, _)| pixels(top.0)).collect();
            let widths: Vec<f64> =
                named.iter().map(|(marker, ..)| text_width(&marker.label, FONT) + 12.0).collect();
            match spread(&centers, &widths, 4.0, self.width - 4.0) {
                Some(places) => break places,
                None => unnamed += 1,
            }
        };
        let stroke = || color(Ink::Reference).stroke_width(UNITS_A_PIXEL as u32);
        for (_, top, bottom) in &seen[..unnamed] {
            area.draw(&PathElement::new(vec![*top, *bottom], stroke()))?;
        }
        for ((marker, top, bottom), place) in seen[unnamed..].iter().zip(places) {
            let label_y = pixels(top.1) - CONNECTOR - LINE + 4.0;
            text(area, &marker.label, (place, label_y), Ink::Text, HPos::Center)?;
            let elbow = (units(place), top.1 - units(CONNECTOR - 2.0));
            area.draw(&PathElement::new(vec![elbow, *top, *bottom], stroke()))?;
        }
        Ok(())
    }

    fn draw_names_above(&self, area: &Area<'_>) -> Drawn {
        for (series, (row, x)) in self.series.iter().zip(self.name_places()) {
            let top = 8.0 + row * LINE;
            let y = top + FONT / 2.0;
            let line = vec![(units(x), units(y)), (units(x + 28.0), units(y))];
            match series.shape {
                SeriesShape::Dots => area.draw(&Circle::new(
                    (units(x + 14.0), units(y)),
                    units(3.0),
                    color(series.ink).filled(),
                ))?,
                _ => area.draw(&PathElement::new(line, color(series.ink).stroke_width(units(2.0) as u32)))?,
            }
            text(area, &series.label, (x + 34.0, top), Ink::Text, HPos::Left)?;
        }
        Ok(())
    }

    fn draw_names_at_ends(&self, area: &Area<'_>, chart: &Chart<'_>) -> Drawn {
        let origin = area.get_base_pixel();
        let last = |series: &Series| {
            series.points.iter().rev().flatten().find_map(|point| self.place(series, *point))
        };
        let ends: Vec<_> = self.series.iter().filter_map(|series| Some((series, last(series)?))).collect();
        let at: Vec<(i32, i32)> = ends.iter().map(|(_, end)| chart.backend_coord(end)).collect();
        let centers: Vec<f64> = at.iter().map(|at| pixels(at.1 - origin.1)).collect();
        let (low, high) = (self.top_px() - LINE / 2.0, self.top_px() + self.height + LINE / 2.0);
        let places = spread(&centers, &vec![LINE - 2.0; centers.len()], low, high).unwrap_or_default();
        let edge = chart.plotting_area().get_pixel_range().0.end - origin.0;
        for (((series, _), at), place) in ends.iter().zip(&at).zip(places) {
            let line = vec![(at.0 - origin.0, at.1 - origin.1), (edge + units(16.0), units(place))];
            area.draw(&PathElement::new(line, color(series.ink).stroke_width(units(2.0) as u32)))?;
            // The line has the colour; text needs more contrast than a line.
            let label = (pixels(edge) + 20.0, place - FONT / 2.0);
            text(area, &series.label, label, Ink::Text, HPos::Left)?;
        }
        Ok(())
    }
}

fn units(pixels: f64) -> i32 {
    (pixels * f64::from(UNITS_A_PIXEL)).round() as i32
}

fn pixels(units: i32) -> f64 {
    f64::from(units) / f64::from(UNITS_A_PIXEL)
}

/// The library's view of an [`Axis`]: positions between 0 and 1, labelled at our ticks and nowhere else.
struct Shares(Vec<f64>);

impl Ranged for Shares {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> std::ops::Range<f64> {
        0.0..1.0
    }

    fn map(&self, share: &f64, (low, high): (i32, i32)) -> i32 {
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.0.clone() }
    }
}

fn shares(axis: &Axis) -> Shares {
    Shares(axis.ticks.iter().filter_map(|tick| axis.position(tick.value)).collect())
}

fn text(area: &Area<'_>, text: &str, at: (f64, f64), ink: Ink, side: HPos) -> Drawn {
    let style = style(ink).pos(Pos::new(side, VPos::Top));
    area.draw(&Text::new(text.to_owned(), (units(at.0), units(at.1)), style))?;
    Ok(())
}

/// The backend writes font sizes divided by 1.24.
fn style(ink: Ink) -> TextStyle<'static> {
    let font = ("sans-serif", FONT * f64::from(UNITS_A_PIXEL) * 1.24);
    TextStyle { color: color(ink).to_backend_color(), ..TextStyle::from(font.into_font()) }
}

/// The colour that stands for an ink until [`with_classes`].
fn color(ink: Ink) -> RGBColor {
    let index = Ink::ALL.iter().position(|other| *other == ink).unwrap_or(0);
    RGBColor(0xC0, 0xDE, index as u8)
}

/// Keeps what lies inside the backend's `svg` element, its colours turned into class names.
fn with_classes(svg: &str) -> String {
    let inside = svg.split_once('>').map_or("", |(_, rest)| rest);
    let mut shapes = inside.trim().trim_end_matches("</svg>").trim_start().replace(" opacity=\"1\"", "");
    shapes = shapes.replace(" font-family=\"sans-serif\"", "");
    for (index, ink) in Ink::ALL.iter().enumerate() {
        for (attribute, class) in [("fill", "kv-fill"), ("stroke", "kv-line")] {
            let from = format!(" {attribute}=\"#C0DE{index:02X}\"");
            shapes = shapes.replace(&from, &format!(" class=\"{class}-{}\"", ink.name()));
        }
    }
    shapes
}
