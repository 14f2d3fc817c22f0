//! Which part of a body two requests differ in first.

use super::kinds::{PartingKind, differing, kind_of};
use kvset_formats::logs::FieldPath;
use kvset_formats::logs::shape::RecordShape;
use kvset_formats::trace::RawRecords;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest record that is read again.
const MOST_BYTES: usize = 256 << 20;

/// Where two requests differ first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The part: `system`, `tools[4]`, `messages[3]`, and so on.
    pub part: String,
    /// What differs.
    pub kind: PartingKind,
    /// The characters in it, of the later request.
    pub characters: (usize, usize),
    /// What each has there, the later request first.
    pub texts: [String; 2],
}

/// A part of a prompt. Holds text: no `Debug`.
struct BodyPart {
    /// Its list, and its place there.
    list: &'static str,
    place: Option<usize>,
    /// As it stands in the body; what differs is named within it.
    text: String,
    role: MessageRole,
}

/// What a message is of, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageRole {
    User,
    /// It carries what the model thought.
    Thinking,
    Other,
}

impl MessageRole {
    fn of(message: &str) -> Self {
        let message: Value = serde_json::from_str(message).unwrap_or_default();
        let has_thoughts =
            ["reasoning_content", "reasoning", "thinking"].iter().any(|name| message[*name].is_string())
                || message["content"].as_str().is_some_and(|text| text.contains("<think>"));
        match message["role"].as_str() {
            Some("user") => Self::User,
            Some("assistant") if has_thoughts => Self::Thinking,
            _ => Self::Other,
        }
    }
}

impl BodyPart {
    fn name(&self) -> String {
        self.place.map_or_else(|| self.list.to_owned(), |place| format!("{}[{place}]", self.list))
    }
}

/// The records on these lines of a file.
pub fn records(
    file: &str,
    lines: &std::collections::BTreeSet<u64>,
    into: &mut BTreeMap<(String, u64), Vec<u8>>,
) -> Option<()> {
    let last = *lines.last()?;
    let mut reader = RawRecords::open(Path::new(file), MOST_BYTES).ok()?;
    for line in 1..=last {
        match reader.next_record().ok()?? {
            Ok(record) if lines.contains(&line) => {
                drop(into.insert((file.to_owned(), line), record.to_vec()))
            }
            _ => {}
        }
    }
    Some(())
}

/// Where the request in one record differs first from the one in an earlier record; nothing where either is no body, or
/// they do not differ. `uses` is how many requests have the same there, on average.
pub fn difference(later: &[u8], earlier: &[u8], at: Option<&FieldPath>, uses: f64) -> Option<Difference> {
    let (later, earlier) = (parts(&body(later, at)?)?, parts(&body(earlier, at)?)?);
    for list in LISTS {
        let of = |parts: &[BodyPart]| -> Vec<usize> {
            (0..parts.len()).filter(|at| parts[*at].list == list).collect()
        };
        let (own, other) = (of(&later), of(&earlier));
        let differs = own.iter().zip(&other).find(|(one, two)| later[**one].text != earlier[**two].text);
        let is_order = list == TOOLS && is_reordered(&later, &earlier);
        if let Some((one, two)) = differs {
            let (one, two) = (&later[*one], &earlier[*two]);
            let same_but_sorted = sorted(&one.text).is_some_and(|json| sorted(&two.text) == Some(json));
            let kind = match is_order || same_but_sorted {
                true => PartingKind::Order,
                false => kind_of(&one.text, &two.text, uses),
            };
            return Some(Difference::new(one, two, kind));
        }
        // A list that goes on where the other one ends differs there, unless it is the conversation.
        if own.len() != other.len() && list == TOOLS {
            let at = own.len().min(other.len());
            let empty = BodyPart { list, place: Some(at), text: String::new(), role: MessageRole::Other };
            let one = own.get(at).map_or(&empty, |at| &later[*at]);
            let two = other.get(at).map_or(&empty, |at| &earlier[*at]);
            return Some(Difference::new(one, two, PartingKind::Text));
        }
    }
    // The bodies do not differ, so their template makes the difference: of what was thought before the last question
    // many keep nothing.
    let asked = earlier.iter().rposition(|part| part.role == MessageRole::User)?;
    let thought =
        later.iter().take(earlier.len()).skip(asked + 1).find(|part| part.role == MessageRole::Thinking)?;
    Some(Difference {
        part: thought.name(),
        kind: PartingKind::Text,
        characters: (0, 0),
        texts: Default::default(),
    })
}

