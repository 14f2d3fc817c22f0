//! Texts that are not what the engine was given: masked before they were logged, cut off, or left out.
//!
//! A mask is told by what it is, not by who wrote it: a word in brackets for the whole of a text or for a name in it,
//! stars, a digest; a cut by how the text ends, or by a note where its middle was. Where masks are all alike, prompts
//! share what the engine's did not; where texts are cut, what followed is neither in their length nor in what they
//! share.

use super::fields::ObjectFields;
use super::remarks::ChatRemarks;
use aho_corasick::packed::Searcher;
use kvset_core::request::longest::Longest;
use kvset_core::units::names::listed;
use minijinja::Value;
use minijinja::value::ValueKind;
use std::sync::LazyLock;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The longest mask, in bytes.
const LONGEST_MASK: usize = 160;
/// How much of a text's end says that it was cut, in bytes.
const END_BYTES: usize = 64;
/// The shortest text that may trail off because it was cut.
const TRAILING_BYTES: usize = 200;
/// Parts of words for what was masked, in small letters.
const MASKS: [&str; 15] = [
    "redact",
    "mask",
    "hidden",
    "filtered",
    "removed",
    "omitted",
    "scrubbed",
    "anonymi",
    "sanitiz",
    "sensitive",
    "private",
    "stripped",
    "suppressed",
    "elided",
    "not logged",
];
/// The same for what was cut.
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
/// Texts that say that there is none.
const PLACEHOLDERS: [&str; 6] = ["n/a", "null", "undefined", "nan", "<none>", "…"];
/// The shortest text that may be one in a code, and the longest single word of a language.
const CODE_BYTES: usize = 64;

/// What the texts of messages show of how they were logged, of a request that asks to go on with the last one or not.
pub(super) fn of(messages: &[ObjectFields], goes_on: bool) -> ChatRemarks {
    let mut remarks = ChatRemarks {
        answered: u64::from(!goes_on && messages.last().is_some_and(is_answer)),
        asked: conversation_digest(messages),
        opening: opening_digest(messages),
        lone: u64::from(is_lone(messages)),
        ..ChatRemarks::default()
    };
    for message in messages {
        let role = message.role();
        let Some(content) = message.get("content") else { continue };
        each_text(content, &mut |text| {
            remarks.texts += 1;
            remarks.longest.add(&longest_of(text));
            remarks.masked_texts += u64::from(is_masked(text) || is_coded(text));
            match cut_of(text) {
                // Agents cut the output of tools by themselves, and the engine saw it so.
                Some(Cut::Noted) if is_of_tool(role) => {}
                Some(Cut::TrailsOff) => remarks.trailing.add(text.len()),
                Some(_) => remarks.cut_texts += 1,
                None => {}
            }
            remarks.long_texts += u64::from(text.len() >= TRAILING_BYTES);
            remarks.empty_texts +=
                u64::from(text.is_empty() && ["system", "user", "developer"].contains(&role));
        });
    }
    let asked = messages.iter().rev().find(|message| message.role() == "user");
    let asked = asked.and_then(|message| message.get("content"));
    asked.into_iter().for_each(|content| {
        each_text(content, &mut |text| remarks.stand_ins |= u64::from(has_stand_in(text)));
    });
    let others = remarks.texts - remarks.masked_texts;
    remarks.masked_texts +=
        ["user", "assistant"].map(|role| repeated(messages, role)).iter().sum::<u64>().min(others);
    remarks
}

/// The length of a text, in characters.
pub(super) fn longest_of(text: &str) -> Longest {
    Longest::of(text.chars().count(), xxh3_64(text.as_bytes()))
}

/// Whether a message is an assistant's answer: a few words in its place begin one (`{`), and change little.
fn is_answer(message: &ObjectFields) -> bool {
    const FEW_BYTES: usize = 32;
    let says_much = |content: &Value| content.as_str().is_none_or(|text| text.trim().len() > FEW_BYTES);
    message.role() == "assistant" && message.get("content").is_none_or(says_much)
}

/// A digest of what was said but by a system, up to the last that no assistant said, without the white space around
/// texts; nothing where nobody says anything.
fn conversation_digest(messages: &[ObjectFields]) -> Option<u64> {
    let is_of = |message: &&ObjectFields, roles: &[&str]| roles.contains(&message.role());
    let end =
        messages.iter().rposition(|message| !is_of(&message, &["assistant"])).map_or(0, |last| last + 1);
    let mut digest = Xxh3::new();
    for message in messages[..end].iter().filter(|message| !is_of(message, &["system", "developer"])) {
        let texts = message.get("content").into_iter();
        texts.for_each(|content| each_text(content, &mut |text| digest.update(text.trim().as_bytes())));
        digest.update(&[0]);
    }
    let is_said = messages[..end].iter().any(|message| is_of(&message, &["user"]));
    is_said.then(|| digest.digest())
}

