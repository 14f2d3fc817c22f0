//! Texts that are not what the engine was given: masked before they were logged, cut off, or left out.
//!
//! A mask is told by what it is, not by who wrote it: a word in brackets for the whole of a text, stars, a digest; a
//! cut by how the text ends. Where masks are all alike, prompts share what the engine's did not; where texts are cut,
//! what followed is neither in their length nor in what they share.

use super::fields::ObjectFields;
use super::longest::LongestTexts;
use super::remarks::ChatRemarks;
use minijinja::Value;
use minijinja::value::ValueKind;
use xxhash_rust::xxh3::Xxh3;

/// The longest mask, in bytes.
const LONGEST_MASK: usize = 160;
/// How much of a text's end says that it was cut, in bytes.
const END_BYTES: usize = 64;
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
        lone: u64::from(is_lone(messages)),
        ..ChatRemarks::default()
    };
    for message in messages {
        let role = message.role();
        let Some(content) = message.get("content") else { continue };
        each_text(content, &mut |text| {
            remarks.texts += 1;
            remarks.longest.add(&LongestTexts::of(text));
            remarks.masked_texts += u64::from(is_masked(text) || is_coded(text));
            remarks.cut_texts += u64::from(is_cut(text) || lacks_its_middle(text));
            remarks.empty_texts +=
                u64::from(text.is_empty() && ["system", "user", "developer"].contains(&role));
        });
    }
    let others = remarks.texts - remarks.masked_texts;
    remarks.masked_texts +=
        ["user", "assistant"].map(|role| repeated(messages, role)).iter().sum::<u64>().min(others);
    remarks
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

/// Whether a note stands where the middle of a text was left out: `<529 characters omitted>`.
fn lacks_its_middle(text: &str) -> bool {
    const LEFT_OUT: [&str; 4] = ["omitted", "truncated", "elided", "removed"];
    const NOTE_BYTES: usize = 48;
    LEFT_OUT.iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let begin = (at.saturating_sub(NOTE_BYTES)..at).find(|begin| text.is_char_boundary(*begin));
            let note = begin.map_or("", |begin| &text[begin..at]);
            let note = note.rfind(['<', '[', '(', '{']).map_or("", |open| &note[open..]);
            let is_of = ["char", "byte", "token", "line", "word"].iter().any(|unit| note.contains(unit));
            is_of && note.contains(|c: char| c.is_ascii_digit())
        })
    })
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
    if CUTS.iter().any(|cut| end.contains(cut)) && end.ends_with([']', ')', '>', '.', '…', '}', '*', 's']) {
        return true;
    }
    // A sentence that trails off ends in a word.
    let trimmed = end.strip_suffix("...").or_else(|| end.strip_suffix('…'));
    text.len() >= 200 && trimmed.is_some_and(|rest| rest.ends_with(char::is_alphanumeric))
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
            format!("{long}mil..."),
            format!("{long}mil…"),
            "short… [truncated]".to_owned(),
            format!("{long}[This value has been dropped because it exceeds the size limit.]"),
        ] {
            assert!(is_cut(&text), "{text}");
        }
        assert!(lacks_its_middle("It begins <529 characters omitted> and ends."));
        assert!(!lacks_its_middle("He omitted 5 words (of 12) and removed lines."));
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
}
