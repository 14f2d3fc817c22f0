//! Texts that are not what the engine was given: masked before they were logged, cut off, or left out.
//!
//! A mask is told by what it is, not by who wrote it: a word in brackets for the whole of a text or for a name in it,
//! stars, a digest; a cut by how the text ends, or by a note where its middle was. Where masks are all alike, prompts
//! share what the engine's did not; where texts are cut, what followed is neither in their length nor in what they
//! share.

mod cuts;
mod elsewhere;
mod masks;
mod stand_ins;

use super::fields::ObjectFields;
use super::remarks::ChatRemarks;
use cuts::{Cut, TRAILING_BYTES, cut_of};
use elsewhere::{is_coded, is_escaped, lies_elsewhere};
use kvset_core::request::longest::Longest;
use masks::is_masked;
use minijinja::Value;
use minijinja::value::ValueKind;
use stand_ins::{has_media_mark, has_stand_in};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

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

fn is_of_tool(role: &str) -> bool {
    matches!(role, "tool" | "function")
}
