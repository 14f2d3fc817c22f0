//! Texts that were cut: by how they end, or by a note where their middle was.

use aho_corasick::packed::Searcher;
use kvset_core::units::names::listed;
use std::sync::LazyLock;

/// How much of a text's end says that it was cut, in bytes.
const END_BYTES: usize = 64;

/// The shortest text that may trail off because it was cut.
pub(super) const TRAILING_BYTES: usize = 200;

/// Parts of what is said where a text was cut, in small letters.
const CUTS: [&str; 11] = [
    "truncat",
    "cut off",
    "[cut",
    "(cut",
    "<cut",
    "more char",
    "more bytes",
    "more tokens",
    "[...]",
    "been dropped",
    "size limit",
];

/// How a text shows that it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// By a note that anybody may have written.
    Noted,
    /// By a note of a program that logs: `litellm_truncated`.
    Logged,
    /// By an end that trails off, as sentences of users do.
    TrailsOff,
}

pub(super) fn cut_of(text: &str) -> Option<Cut> {
    match left_out(text) {
        None if is_cut(text) => Some(Cut::Noted),
        None => trails_off(text).then_some(Cut::TrailsOff),
        found => found,
    }
}

/// What is said of what was left out.
const LEFT_OUT: [&str; 7] = listed("omitted truncated elided removed skipped clipped trimmed");

/// All of these at once, many bytes at a time, where the processor can.
static LEFT_OUT_WORDS: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(LEFT_OUT));

/// The note that stands where a part of a text was left out, with a number of what that was: `<529 characters omitted>`,
/// `... (litellm_truncated skipped 40 chars) ...`.
fn left_out(text: &str) -> Option<Cut> {
    const NOTE_BYTES: usize = 64;
    const UNITS: [&str; 5] = ["char", "byte", "token", "line", "word"];
    let words = LEFT_OUT_WORDS.as_ref()?;
    let notes = words.find_iter(text.as_bytes()).filter_map(|found| {
        let (start, end) = (found.start(), found.end());
        let from = (start.saturating_sub(NOTE_BYTES)..start).find(|at| text.is_char_boundary(*at));
        let to = (end..=(end + NOTE_BYTES).min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let (before, behind) = (&text[from.unwrap_or(start)..start], &text[end..to.unwrap_or(end)]);
        let open = before.rfind(['<', '[', '(', '{', '…'])?;
        let close = behind.find(['>', ']', ')', '}', '…']).unwrap_or(behind.len());
        let (before, behind) = (&before[open..], &behind[..close]);
        if before.contains(['>', ']', ')', '}']) {
            return None;
        }
        let is_of = UNITS.iter().any(|unit| before.contains(unit) || behind.contains(unit));
        let counts = [before, behind].iter().any(|part| part.contains(|c: char| c.is_ascii_digit()));
        let is_program = before.ends_with('_') || behind.starts_with('_');
        (is_of && counts).then_some(if is_program { Cut::Logged } else { Cut::Noted })
    });
    notes.max_by_key(|cut| *cut == Cut::Logged)
}

/// Whether a text ends as one does that was cut off.
fn is_cut(text: &str) -> bool {
    let start = text.len().saturating_sub(END_BYTES);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let end = text[start..].trim_end().to_lowercase();
    CUTS.iter().any(|cut| end.contains(cut)) && end.ends_with([']', ')', '>', '.', '…', '}', '*', 's'])
}

/// Whether a text of some length ends in dots behind a word.
fn trails_off(text: &str) -> bool {
    let end = text.trim_end();
    let trimmed = end.strip_suffix("...").or_else(|| end.strip_suffix('…'));
    text.len() >= TRAILING_BYTES && trimmed.is_some_and(|rest| rest.ends_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_told_by_how_a_text_ends() {
        let long = "a word ".repeat(40);
        for text in [
            format!("{long}mill...[truncated]"),
            format!("{long}(1234 more characters)"),
            "short… [truncated]".to_owned(),
            format!("{long}[This value has been dropped because it exceeds the size limit.]"),
        ] {
            assert!(is_cut(&text), "{text}");
        }
        assert!(trails_off(&format!("{long}mil...")) && trails_off(&format!("{long}mil…")));
        for text in [
            long.as_str(),
            "Go on...",
            "The path was cut off from the village in winter by the snow",
            "a [...] b",
            "",
        ] {
            assert!(!is_cut(text), "{text}");
        }
    }

    /// LiteLLM keeps the head and the tail of long texts by default: hit rates were of the two, without a word.
    #[test]
    fn a_note_of_a_cut_inside_a_text_is_recognised() {
        for (text, cut) in [
            ("It begins <529 characters omitted> and ends.", Cut::Noted),
            ("It begins ... (litellm_truncated skipped 40 chars. A safeguard.) ... and ends.", Cut::Logged),
            ("It begins […12 lines removed…] and ends.", Cut::Noted),
            ("It begins…132 tokens truncated…and ends.", Cut::Noted),
            ("It begins {log_trimmed: 40 bytes} and ends.", Cut::Logged),
        ] {
            assert_eq!(left_out(text), Some(cut), "{text}");
        }
        for text in
            ["He omitted 5 words (of 12) and removed lines.", "Lines (see 4) were trimmed.", "truncated"]
        {
            assert_eq!(left_out(text), None, "{text}");
        }
    }
}
