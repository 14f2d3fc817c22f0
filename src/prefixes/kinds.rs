//! What two texts differ in, by how it looks.

use serde::Serialize;
use std::ops::Range;

/// What stands in a place at which prompts part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartingKind {
    /// A time or a date.
    Time,
    /// A value that is another one in each request.
    Random,
    /// The same parts in another order.
    Order,
    /// A value that several requests have, such as those of a session, and others not.
    Salt,
    /// Another text.
    Text,
}

impl PartingKind {
    /// The name for people, which the JSON has, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Random => "random",
            Self::Order => "order",
            Self::Salt => "salt",
            Self::Text => "text",
        }
    }

    /// What it is, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Time => "looks like a time",
            Self::Random => "looks random, another one in each request",
            Self::Order => "the same in another order",
            Self::Salt => "looks like the name of a session or user, or a salt",
            Self::Text => "another text",
        }
    }
}

/// The bytes in which one text differs from another: between what both begin and what both end with, whole words.
pub fn differing(one: &str, other: &str) -> Range<usize> {
    let begin: usize =
        one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let rest = one[begin..].chars().rev().zip(other[begin..].chars().rev());
    let end = one.len() - rest.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum::<usize>();
    let is_word = |c: &char| c.is_alphanumeric() || ":-_./+".contains(*c);
    let left: usize = one[..begin].chars().rev().take_while(is_word).map(char::len_utf8).sum();
    let right: usize = one[end..].chars().take_while(is_word).map(char::len_utf8).sum();
    begin - left..end + right
}

/// What two texts differ in; `uses` is how many requests have the same text there, on average.
pub fn kind_of(one: &str, other: &str, uses: f64) -> PartingKind {
    let spans = [(one, differing(one, other)), (other, differing(other, one))];
    let [a, b] = spans.clone().map(|(text, span)| text[span].trim().to_owned());
    if is_reordered(&a, &b) || is_reordered(one, other) {
        return PartingKind::Order;
    }
    let is_time = |(text, span): &(&str, Range<usize>)| looks_like_time(text, span.clone());
    if spans.iter().all(is_time) {
        return PartingKind::Time;
    }
    let is_value = |text: &str| looks_like_value(text);
    // One side may have none at all.
    if (is_value(&a) || a.is_empty()) && (is_value(&b) || b.is_empty()) && !(a.is_empty() && b.is_empty()) {
        return if uses >= 1.5 || names_salt(one, &spans[0].1) {
            PartingKind::Salt
        } else {
            PartingKind::Random
        };
    }
    PartingKind::Text
}

/// Whether both have the same pieces: lines, else items of a list, else words.
fn is_reordered(one: &str, other: &str) -> bool {
    let sorted = |text: &str, split: fn(char) -> bool| {
        let mut pieces: Vec<String> = text
            .split(split)
            .map(|piece| piece.trim().to_owned())
            .filter(|piece| !piece.is_empty())
            .collect();
        pieces.sort();
        pieces
    };
    let splits: [fn(char) -> bool; 3] = [|c| c == '\n', |c| ",;".contains(c), char::is_whitespace];
    one != other
        && splits.into_iter().any(|split| {
            let pieces = sorted(one, split);
            pieces.len() > 1 && pieces == sorted(other, split)
        })
}

const MONTHS_AND_DAYS: [&str; 19] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon", "tue", "wed",
    "thu", "fri", "sat", "sun",
];

/// Words in front of a time.
const TIME_WORDS: [&str; 9] = ["time", "date", "now", "clock", "today", "stamp", "hour", "utc", "it is"];

/// Words in front of a value that a client makes up.
const SALT_WORDS: [&str; 3] = ["salt", "session", "user"];

/// Bytes around a place that are looked at.
const AROUND: usize = 32;

fn around(text: &str, span: &Range<usize>) -> (String, String) {
    let from =
        (0..=span.start.saturating_sub(AROUND)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end = (span.end + AROUND).min(text.len());
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    (text[from..span.start].to_lowercase(), text[span.end..end].to_lowercase())
}

fn looks_like_time(text: &str, span: Range<usize>) -> bool {
    // A time that is cut by what both have is whole with the words around it.
    let (before, behind) = around(text, &span);
    let own = text[span].to_lowercase();
    let digits = own.bytes().filter(u8::is_ascii_digit).count();
    let words: Vec<&str> =
        own.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_named = |word: &&str| {
        MONTHS_AND_DAYS.iter().any(|name| word.starts_with(name)) && word.len() <= "wednesday".len()
    };
    let is_number = |word: &&str| {
        let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit() || c == b't')
    };
    let suffixes = ["am", "pm", "utc", "gmt", "cet", "z"];
    // Whatever is in it is of a time: no sentence has a chance.
    if words.is_empty()
        || !words.iter().all(|word| is_named(word) || is_number(word) || suffixes.contains(word))
    {
        return false;
    }
    let joined = |mark: char| {
        let bytes = own.as_bytes();
        own.match_indices(mark).any(|(at, _)| {
            at > 0 && bytes[at - 1].is_ascii_digit() && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
        })
    };
    let is_epoch =
        words.iter().any(|word| [10, 13, 16, 19].contains(&word.len()) && word.starts_with(['1', '2']))
            && words.iter().all(|word| word.bytes().all(|c| c.is_ascii_digit()));
    let is_date = own.matches('-').count() >= 2 || own.matches('/').count() >= 2;
    joined(':')
        || (is_date && digits >= 4)
        || is_epoch
        || words.iter().any(is_named)
        || (digits > 0 && TIME_WORDS.iter().any(|word| before.contains(word)))
        || (digits > 0 && MONTHS_AND_DAYS.iter().any(|name| behind.trim_start().starts_with(name)))
}

