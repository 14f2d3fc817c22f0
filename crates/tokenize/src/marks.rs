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
/// Parts of what is said in brackets in the place of a text that was not kept.
const TELLS: [&str; 6] =
    ["too large", "too long", "binary", "not captured", "not available", "object object"];
/// The shortest text that may be one in a code, and the longest single word of a language.
const CODE_BYTES: usize = 64;

/// What the texts of messages show of how they were logged, of a request that asks to go on with the last one or not.
pub(super) fn of(messages: &[ObjectFields], goes_on: bool) -> ChatRemarks {
    let mut remarks = ChatRemarks {
        answered: u64::from(!goes_on && messages.last().is_some_and(is_answer)),
        asked: conversation_digest(messages),
        opening: opening_digest(messages),
        lone: u64::from(is_lone(messages)),
        headless: u64::from(is_headless(messages)),
        several: u64::from(messages.iter().filter(|message| message.role() == "assistant").count() > 1),
        ..ChatRemarks::default()
    };
    for message in messages {
        let role = message.role();
        let Some(content) = message.get("content") else { continue };
        each_text(content, &mut |text| {
            remarks.texts += 1;
            remarks.longest.add(&longest_of(text));
            remarks.masked_texts +=
                u64::from(is_masked(text) || is_coded(text) || (!is_of_tool(role) && lies_elsewhere(text)));
            remarks.coded_texts += u64::from(is_escaped(text));
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

/// What the text of a completion's prompt shows of how it was logged.
pub(super) fn of_completion(text: &str) -> ChatRemarks {
    ChatRemarks {
        completions: 1,
        longest: longest_of(text),
        stand_ins: u64::from(has_media_mark(text)),
        coded_texts: u64::from(is_escaped(text)),
        ..ChatRemarks::default()
    }
}

/// The length of a text, in characters.
fn longest_of(text: &str) -> Longest {
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

/// Whether something was answered, or a tool called, that no user of the chat asked for.
fn is_headless(messages: &[ObjectFields]) -> bool {
    let has = |roles: &[&str]| messages.iter().any(|message| roles.contains(&message.role()));
    has(&["assistant", "tool", "function"]) && !has(&["user"])
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
    let tells = is_bracketed && TELLS.iter().any(|what| lower.contains(what));
    let counts_chars = is_bracketed && text.contains(|c: char| c.is_ascii_digit()) && lower.contains("char");
    names_mask
        || tells
        || is_note(&lower)
        || counts_chars
        || PLACEHOLDERS.contains(&lower.as_str())
        || is_digest(&lower)
}

/// Whether a few words say of a text, and not as a sentence, that it is not there: `content not logged`.
fn is_note(lower: &str) -> bool {
    const WHAT: [&str; 7] = ["content", "message", "prompt", "payload", "text", "body", "input"];
    const GONE: [&str; 7] = listed("logged recorded captured stored redacted dropped removed");
    const BY: [&str; 5] = ["processor", "policy", "filter", "gateway", "collector"];
    let words: Vec<&str> = lower.split_whitespace().collect();
    let (first, last) =
        (words.first().copied().unwrap_or_default(), words.last().copied().unwrap_or_default());
    let is_gone = GONE.iter().any(|gone| words.contains(gone));
    let is_of_text = WHAT.contains(&first) && (last == "logged" || GONE.contains(&last));
    (2..=5).contains(&words.len()) && is_gone && (is_of_text || (BY.contains(&last) && words.contains(&"by")))
}

/// Whether a text only says where another lies, or is one that was encrypted: a URL of a store, an id of an object, a
/// digest in base64, an envelope.
fn lies_elsewhere(text: &str) -> bool {
    const LONGEST: usize = 512;
    let text = text.trim();
    if text.starts_with("-----BEGIN PGP MESSAGE") || text.starts_with("age-encryption.org/") {
        return true;
    }
    if text.len() > LONGEST {
        return false;
    }
    // An object that stands for an attachment: `{"type": "braintrust_attachment", ...}`.
    let kind = text.strip_prefix("{\"type\"").and_then(|rest| rest.split('"').nth(1));
    if kind.is_some_and(|kind| kind.ends_with("attachment") || kind.ends_with("reference")) {
        return true;
    }
    let is_word = text.len() >= CODE_BYTES / 4 && !text.contains(char::is_whitespace);
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.trim_start_matches(['<', '[']));
    let is_of_store = scheme.is_some_and(|scheme| {
        !["http", "https"].contains(&scheme) && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    is_word && (is_of_store || names_object(text) || is_base64_digest(text))
}

/// Whether a word names an object by 32 hexadecimal digits or more, as ids and digests have them.
fn names_object(word: &str) -> bool {
    word.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'))
        .any(|piece| piece.len() <= 80 && piece.bytes().filter(u8::is_ascii_hexdigit).count() >= 32)
}

/// Whether a word is a digest of SHA-256, SHA-512, SHA-1 or MD5 in base64.
fn is_base64_digest(word: &str) -> bool {
    let is_length =
        matches!((word.len(), word.trim_end_matches('=').len()), (44, 43) | (88, 86) | (28, 27) | (24, 22));
    is_length
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
}

/// Whether a text was written in a code in which it is longer: URLs', HTML's, or JSON's within JSON. What it would have
/// as it was said stands nowhere in it.
fn is_escaped(text: &str) -> bool {
    const FEWEST: usize = 4;
    if text.len() < CODE_BYTES {
        return false;
    }
    let many = |escapes: &[&str]| {
        escapes.iter().map(|one| text.matches(one).take(FEWEST).count()).sum::<usize>() >= FEWEST
    };
    let has_none = |plain: &[char]| !text.contains(plain);
    (has_none(&[' ', '\n']) && many(&["%20", "%0A", "%22", "+%"]))
        || (has_none(&[' ', '<', '>', '"']) && many(&["&nbsp;", "&#32;", "&#x20;"]))
        || (has_none(&['<', '>', '"', '\'']) && many(&["&quot;", "&lt;", "&gt;", "&#39;", "&#34;", "&apos;"]))
        || (text.starts_with('"')
            && text.ends_with('"')
            && has_none(&['\n'])
            && many(&["\\n", "\\\"", "\\u"]))
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
        inner.is_some_and(|inner| is_entity(inner) || is_mask_word(inner) || is_attachment(inner))
            && !text[at..].starts_with("</")
    }) || has_media_mark(text)
}

/// Whether a text has a mark that an engine puts a picture, a sound or a film in the place of: `<image>`, `[IMG]`,
/// `<|vision_start|>`, `<start_of_image>`. HTML's elements of these names have an end, or attributes.
fn has_media_mark(text: &str) -> bool {
    const LONGEST: usize = 32;
    const MEDIA: [&str; 9] = listed("image img images video audio picture vision speech sound");
    const BESIDE: [&str; 14] =
        listed("start end begin of bos eos pad token soft patch placeholder data here embed");
    let opens = text.match_indices(['<', '[']);
    opens.into_iter().any(|(at, open)| {
        let close = if open == "<" { '>' } else { ']' };
        let Some(inner) =
            text[at + 1..].find(close).filter(|end| *end <= LONGEST).map(|end| &text[at + 1..=at + end])
        else {
            return false;
        };
        let is_element = || {
            let behind = &text[at + 1 + inner.len()..];
            open == "<"
                && behind.contains(&format!("</{inner}>"))
                && !behind.starts_with(&format!(">./</{inner}>"))
        };
        // Spaces part words of a sentence, and slashes end elements.
        let is_name = !inner.is_empty()
            && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"|_-".contains(&byte));
        let words = inner.split(['|', '_', '-']).filter(|word| !word.is_empty());
        let (mut names, mut is_all) = (false, true);
        for word in words.map(str::to_ascii_lowercase) {
            let bare = word.trim_end_matches(|c: char| c.is_ascii_digit());
            names |= MEDIA.contains(&bare);
            is_all &= bare.is_empty() || MEDIA.contains(&bare) || BESIDE.contains(&bare);
        }
        // A word in brackets is a mark in capitals only.
        let is_mark = open == "<" || inner.bytes().all(|byte| !byte.is_ascii_lowercase());
        // `Vec<Image>` is a type.
        let is_type = text[..at].ends_with(char::is_alphanumeric) && inner.starts_with(char::is_uppercase);
        is_name && names && is_all && is_mark && !is_type && !is_element()
    })
}

/// Whether a few words name a file that stood there: `Attached file: invoice.pdf`.
fn is_attachment(words: &str) -> bool {
    const FILES: [&str; 8] = listed("attached attachment file image document pdf upload uploaded");
    let named = words.split_once(':').or_else(|| words.split_once(' '));
    named.is_some_and(|(what, name)| {
        let end = name.trim().rsplit_once('.').map_or("", |(_, end)| end);
        let is_file = (2..=4).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_file && what.to_lowercase().split_whitespace().any(|word| FILES.contains(&word))
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
            "[object Object]",
            "[Message too large to log]",
            "<binary data>",
            "content not logged",
            "dropped by redact processor",
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
            "The message was removed",
            "Why was it not logged?",
            "text",
            "--",
        ] {
            assert!(!is_masked(text), "{text}");
        }
    }

    #[test]
    fn texts_that_lie_elsewhere_are_told_by_their_form() {
        for text in [
            "s3://llm-payloads/prod/2025/11/20/4f2a.txt",
            "oss://bucket/4f2a/prompt.json",
            "attachment://0123456789abcdef0123456789abcdef",
            "blob:0a58229f-475e-5342-a279-f299340b1114",
            "https://acct.blob.core.windows.net/prompts/00000000000000000000000000000000.json",
            "<lmnr_payload_url>/v1/payloads/00000000000000000000000000000000.txt</lmnr_payload_url>",
            "@@@langfuseMedia:type=image/jpeg|id=cc48838a-3da8-4ca4-a007-2cf8df930e69|source=base64@@@",
            "{\"type\": \"braintrust_attachment\", \"filename\": \"doc.txt\"}",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "-----BEGIN PGP MESSAGE-----\n\nhQEM\n-----END PGP MESSAGE-----",
        ] {
            assert!(lies_elsewhere(text), "{text}");
        }
        for text in [
            "https://example.org/articles/rivers-of-europe",
            "Read s3://bucket/a.txt, please.",
            "internationalization-and-localization",
            "{\"type\": \"object\", \"a\": 1}",
            "src/parser/mod.rs",
        ] {
            assert!(!lies_elsewhere(text), "{text}");
        }
    }

    #[test]
    fn texts_in_a_code_are_told_by_what_they_lack() {
        let said = "You \"are\" a <careful> assistant of a desk,\nand that\nis\nall\n\"that\" you are.";
        let json = serde_json::to_string(said).expect("JSON");
        let url = said.replace(' ', "%20").replace('"', "%22").replace('\n', "%0A");
        let html = said.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
        for text in [&json, &url, &html, &said.replace(['"', '<', '>'], "").replace(' ', "&nbsp;")] {
            assert!(is_escaped(text), "{text}");
        }
        for text in [
            said,
            "Why does my page show &quot; and &lt; and &gt; and &#39; in <b>texts</b>, though it must not?",
            "Open https://example.org/a%20b%20c%20d%20e%20f and tell me what is written there, in a few words.",
            "printf(\"a\\n\"); printf(\"b\\n\"); printf(\"c\\n\"); printf(\"d\\n\"); what does this print?",
        ] {
            assert!(!is_escaped(text), "{text}");
        }
    }

    #[test]
    fn marks_of_pictures_and_sounds_are_recognised() {
        for text in [
            "USER: <image>\nWhat is it?",
            "<|vision_start|><|image_pad|><|vision_end|>What?",
            "[IMG]What?",
            "<start_of_image> What?",
            "<|image_1|> What?",
            "<image_placeholder>What?",
            "(<image>./</image>)What?",
            "<|audio_bos|><|AUDIO|><|audio_eos|>What?",
            "<image_soft_token>",
            "[Attached file: invoice.pdf] What?",
        ] {
            assert!(has_stand_in(text), "{text}");
        }
        for text in [
            "<video controls>a</video> <audio>b</audio> <img src=\"a.png\">",
            "The [image] shows <imagine> and [1] <div> of [image: a river].",
            "Vec<Image> and images[start] and <T>",
            "[file system: how does it work?]",
        ] {
            assert!(!has_media_mark(text) && !has_stand_in(text), "{text}");
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
