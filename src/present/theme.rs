//! Colours and style: one palette a theme, chosen by the reader's preference, light on paper.
//!
//! Series colours are Okabe and Ito's, which stay apart for colour-blind readers; lines also differ by
//! their dashes. Plots carry class names only, so that one drawing serves every theme.

/// Drawing units a pixel, in plots.
pub(crate) const UNITS_A_PIXEL: i32 = 4;

/// What a mark in a plot is for; decides its colour and its dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Muted,
    Grid,
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Sixth,
    /// What the series are measured against: unlimited capacity, never evicting.
    Reference,
}

impl Ink {
    pub(crate) const ALL: [Ink; 10] = [
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::First,
        Ink::Second,
        Ink::Third,
        Ink::Fourth,
        Ink::Fifth,
        Ink::Sixth,
        Ink::Reference,
    ];

    /// The ink of the series at `index`; they repeat after the fifth.
    pub(crate) fn series(index: usize) -> Ink {
        [Ink::First, Ink::Second, Ink::Third, Ink::Fourth, Ink::Fifth][index % 5]
    }

    /// Its name in class names and custom properties, its colours in the light theme (and on paper) and in the dark one,
    /// and its dashes in pixels of the finished plot; none for a solid line.
    fn look(self) -> (&'static str, [&'static str; 2], &'static [u32]) {
        match self {
            Ink::Text => ("text", ["#1b1f24", "#e6e9ed"], &[]),
            Ink::Muted => ("muted", ["#57606a", "#a3acb6"], &[]),
            Ink::Grid => ("grid", ["#dfe3e8", "#2f353d"], &[]),
            Ink::First => ("first", ["#0072b2", "#56b4e9"], &[]),
            Ink::Second => ("second", ["#d55e00", "#ff8c42"], &[9, 4]),
            Ink::Third => ("third", ["#009e73", "#2cc295"], &[2, 3]),
            Ink::Fourth => ("fourth", ["#b5578f", "#dd9dc2"], &[10, 3, 2, 3]),
            Ink::Fifth => ("fifth", ["#b27b00", "#f0e442"], &[5, 3]),
            Ink::Sixth => ("sixth", ["#7b4fb5", "#c3a6f5"], &[12, 3, 2, 3, 2, 3]),
            Ink::Reference => ("reference", ["#57606a", "#a3acb6"], &[4, 4]),
        }
    }

    /// Its name in class names and custom properties.
    pub(crate) fn name(self) -> &'static str {
        self.look().0
    }

    fn light(self) -> &'static str {
        self.look().1[0]
    }

    fn dark(self) -> &'static str {
        self.look().1[1]
    }

    fn dashes(self) -> &'static [u32] {
        self.look().2
    }
}

/// The custom properties of both themes and the classes plots use, for any page that shows plots.
/// `scale` is the number of drawing units a pixel.
fn plot_rules(scale: u32) -> String {
    let properties = |color: fn(Ink) -> &'static str| -> String {
        Ink::ALL.iter().map(|ink| format!("--kv-{}:{};", ink.name(), color(*ink))).collect()
    };
    let mut css = format!(
        ":root{{color-scheme:light dark;--kv-page:#ffffff;--kv-card:#f6f8fa;{}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root{{--kv-page:#14171b;--kv-card:#1d2127;{}}}}}\n\
         .kv-plot{{display:block;width:100%;height:auto;font-family:var(--kv-font)}}\n\
         .kv-narrow{{display:none}}\n\
         @media screen and (max-width:40rem){{.kv-wide{{display:none}}.kv-narrow{{display:block}}}}\n",
        properties(Ink::light),
        properties(Ink::dark)
    );
    for ink in Ink::ALL {
        let name = ink.name();
        let dashes: Vec<_> = ink.dashes().iter().map(|dash| (dash * scale).to_string()).collect();
        let dashes = match dashes.is_empty() {
            true => String::new(),
            false => format!(";stroke-dasharray:{}", dashes.join(" ")),
        };
        css += &format!(
            ".kv-fill-{name}{{fill:var(--kv-{name})}}.kv-line-{name}{{stroke:var(--kv-{name}){dashes};stroke-linejoin:round}}\n"
        );
    }
    css
}

/// The style sheet of a plot that stands alone.
pub(crate) fn plot_stylesheet() -> String {
    let font =
        ":root{--kv-font:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}\n";
    plot_rules(UNITS_A_PIXEL as u32) + font + "svg{background:var(--kv-page)}"
}

/// The whole style sheet of the report: plots and page. Live pages that embed plots may use it too.
pub fn stylesheet() -> String {
    plot_rules(UNITS_A_PIXEL as u32) + include_str!("page.css")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2) of `#rrggbb`.
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let value = u8::from_str_radix(&color[at..at + 2], 16).expect("a colour");
            let share = f64::from(value) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_lines_stand_out_in_both_themes() {
        for (color, page, card) in [
            (Ink::light as fn(Ink) -> &'static str, "#ffffff", "#f6f8fa"),
            (Ink::dark as fn(Ink) -> &'static str, "#14171b", "#1d2127"),
        ] {
            assert!(stylesheet().contains(page) && stylesheet().contains(card));
            for ink in Ink::ALL {
                let needed = match ink {
                    Ink::Text | Ink::Muted => 4.5,
                    Ink::Grid => 1.0,
                    _ => 3.0,
                };
                for ground in [page, card] {
                    let found = contrast(color(ink), ground);
                    assert!(found >= needed, "{ink:?} on {ground}: {found:.2}");
                }
            }
            // Links and summaries are text in the first series' colour.
            assert!(contrast(color(Ink::First), page) >= 4.5);
        }
    }
}
