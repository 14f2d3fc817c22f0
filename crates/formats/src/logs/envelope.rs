//! Records inside other records: what collectors, brokers, databases and exports put around a log.
//!
//! A record may lie some levels lower: as an object, as JSON in a text or in base64, in a list, or behind other text on
//! its line. No collector is known by name. Whatever lies around a record that is known is its envelope, and the way to
//! it, its [`RecordPath`], is read from the record itself. The search goes level by level and is bounded, so the
//! place is the outermost one, and the same for the same record.

use super::shape::PromptKind;
use crate::codec::DecodeError;
use crate::packed::{json_in, text_of_list};
use crate::record::members::{Members, members};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

/// Levels that are opened: members, items, and texts behind others.
const MAX_LEVELS: usize = 12;
/// Values that are looked at while a record is searched.
const MAX_VALUES: usize = 4096;
/// Items of a list that are looked at while a record is searched.
const MAX_ITEMS: usize = 16;
/// The longest text in front of a record on its line, in bytes.
const MAX_BEFORE: usize = 512;

/// The way from what carries a record to the record.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordPath(Vec<PathStep>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathStep {
    /// The member of this name.
    Member(String),
    /// Every item of a list of records.
    Each,
    /// The item at this index of a list that is no list of records.
    Item(usize),
    /// The item of this name in a list of names and values.
    Named(String),
    /// Each of several values on one line.
    Next,
    /// What follows other text on the same line.
    Behind,
    /// What a line that is one JSON text holds.
    Quoted,
}

impl RecordPath {
    /// Whether the record lies in nothing else.
    pub fn is_top(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the members that lead on from the last record that is one of several, or from the line itself; none
    /// from an item that is told by its name, for those beside it have members of the same names.
    pub fn names(&self) -> Vec<String> {
        let name = |step: &PathStep| match step {
            PathStep::Member(name) => Some(name.clone()),
            _ => None,
        };
        let mut names: Vec<String> = self.0.iter().rev().map_while(name).collect();
        names.reverse();
        let around = self.0.len() - names.len();
        if matches!(self.0[..around].last(), Some(PathStep::Named(_))) {
            names.clear();
        }
        names
    }

    fn then(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

/// As in ``at `log` ``.
impl fmt::Display for RecordPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        for step in &self.0 {
            match step {
                PathStep::Member(name) if path.is_empty() => path.push_str(name),
                PathStep::Member(name) => path.extend([".", name]),
                PathStep::Each => path.push_str("[]"),
                PathStep::Item(index) => path.push_str(&format!("[{index}]")),
                PathStep::Named(name) => path.push_str(&format!("[{name}]")),
                PathStep::Behind | PathStep::Next | PathStep::Quoted => {}
            }
        }
        if self.0.contains(&PathStep::Behind) {
            f.write_str("behind other text")?;
        } else if self.0.contains(&PathStep::Quoted) {
            f.write_str("in JSON texts")?;
        } else if self.0.contains(&PathStep::Next) {
            f.write_str("one behind another")?;
        } else {
            return match path.as_str() {
                "" => f.write_str("at the top"),
                "[]" => f.write_str("in a JSON array"),
                path => write!(f, "at `{path}`"),
            };
        }
        if path.is_empty() { Ok(()) } else { write!(f, " at `{path}`") }
    }
}

/// The records that something carries.
pub struct EnvelopeRecords<'r> {
    /// Where they lie.
    pub place: RecordPath,
    /// In their order; why what lies among them is none.
    pub records: Vec<Result<Cow<'r, [u8]>, DecodeError>>,
}

impl<'r> EnvelopeRecords<'r> {
    /// A record that lies in nothing else.
    pub fn itself(record: &'r [u8]) -> Self {
        Self { place: RecordPath::default(), records: vec![Ok(Cow::Borrowed(record))] }
    }

    /// Whether what came is the record.
    pub fn is_itself(&self) -> bool {
        self.place.is_top() && self.records.len() == 1
    }

    /// No record, as an empty list carries.
    pub fn none() -> Self {
        Self { place: RecordPath::default(), records: Vec::new() }
    }
}

