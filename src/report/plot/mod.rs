//! The plots: each a drawing with a title, a description and the table of its numbers.

mod axis;
mod curve;
mod distribution;
mod draw;
mod engines;
mod history;
mod layout;

pub use curve::capacity_curve;
pub use distribution::requirement_distribution;
pub(super) use draw::UNITS_A_PIXEL;
pub use engines::engine_curves;
pub use history::{capacity_history, traffic_history};

use super::markup::Markup;
use super::table::Table;
use super::theme::plot_stylesheet;

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
    drawing: draw::Drawing,
}

/// The drawing library refused a plot.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot `{plot}`: {reason}")]
pub struct PlotError {
    plot: String,
    reason: String,
}

impl Plot {
    /// The drawing as an `svg` element without its own style: for pages that hold
    /// [`stylesheet`](super::stylesheet).
    pub fn inline_svg(&self) -> String {
        self.markup(false).into_string()
    }

    /// The drawing as an SVG file of its own that follows the reader's theme.
    pub fn standalone_svg(&self) -> String {
        self.markup(true).into_string()
    }

    pub(super) fn markup(&self, standalone: bool) -> Markup {
        let mut out = Markup::default();
        out.raw("<svg class=\"kv-plot\" role=\"img\" aria-labelledby=\"").text(&self.id).raw("-title ");
        out.text(&self.id).raw("-desc\" viewBox=\"0 0 ").text(&self.drawing.width.to_string()).raw(" ");
        out.text(&self.drawing.height.to_string()).raw("\"");
        if standalone {
            // Its size where the page that shows it says none.
            let [width, height] =
                [self.drawing.width, self.drawing.height].map(|units| units / UNITS_A_PIXEL);
            out.raw(" width=\"").text(&width.to_string()).raw("\" height=\"").text(&height.to_string());
            out.raw("\" xmlns=\"http://www.w3.org/2000/svg\"");
        }
        out.raw(">\n<title id=\"").text(&self.id).element("-title\">", &self.title, "</title>\n");
        out.raw("<desc id=\"").text(&self.id).element("-desc\">", &self.description, "</desc>\n");
        if standalone {
            out.raw("<style>").markup(&Markup::from_backend(plot_stylesheet())).raw("</style>\n");
        }
        out.markup(&self.drawing.shapes).raw("</svg>\n");
        out
    }
}