/// A digest of what a user said first; nothing where nobody did.
fn opening_digest(messages: &[ObjectFields]) -> Option<u64> {
    let mut digest = Xxh3::new();
    let first = messages.iter().find(|message| message.role() == "user")?;
    each_text(first.get("content")?, &mut |text| digest.update(text.as_bytes()));
    Some(digest.digest())
}

/// Whether a user says one thing, and nobody else but a system anything.
fn is_lone(messages: &[ObjectFields]) -> bool {
    let roles = messages.iter().map(ObjectFields::role);
    let others: Vec<_> = roles.filter(|role| !["system", "developer"].contains(role)).collect();
    others == ["user"]
}

/// Texts of a role where all of them are one and the same: nobody says one thing in every turn.
fn repeated(messages: &[ObjectFields], role: &str) -> u64 {
    const FEWEST: usize = 3;
    let own = messages.iter().filter(|message| message.role() == role);
    let texts: Vec<&str> = own.filter_map(|message| message.get("content")?.as_str()).collect();
    let is_one =
        texts.windows(2).all(|pair| pair[0] == pair[1]) && texts.first().is_some_and(|text| !is_masked(text));
    if texts.len() >= FEWEST && is_one { texts.len() as u64 } else { 0 }
}

/// Whether any message says something: by a text, by calls, or by something else that is refused where it is read.
pub(super) fn says_something(messages: &[ObjectFields]) -> bool {
    messages.is_empty()
        || messages.iter().any(|message| {
            let others =
                message.0.iter().filter(|(name, _)| !["role", "name", "id"].contains(&name.as_str()));
            others.into_iter().any(|(_, value)| value.is_true())
        })
}

fn each_text(content: &Value, look: &mut dyn FnMut(&str)) {
    if let Some(text) = content.as_str() {
        look(text);
    } else if content.kind() == ValueKind::Seq {
        for part in content.try_iter().into_iter().flatten() {
            let text = part.get_attr("text").ok().filter(|text| text.as_str().is_some()).unwrap_or(part);
            text.as_str().into_iter().for_each(&mut *look);
        }
    }
}

/// Whether something stands for the whole of a text.
fn is_masked(text: &str) -> bool {
    let text = text.trim();
    if is_filled(text) {
        return true;
    }
    if text.is_empty() || text.len() > LONGEST_MASK {
        return false;
    }
    let is_bracketed = text.starts_with(['[', '<', '(', '{', '*', '_', '#'])
        && text.ends_with([']', '>', ')', '}', '*', '_', '#']);
    let is_word = text.split_whitespace().count() <= 3 && text.chars().all(|c| !c.is_lowercase());
    let is_label = !text.contains(char::is_whitespace) && text.contains(['-', '_', ':']);
    let lower = text.to_lowercase();
    let names_mask = (is_bracketed || is_word || is_label) && MASKS.iter().any(|mask| lower.contains(mask));
    let counts_chars = is_bracketed && text.contains(|c: char| c.is_ascii_digit()) && lower.contains("char");
    names_mask || counts_chars || PLACEHOLDERS.contains(&lower.as_str()) || is_digest(&lower)
}

/// Whether one letter stands for each of a text, spaces kept or not.
fn is_filled(text: &str) -> bool {
    let mut letters = text.chars().filter(|c| !c.is_whitespace() && !".,;:!?".contains(*c));
    let first = letters.next().filter(|first| "*xX█•#-".contains(*first));
    text.len() >= 3 && first.is_some_and(|first| letters.all(|letter| letter.eq_ignore_ascii_case(&first)))
}

/// Whether a text is another in a code, encrypted or encoded: one long word of letters of both cases and digits.
fn is_coded(text: &str) -> bool {
    let text = text.trim();
    let word = text.split_once('[').filter(|(kind, _)| kind.len() <= 8).map_or(text, |(_, inner)| inner);
    let word = word.trim_end_matches(']');
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    word.len() >= CODE_BYTES
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-,:.".contains(&byte))
        && !word.contains("://")
}

/// How a text shows that it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// By a note that anybody may have written.
    Noted,
    /// By a note of a program that logs: `litellm_truncated`.
    Logged,
    /// By an end that trails off, as sentences of users do.
    TrailsOff,
}