/// What to do with a value that was met.
pub(super) enum Visit {
    /// Look into it.
    Open,
    /// Look at others.
    Pass,
    /// Look no further.
    Stop,
}

/// An object, a list or a text on the way to a record.
pub(super) struct EnvelopeValue<'v> {
    /// The JSON, or the text.
    pub text: &'v str,
    /// Its members, where it is an object.
    pub members: Option<Members<'v>>,
    /// Whether it is a list.
    pub is_list: bool,
}

/// Finds the outermost value below the record's own level that is wanted, and all that lie where it does.
pub(crate) fn open<'r>(
    record: &'r [u8],
    is_wanted: &mut dyn FnMut(&[u8]) -> bool,
) -> Option<EnvelopeRecords<'r>> {
    let mut place = None;
    walk(record, &mut |here, value| {
        if here.is_top() {
            return Visit::Open;
        }
        let Some(members) = &value.members else { return Visit::Open };
        if is_wanted(value.text.as_bytes()) {
            place = Some(here.clone());
            return Visit::Stop;
        }
        // Texts in a prompt are no logs, whatever they quote.
        if PromptKind::of_members(members).is_some() { Visit::Pass } else { Visit::Open }
    });
    let (place, text) = (place?, std::str::from_utf8(record).ok()?);
    let mut records = Vec::new();
    collect(Cow::Borrowed(text), &place.0, &mut records);
    let bytes = |record| match record {
        Cow::Borrowed(text) => Ok(Cow::Borrowed(str::as_bytes(text))),
        Cow::Owned(text) => Ok(Cow::Owned(text.into_bytes())),
    };
    Some(EnvelopeRecords { place, records: records.into_iter().map(bytes).collect() })
}

/// Goes through the values of a record, level by level, itself first: objects, lists and texts.
pub(super) fn walk(record: &[u8], visit: &mut dyn FnMut(&RecordPath, &EnvelopeValue<'_>) -> Visit) {
    let Ok(text) = std::str::from_utf8(record) else { return };
    let mut waiting = VecDeque::from([(RecordPath::default(), Cow::Borrowed(text))]);
    let mut left = MAX_VALUES;
    while let Some((place, value)) = waiting.pop_front() {
        let mut open = |value: &EnvelopeValue<'_>| match visit(&place, value) {
            Visit::Open => Some(place.0.len() < MAX_LEVELS),
            Visit::Pass => Some(false),
            Visit::Stop => None,
        };
        let inner = match &value {
            Cow::Borrowed(text) => {
                let value = EnvelopeValue::of(text);
                match open(&value) {
                    Some(true) => value.inner(),
                    Some(false) => continue,
                    None => return,
                }
            }
            Cow::Owned(text) => {
                let value = EnvelopeValue::of(text);
                match open(&value) {
                    Some(true) => owned(value.inner()),
                    Some(false) => continue,
                    None => return,
                }
            }
        };
        let mut items = 0;
        for (step, value) in inner {
            items += usize::from(!matches!(step, PathStep::Member(_)));
            if left == 0 || items > MAX_ITEMS {
                break;
            }
            left -= 1;
            waiting.push_back((place.then(step), value));
        }
    }
}

/// Appends the values to which these steps lead.
fn collect<'t>(value: Cow<'t, str>, steps: &[PathStep], found: &mut Vec<Cow<'t, str>>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    let mut inner = match value {
        Cow::Borrowed(text) => EnvelopeValue::of(text).inner(),
        Cow::Owned(text) => owned(EnvelopeValue::of(&text).inner()),
    };
    inner.retain(|(other, _)| other == step);
    if matches!(step, PathStep::Member(_)) {
        // Of a name that is there twice the last one holds.
        inner.drain(..inner.len().saturating_sub(1));
    }
    inner.into_iter().for_each(|(_, value)| collect(value, rest, found));
}

/// Values with the steps to them.
type NestedValues<'v> = Vec<(PathStep, Cow<'v, str>)>;