impl Difference {
    fn new(one: &BodyPart, two: &BodyPart, kind: PartingKind) -> Self {
        let span = differing(&one.text, &two.text);
        let characters = |end: usize| one.text[..end].chars().count();
        Self {
            part: one.name(),
            kind,
            characters: (characters(span.start), characters(span.end)),
            texts: [one.text[span].to_owned(), two.text[differing(&two.text, &one.text)].to_owned()],
        }
    }
}

fn is_reordered(one: &[BodyPart], other: &[BodyPart]) -> bool {
    let tools = |parts: &[BodyPart]| {
        let mut all: Vec<_> =
            parts.iter().filter(|part| part.list == TOOLS).map(|part| part.text.clone()).collect();
        all.sort();
        all
    };
    tools(one) == tools(other)
}

/// JSON with the names of its objects in one order.
fn sorted(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

const SYSTEM: &str = "system";
const TOOLS: &str = "tools";
const DOCUMENTS: &str = "documents";
const MESSAGES: &str = "messages";
const INPUT: &str = "input";
const PROMPT: &str = "prompt";

/// The parts in the order in which prompts have them.
const LISTS: [&str; 6] = [SYSTEM, TOOLS, DOCUMENTS, MESSAGES, INPUT, PROMPT];

/// The body of the request that a record holds: where the operator says, else the first that looks like one.
fn body<'r>(record: &'r [u8], at: Option<&FieldPath>) -> Option<Cow<'r, str>> {
    if let Some(found) = at.and_then(|path| path.find(record).ok()?) {
        return Some(found);
    }
    match RecordShape::of(record)?.requests.into_iter().next()? {
        (None, _) => std::str::from_utf8(record).ok().map(Cow::Borrowed),
        (Some(path), _) => path.find(record).ok()?,
    }
}

type BodyMembers<'b> = BTreeMap<Cow<'b, str>, &'b RawValue>;

fn parts(body: &str) -> Option<Vec<BodyPart>> {
    let members: BodyMembers<'_> = serde_json::from_str(body).ok()?;
    let mut parts = Vec::new();
    for name in ["system", "instructions"] {
        if let Some(text) = members.get(name).and_then(|json| text_of(json.get())) {
            parts.push(BodyPart { list: SYSTEM, place: None, text, role: MessageRole::Other });
        }
    }
    for list in [TOOLS, DOCUMENTS, MESSAGES, INPUT] {
        let Some(json) = members.get(list) else { continue };
        let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(json.get()) else {
            parts.extend(text_of(json.get()).map(|text| BodyPart {
                list,
                place: None,
                text,
                role: MessageRole::Other,
            }));
            continue;
        };
        for (place, entry) in entries.iter().enumerate() {
            let is_talk = [MESSAGES, INPUT].contains(&list);
            let is_system = is_talk && place == 0 && is_of_system(entry.get());
            let text = if is_talk { said(entry.get()) } else { entry.get().to_owned() };
            let (list, place) = if is_system { (SYSTEM, None) } else { (list, Some(place)) };
            let role = if is_talk { MessageRole::of(entry.get()) } else { MessageRole::Other };
            parts.push(BodyPart { list, place, text, role });
        }
    }
    if let Some(text) = members.get(PROMPT).and_then(|json| text_of(json.get())) {
        parts.push(BodyPart { list: PROMPT, place: None, text, role: MessageRole::Other });
    }
    (!parts.is_empty()).then_some(parts)
}

/// A string, or the texts of blocks, or the JSON as it stands.
fn text_of(json: &str) -> Option<String> {
    match serde_json::from_str::<Value>(json).ok()? {
        Value::Null => None,
        Value::String(text) => Some(text),
        Value::Array(blocks) if blocks.iter().all(|block| block["text"].is_string()) => {
            Some(blocks.iter().filter_map(|block| block["text"].as_str()).collect())
        }
        _ => Some(json.to_owned()),
    }
}

fn is_of_system(message: &str) -> bool {
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    message["role"].as_str().is_some_and(|role| ["system", "developer"].contains(&role))
}

/// What a message says: its text where it has nothing else, else all of it.
fn said(message: &str) -> String {
    let Ok(members) = serde_json::from_str::<BodyMembers<'_>>(message) else { return message.to_owned() };
    let is_only = members.keys().all(|name| ["role", "content", "name"].contains(&name.as_ref()));
    let text = members.get("content").filter(|_| is_only).and_then(|content| text_of(content.get()));
    text.unwrap_or_else(|| message.to_owned())
}
