//! What standard output is written to: how wide it is, and whether it shows colours.

use std::io::{self, IsTerminal as _};
use terminal_size::{Width, terminal_size_of};

/// Where a result is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terminal {
    /// Columns of the terminal; `None` where nobody looks at one, and then nothing is left out.
    pub width: Option<usize>,
    /// It shows colours, and nobody requested none.
    pub colour: bool,
}

impl Terminal {
    /// What standard output is.
    pub fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::default();
        }
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = terminal_size_of(&stdout).map(|(Width(columns), _)| usize::from(columns));
        Self { width: width.filter(|columns| *columns > 0), colour: !dumb && !set("NO_COLOR") }
    }

    /// A paragraph, broken between words where the terminal ends.
    pub fn paragraph(&self, text: &str) -> String {
        let Some(width) = self.width else { return format!("{text}\n") };
        let mut lines = String::new();
        let mut used = 0;
        for word in text.split(' ') {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > width {
                lines.push('\n');
                used = 0;
            } else if used > 0 {
                lines.push(' ');
                used += 1;
            }
            lines.push_str(word);
            used += length;
        }
        lines.push('\n');
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_break_between_words_and_only_where_there_is_a_width() {
        let text = "one two three four";
        let narrow = Terminal { width: Some(9), colour: false };
        assert_eq!(narrow.paragraph(text), "one two\nthree\nfour\n");
        assert_eq!(Terminal::default().paragraph(text), "one two three four\n");
        assert_eq!(Terminal { width: Some(2), colour: false }.paragraph("long"), "long\n");
    }
}
