//! The plots: each a drawing with a title, a description and the table of its numbers.

mod axis;
mod curve;
mod distribution;
mod draw;
mod engines;
mod growth;
mod history;
mod layout;
mod worth;

pub use curve::capacity_curve;
pub use distribution::requirement_distribution;
use draw::{Drawing, Panel, draw};
pub use engines::engine_curves;
pub use growth::capacity_by_traffic;
pub use history::{capacity_history, traffic_history};
pub use worth::worth_against_price;

use crate::present::document::Table;
use crate::present::markup::Markup;
use crate::present::theme::{UNITS_A_PIXEL, plot_stylesheet};

/// A finished plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Unique on the page; prefix of the ids inside the drawing.
    pub id: String,
    pub title: String,
    /// What is drawn, for those who cannot see it.
    pub description: String,
    /// The numbers behind the drawing.
    pub table: Table,
    /// For wide pages and for narrow ones.
    drawings: [Drawing; 2],
}

/// The drawing library refused a plot.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot `{plot}`: {reason}")]
pub struct PlotError {
    plot: String,
    reason: String,
}

impl Plot {
    /// Draws these panels one below the other.
    fn drawn(
        id: &str,
        title: &str,
        description: String,
        table: Table,
        panels: Vec<Panel>,
    ) -> Result<Option<Self>, PlotError> {
        let drawings = draw(id, panels)?;
        Ok(Some(Self { id: id.to_owned(), title: title.to_owned(), description, table, drawings }))
    }

    /// The drawing as an SVG file of its own that follows the reader's theme.
    pub fn standalone_svg(&self) -> String {
        let [drawing, _] = &self.drawings;
        // Its size where the page that shows it says none.
        let [width, height] = [drawing.width, drawing.height].map(|units| units / UNITS_A_PIXEL);
        let mut attributes = Markup::default();
        attributes.raw(" width=\"").text(&width.to_string()).raw("\" height=\"").text(&height.to_string());
        attributes.raw("\" xmlns=\"http://www.w3.org/2000/svg\"");
        let mut style = Markup::default();
        style.raw("<style>").markup(&Markup::from_backend(plot_stylesheet())).raw("</style>\n");
        self.svg(drawing, "", &attributes, &style).into_string()
    }

    /// The drawing as `svg` elements without their own style, for pages that hold
    /// [`stylesheet`](super::stylesheet): for wide pages, then for narrow ones. The style shows one of them.
    pub fn inline_svgs(&self) -> [String; 2] {
        let none = Markup::default();
        let [wide, narrow] = &self.drawings;
        [(wide, "wide"), (narrow, "narrow")]
            .map(|(drawing, width)| self.svg(drawing, width, &none, &none).into_string())
    }

    /// One drawing; `width` names the pages it is for, if not all.
    fn svg(&self, drawing: &Drawing, width: &str, attributes: &Markup, style: &Markup) -> Markup {
        let id = if width == "narrow" { format!("{}-narrow", self.id) } else { self.id.clone() };
        let class = if width.is_empty() { String::new() } else { format!(" kv-{width}") };
        let mut out = Markup::default();
        out.raw("<svg class=\"kv-plot").text(&class).raw("\" role=\"img\" aria-labelledby=\"");
        out.text(&id).raw("-title ").text(&id).raw("-desc\" viewBox=\"0 0 ");
        out.text(&drawing.width.to_string()).raw(" ").text(&drawing.height.to_string()).raw("\"");
        out.markup(attributes).raw(">\n");
        out.raw("<title id=\"").text(&id).element("-title\">", &self.title, "</title>\n");
        out.raw("<desc id=\"").text(&id).element("-desc\">", &self.description, "</desc>\n");
        out.markup(style).markup(&drawing.shapes).raw("</svg>\n");
        out
    }
}