fn cut_of(text: &str) -> Option<Cut> {
    match left_out(text) {
        None if is_cut(text) => Some(Cut::Noted),
        None => trails_off(text).then_some(Cut::TrailsOff),
        found => found,
    }
}

fn is_of_tool(role: &str) -> bool {
    matches!(role, "tool" | "function")
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

/// Whether a name or a picture in a text was replaced by what stands for any: `<PERSON>`, `[EMAIL_1]`,
/// `[Image omitted]`.
fn has_stand_in(text: &str) -> bool {
    const LONGEST: usize = 48;
    let opens = text.match_indices(['<', '[', '{']);
    opens.into_iter().any(|(at, _)| {
        let inner = text[at + 1..].trim_start_matches('{');
        let inner = inner
            .find(['>', ']', '}', '\n', '<', '['])
            .filter(|end| *end <= LONGEST)
            .map(|end| &inner[..end]);
        inner.is_some_and(|inner| is_entity(inner) || is_mask_word(inner)) && !text[at..].starts_with("</")
    })
}

/// Whether a name in capitals is of what identifies somebody.
fn is_entity(name: &str) -> bool {
    const ENTITIES: [&str; 32] = listed(
        "PERSON NAME EMAIL PHONE ADDRESS LOCATION CITY COUNTRY STREET DATE DOB BIRTH SSN IBAN CARD CREDIT ACCOUNT URL IP \
            ID PASSPORT LICENSE ORGANIZATION ORG COMPANY USERNAME PASSWORD SECRET KEY NRP CRYPTO PII",
    );
    let is_name =
        name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_- ".contains(&byte));
    is_name && name.split(['_', '-', ' ']).any(|word| ENTITIES.contains(&word))
}

/// Whether a few words say that something was taken out.
fn is_mask_word(words: &str) -> bool {
    const WORDS: [&str; 7] = listed("redact mask omitted removed scrubbed anonymi hidden");
    let lower = words.to_lowercase();
    words.split_whitespace().count() <= 4
        && !words.contains(['=', '"', '/'])
        && WORDS.iter().any(|word| lower.contains(word))
}

/// Whether a text is the digest of another: `sha256:` or so and hexadecimal digits.
fn is_digest(text: &str) -> bool {
    let digits = text.rsplit([':', '=']).next().unwrap_or_default();
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(digits.len(), 32 | 40 | 64 | 96 | 128) && is_hex(digits)
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
    fn masks_are_told_by_what_they_are() {
        for text in [
            "[REDACTED]",
            "<redacted>",
            "***",
            "REDACTED",
            "[content removed by policy]",
            "xxxxxxxx",
            "[PII_MASKED]",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "████",
            "redacted-by-litellm",
            "N/A",
            "…",
            "Xxx xx, xxxxxx.",
            "<154 chars>",
        ] {
            assert!(is_masked(text), "{text}");
        }
        let code = "Q2luIG5lIHpvciB6b3JmYSB0ZXIgYmFmYSBkcmFiYSBodW1uZXByYSB0ZXJ0aWtiYSBiYSBi";
        assert!(is_coded(code) && is_coded(&format!("ENC[v1,{code}]")) && is_coded(&format!("{code}==")));
        for text in ["https://example.org/A1/".repeat(9).as_str(), &"a word ".repeat(40), &"ab".repeat(99)] {
            assert!(!is_coded(text), "{text}");
        }
        for text in [
            "",
            "x",
            "ok",
            "Remove the hidden file.",
            "[1, 2]",
            "(yes)",
            "What is a mask?",
            "redact this, please",
            "--",
        ] {
            assert!(!is_masked(text), "{text}");
        }
    }

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

    /// Masks made the prompts of different users one.
    #[test]
    fn stand_ins_of_names_and_pictures_are_recognised() {
        for text in [
            "I am <PERSON> and live here.",
            "Mail [EMAIL_1], please.",
            "[Image omitted] What is it?",
            "See data:image/png;base64,<omitted> there.",
            "Card {{CREDIT_CARD}} of [REDACTED_NAME_3].",
        ] {
            assert!(has_stand_in(text), "{text}");
        }
        for text in [
            "<div>[INFO] a[0] {x}</div>",
            "<INSTRUCTIONS>Be brief.</INSTRUCTIONS>",
            "[INST] [TODO] <EOS>",
            "if (a < b) [1] {\"hidden\": 1}",
            "<input type=\"hidden\">",
        ] {
            assert!(!has_stand_in(text), "{text}");
        }
    }
}
