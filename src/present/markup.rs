//! HTML in which only the program's own text can be markup.
//!
//! [`Markup::raw`] takes literals alone; whatever comes from data goes through [`Markup::text`], so a
//! hostile pool or file name is shown and never interpreted.

use crate::present::words::visible;

/// Longest text shown of one value, in characters; longer ones end in an ellipsis.
const MAX_CHARS: usize = 300;

/// HTML or SVG under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(String);

impl Markup {
    /// Appends markup written in the program's source.
    pub(crate) fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Appends text, escaped for element content and for quoted attribute values.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        push_escaped(&mut self.0, text);
        self
    }

    /// Appends a quoted attribute's value in full, however long: for what a program reads back.
    pub(crate) fn attribute(&mut self, value: &str) -> &mut Self {
        value.chars().for_each(|character| push_character(&mut self.0, character));
        self
    }

    /// Appends an opened and closed element around text.
    pub(crate) fn element(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    /// Appends finished markup.
    pub(crate) fn markup(&mut self, other: &Markup) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// Appends several pieces of finished markup.
    pub(crate) fn all(&mut self, others: impl IntoIterator<Item = Markup>) -> &mut Self {
        others.into_iter().for_each(|other| self.0.push_str(&other.0));
        self
    }

    /// Takes markup that a drawing backend wrote, which escapes its texts itself.
    pub(crate) fn from_backend(svg: String) -> Self {
        Self(svg)
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

fn push_escaped(out: &mut String, text: &str) {
    text.chars().take(MAX_CHARS).for_each(|character| push_character(out, character));
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push('…');
    }
}

fn push_character(out: &mut String, character: char) {
    match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        other => out.push(visible(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut markup = Markup::default();
        markup.text(text);
        markup.into_string()
    }

    #[test]
    fn an_attribute_is_escaped_and_whole_however_long() {
        let mut markup = Markup::default();
        markup.attribute(&("\"'".to_owned() + &"a".repeat(2 * MAX_CHARS)));
        assert_eq!(markup.into_string(), "&quot;&#39;".to_owned() + &"a".repeat(2 * MAX_CHARS));
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<b a='x' b=\"y\">&"), "&lt;b a=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
        assert_eq!(escaped("&amp;"), "&amp;amp;", "what is escaped already is data too");
    }

    #[test]
    fn text_cannot_hide_or_reorder_what_follows() {
        assert_eq!(escaped("a\u{0}b\u{202e}c\u{1b}[1m"), "a\u{fffd}b\u{fffd}c\u{fffd}[1m");
        assert_eq!(escaped("two\nlines"), "two lines");
    }

    #[test]
    fn endless_text_is_cut() {
        let cut = escaped(&"x".repeat(10_000));
        assert_eq!(cut.chars().count(), MAX_CHARS + 1);
        assert!(cut.ends_with('…'));
    }
}