/// Whether it is one word with digits in it, or a long one of no language.
fn looks_like_value(text: &str) -> bool {
    let text = text.trim_matches(|c: char| !c.is_alphanumeric());
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    !text.is_empty()
        && !text.contains(char::is_whitespace)
        && (text.bytes().any(|c| c.is_ascii_digit())
            || (text.len() >= 8 && text.chars().all(is_hex))
            || (text.len() >= 12
                && text.chars().any(char::is_uppercase)
                && text.chars().any(char::is_lowercase)))
}

fn names_salt(text: &str, span: &Range<usize>) -> bool {
    let (before, _) = around(text, span);
    SALT_WORDS.iter().any(|word| before.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(one: &str, other: &str, uses: f64) -> PartingKind {
        assert_eq!(kind_of(one, other, uses), kind_of(other, one, uses), "{one} | {other}");
        kind_of(one, other, uses)
    }

    #[test]
    fn clocks_of_many_shapes_are_times() {
        for (one, other) in [
            ("It is 2026-03-01T10:15:03Z. Be kind.", "It is 2026-03-01T10:16:44Z. Be kind."),
            ("Now: 10:15. Be kind.", "Now: 9:59. Be kind."),
            ("Today is Monday, March 2. Be kind.", "Today is Friday, May 13. Be kind."),
            ("Current date: 02/03/2026\nBe kind.", "Current date: 14/11/2026\nBe kind."),
            ("[1764000000] Be kind.", "[1764003661] Be kind."),
            ("timestamp=1764000000123; be kind", "timestamp=1764000999456; be kind"),
            ("Current time: 2026-03-01 10:15:03 UTC", "Current time: 2026-04-11 07:02:59 UTC"),
        ] {
            assert_eq!(kind(one, other, 1.0), PartingKind::Time, "{one}");
        }
    }

    #[test]
    fn values_are_random_where_each_request_has_its_own_and_salts_where_several_share_one() {
        for (one, other) in [
            ("Trace 7f3a9c2e11d04b5f. Be kind.", "Trace 0b44e1aa90c35d7e. Be kind."),
            ("id: 3f2504e0-4f89-41d3-9a0c-0305e82c3301", "id: 9b2d04e0-1f89-61d3-8a0c-9905e82c33ff"),
            ("Request 17 of today's", "Request 4811 of today's"),
        ] {
            assert_eq!(kind(one, other, 1.0), PartingKind::Random, "{one}");
            assert_eq!(kind(one, other, 6.0), PartingKind::Salt, "{one}");
        }
        assert_eq!(kind("salt: a81b Be", "salt: 77ce Be", 1.0), PartingKind::Salt);
    }

    #[test]
    fn the_same_pieces_in_another_order_are_an_order() {
        assert_eq!(
            kind("Tools:\n- a b\n- c\n- d e\n", "Tools:\n- d e\n- a b\n- c\n", 1.0),
            PartingKind::Order
        );
        assert_eq!(kind("Use read, write, search.", "Use search, read, write.", 1.0), PartingKind::Text);
        assert_eq!(
            kind("Use read, write, search; ok", "Use search, read, write; ok", 1.0),
            PartingKind::Order
        );
    }

    #[test]
    fn sentences_are_texts() {
        for (one, other) in [
            ("You help cooks.", "You help sailors at sea."),
            ("May I help you with a match?", "May they march on Sunday?"),
            ("Think. Answer: 7 boats", "Answer: 7 boats"),
        ] {
            assert_eq!(kind(one, other, 1.0), PartingKind::Text, "{one}");
        }
    }

    #[test]
    fn any_two_texts_have_a_kind() {
        for one in ["", "é", "1", "a:1", "\u{1f600}x", "ß12:3"] {
            for other in ["", "éé", "2", "a:2", "\u{1f601}x", "ß12:4"] {
                kind_of(one, other, 1.0);
            }
        }
    }
}