fn owned(inner: NestedValues<'_>) -> NestedValues<'static> {
    inner.into_iter().map(|(step, text)| (step, Cow::Owned(text.into_owned()))).collect()
}

impl<'v> EnvelopeValue<'v> {
    fn of(text: &'v str) -> Self {
        let start = text.trim_start();
        let is_list = start.starts_with('[') && serde_json::from_str::<IgnoredAny>(text).is_ok();
        Self { text, members: if start.starts_with('{') { members(text) } else { None }, is_list }
    }

    /// The objects, lists and texts right below it.
    fn inner(self) -> NestedValues<'v> {
        if let Some(members) = self.members {
            let members = members.into_iter();
            return members
                .filter_map(|(name, raw)| Some((PathStep::Member(name.into_owned()), text_of(raw)?)))
                .collect();
        }
        match self.text.trim_start().as_bytes().first() {
            Some(b'{') => several(self.text),
            Some(b'"') => quoted(self.text).map(|record| (PathStep::Quoted, record)).into_iter().collect(),
            _ if self.is_list => items(self.text),
            _ => behind(self.text).map(|record| (PathStep::Behind, record)).into_iter().collect(),
        }
    }
}

/// What a line holds that was encoded twice.
fn quoted(line: &str) -> Option<Cow<'_, str>> {
    let text: String = serde_json::from_str(line).ok()?;
    Some(json_in(Cow::Owned(text)))
}

/// The objects of a line that has several, one behind another.
fn several(line: &str) -> NestedValues<'_> {
    let values = serde_json::Deserializer::from_str(line).into_iter::<&RawValue>();
    let values: Result<Vec<_>, _> = values.collect();
    let values = values.unwrap_or_default().into_iter();
    values.filter_map(|raw| Some((PathStep::Next, text_of(raw)?))).collect()
}

/// The name of an item in a list of names and values, as attributes and fields are written.
fn name_of(item: &str) -> Option<String> {
    let members = members(item)?;
    let has = |wanted: &str| members.iter().any(|(name, _)| name == wanted);
    if !has("value") && !has("Value") {
        return None;
    }
    let named =
        members.iter().find(|(name, _)| matches!(name.as_ref(), "key" | "Key" | "field" | "name" | "Name"));
    named.and_then(|(_, raw)| serde_json::from_str(raw.get()).ok())
}

/// The items of a list. One of records has something to open in front, or several objects, and whatever else lies among
/// them is one that was lost; another one, such as a pair of a time and a line, has a meaning for each of its items.
fn items(list: &str) -> NestedValues<'_> {
    let items: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
    let texts: Vec<_> = items.iter().map(|raw| text_of(raw)).collect();
    let first = texts.first().and_then(|first| first.as_deref());
    let of_records = first.is_some_and(|first| first.trim_start().starts_with(['{', '[']))
        || texts.iter().flatten().filter(|text| is_object(text)).count() > 1;
    let step = |index, text: &str| match of_records {
        true => name_of(text).map_or(PathStep::Each, PathStep::Named),
        false => PathStep::Item(index),
    };
    let items = texts.into_iter().zip(items).enumerate();
    items
        .filter_map(|(index, (text, raw))| {
            let text = text.or(of_records.then_some(Cow::Borrowed(raw.get())))?;
            Some((step(index, &text), text))
        })
        .collect()
}

/// The JSON object that follows other text to the end of a line.
fn behind(line: &str) -> Option<Cow<'_, str>> {
    let starts = line.match_indices('{').map(|(at, _)| at).take_while(|at| *at <= MAX_BEFORE).take(4);
    let mut records = starts.filter(|at| *at > 0).map(|at| json_in(Cow::Borrowed(line[at..].trim_end())));
    records.find(|record| serde_json::from_str::<IgnoredAny>(record).is_ok())
}

/// The text of an object, a list or a string; nothing of numbers, flags and null.
fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    match json.as_bytes().first()? {
        b'{' => Some(Cow::Borrowed(json)),
        b'[' => Some(text_of_list(json).map_or(Cow::Borrowed(json), Cow::Owned)),
        b'"' => {
            let text: Cow<'_, str> = match json[1..json.len() - 1].contains('\\') {
                true => Cow::Owned(serde_json::from_str(json).ok()?),
                false => Cow::Borrowed(&json[1..json.len() - 1]),
            };
            Some(json_in(text))
        }
        _ => None,
    }
}

pub(super) fn is_object(value: &str) -> bool {
    value.trim_start().starts_with('{')
}
