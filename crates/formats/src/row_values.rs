//! The values of a row by their paths, whatever they are packed in, and the row without those at one.

use crate::almost_json;
use crate::packed::{json_in, text_of_bytes};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What the text in front of a row is called, among paths.
pub(crate) const FRONT: &str = "in front of the JSON";
/// Levels that are looked into.
const MAX_DEPTH: usize = 24;
/// Items of a list that are looked at: the first ones, and of those behind some over its whole length.
const MAX_ITEMS: usize = 64;

/// A row: JSON, behind other text where a log writes some in front of it.
pub(crate) struct RowValue<'r> {
    pub before: &'r [u8],
    pub value: Value,
    /// How long it is.
    pub bytes: usize,
}

impl<'r> RowValue<'r> {
    /// The row of these bytes; nothing where it is no JSON.
    pub fn of(row: &'r [u8]) -> Option<Self> {
        const MAX_BEFORE: usize = 512;
        let head = &row[..row.len().min(MAX_BEFORE)];
        let starts =
            head.iter().enumerate().filter(|(at, byte)| **byte == b'{' || (*at == 0 && **byte == b'['));
        starts.take(3).find_map(|(at, _)| {
            let (before, json) = row.split_at(at);
            let read = serde_json::from_slice(json).ok();
            let mut value: Value =
                read.or_else(|| serde_json::from_slice(&almost_json::as_json(json)?).ok())?;
            value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(write_bytes_as_text);
            Some(Self { before, value, bytes: row.len() })
        })
    }

    /// The row as a text again, without what lies at `path`; all of it where none is named.
    pub fn written(&self, without: Option<&str>) -> Vec<u8> {
        let mut value = self.value.clone();
        if let Some(path) = without {
            remove(&mut value, "", path, 0);
        }
        let mut row = if without == Some(FRONT) { Vec::new() } else { self.before.to_vec() };
        row.extend_from_slice(value.to_string().as_bytes());
        row
    }
}

/// Puts the text in the place of a list of its bytes.
fn write_bytes_as_text(value: &mut Value) {
    let Value::Array(items) = &*value else { return };
    let bytes: Option<Vec<u8>> = items.iter().map(|item| u8::try_from(item.as_u64()?).ok()).collect();
    if let Some(text) = bytes.and_then(text_of_bytes) {
        *value = Value::String(text);
    }
}

/// The path of a member. Numbers within a flattened name stand for any.
fn member(path: &str, name: &str) -> String {
    let name = name.split('.').map(|part| match part.parse::<u64>() {
        Ok(_) => "N",
        Err(_) => part,
    });
    let name = name.collect::<Vec<_>>().join(".");
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// The name of an item in a list of names and values, as attributes are written.
fn pair_name(item: &Value) -> Option<&str> {
    let item = item.as_object().filter(|item| item.len() <= 4)?;
    let has_value = item.contains_key("value") || item.contains_key("Value");
    let name = ["key", "Key", "name", "Name", "field"].into_iter().find_map(|name| item.get(name)?.as_str());
    name.filter(|_| has_value)
}

/// What a value is that a type is written around: OTLP's `{"stringValue": ...}` and MongoDB's `{"$numberInt": ...}`.
pub(crate) fn bare(value: &Value) -> &Value {
    let Some(object) = value.as_object().filter(|object| object.len() == 1) else { return value };
    match object.iter().next() {
        Some((name, inner)) if (name.ends_with("Value") || name.starts_with('$')) && !inner.is_object() => {
            inner
        }
        _ => value,
    }
}

fn unpacked(text: &str) -> Option<Value> {
    let json = json_in(Cow::Borrowed(text));
    let start = json.trim_start();
    if start.starts_with(['{', '[']) { serde_json::from_str(start).ok() } else { None }
}

/// Shows every value with its path; those of a list share one, and so do those of a text that is JSON and that text.
pub(crate) fn walk(value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    walk_from("", value, 0, visit);
}

fn walk_from(path: &str, value: &Value, depth: usize, visit: &mut dyn FnMut(&str, &Value)) {
    let value = bare(value);
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(members) => {
            visit(path, value);
            members.iter().for_each(|(name, inner)| walk_from(&member(path, name), inner, depth + 1, visit));
        }
        Value::Array(items) => {
            visit(path, value);
            let (first, behind) = items.split_at(items.len().min(MAX_ITEMS / 2));
            // No even step, for lists whose items alternate.
            let step = behind.len().div_ceil(MAX_ITEMS / 2) | 1;
            let is_tuple = is_tuple(path, items);
            for (at, item) in first.iter().chain(behind.iter().step_by(step)).enumerate() {
                match pair_name(item) {
                    Some(name) => {
                        let inner = item.get("value").or_else(|| item.get("Value")).unwrap_or(&Value::Null);
                        walk_from(&member(path, name), inner, depth + 1, visit);
                    }
                    None if item.is_number() => return,
                    None if is_tuple => walk_from(&format!("{path}[{at}]"), item, depth + 1, visit),
                    None => walk_from(&format!("{path}[]"), item, depth + 1, visit),
                }
            }
        }
        Value::String(text) => match unpacked(text) {
            Some(inner) => walk_from(path, &inner, depth + 1, visit),
            None => visit(path, value),
        },
        _ => visit(path, value),
    }
}

/// Whether a list within a list is a row of it, each of whose items has a meaning of its own: `[time, line]`.
fn is_tuple(path: &str, items: &[Value]) -> bool {
    path.ends_with("[]") && items.len() <= MAX_ITEMS / 2 && items.first().is_some_and(Value::is_string)
}

/// Whether what lies below `here` may be, or hold, what lies at `path`.
fn leads_to(here: &str, path: &str) -> bool {
    path.strip_prefix(here).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn remove(value: &mut Value, here: &str, path: &str, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(members) => remove_members(members, here, path, depth),
        Value::Array(items) => {
            let (is_tuple, mut at) = (is_tuple(here, items), 0..);
            items.retain_mut(|item| {
                let at = at.next().filter(|_| is_tuple).map_or_else(String::new, |at: usize| at.to_string());
                let inner =
                    pair_name(item).map_or_else(|| format!("{here}[{at}]"), |name| member(here, name));
                if inner == path && !is_tuple {
                    return false;
                }
                if inner == path {
                    *item = Value::Null;
                }
                if leads_to(&inner, path) {
                    let held = match pair_name(item).is_some() {
                        true => item.as_object_mut().and_then(|item| {
                            let name = if item.contains_key("value") { "value" } else { "Value" };
                            item.get_mut(name)
                        }),
                        false => Some(item),
                    };
                    held.into_iter().for_each(|held| remove(held, &inner, path, depth + 1));
                }
                true
            });
        }
        Value::String(text) => {
            // Whoever reads a packed text reads it unpacked, too.
            if let Some(mut inner) = unpacked(text) {
                remove(&mut inner, here, path, depth + 1);
                *text = inner.to_string();
            }
        }
        _ => {}
    }
}

fn remove_members(members: &mut Map<String, Value>, here: &str, path: &str, depth: usize) {
    // A type that is written around a value is no step.
    let is_typed = members.len() == 1
        && members.keys().all(|name| name.ends_with("Value") || name.starts_with('$'))
        && members.values().all(|inner| !inner.is_object());
    if is_typed {
        members.values_mut().for_each(|inner| remove(inner, here, path, depth + 1));
        return;
    }
    members.retain(|name, inner| {
        let inner_path = member(here, name);
        if inner_path == path {
            return false;
        }
        if leads_to(&inner_path, path) {
            remove(inner, &inner_path, path, depth + 1);
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row() -> Value {
        json!({
            "a": {"b": [{"c": 1}, {"c": 2, "d": 3}]},
            "packed": "{\"x\": \"[1, 2]\", \"y\": 5}",
            "attributes": [{"key": "k.0.z", "value": {"stringValue": "s"}}, {"key": "n", "value": {"intValue": "7"}}],
            "m": {"$numberInt": "4"}
        })
    }

    #[test]
    fn values_are_found_in_lists_texts_and_attributes() {
        let mut found = Vec::new();
        walk(&row(), &mut |path, value| {
            if !value.is_object() && !value.is_array() {
                found.push(format!("{path}={value}"));
            }
        });
        found.sort();
        let expected = [
            "a.b[].c=1",
            "a.b[].c=2",
            "a.b[].d=3",
            "attributes.k.N.z=\"s\"",
            "attributes.n=\"7\"",
            "m=\"4\"",
            "packed.y=5",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_row_is_written_without_what_lies_at_a_path() {
        let text = row().to_string();
        let row = RowValue::of(text.as_bytes()).expect("JSON");
        for (path, gone) in
            [("a.b[].c", "\"c\""), ("packed.y", "\\\"y\\\""), ("attributes.k.N.z", "k.0.z"), ("m", "\"m\"")]
        {
            let whole = String::from_utf8(row.written(None)).expect("text");
            let less = String::from_utf8(row.written(Some(path))).expect("text");
            assert!(whole.contains(gone) && !less.contains(gone), "{path}: {less}");
            assert!(less.contains("\"d\""), "{path}: {less}");
        }
        assert_eq!(row.written(Some("nothing.here")), row.written(None));
    }

    #[test]
    fn items_of_a_tuple_have_paths_of_their_own() {
        let text = json!({"values": [["17", "{\"a\": 1}"], ["18", "{\"a\": 2}"]], "b": ["x"]}).to_string();
        let row = RowValue::of(text.as_bytes()).expect("JSON");
        let mut paths = Vec::new();
        walk(&row.value, &mut |path, value| paths.extend((!value.is_array()).then(|| path.to_owned())));
        paths.sort();
        paths.dedup();
        assert_eq!(paths, ["", "b[]", "values[][0]", "values[][1]", "values[][1].a"]);
        let less = String::from_utf8(row.written(Some("values[][0]"))).expect("text");
        assert!(less.contains("[null,\"{") && !less.contains("17"), "{less}");
    }

    #[test]
    fn a_text_in_bytes_is_the_text() {
        let row = json!({"MESSAGE": r#"{"a": 1}"#.as_bytes(), "ids": [1, 2]}).to_string();
        let row = RowValue::of(row.as_bytes()).expect("JSON");
        assert_eq!(row.value, json!({"MESSAGE": r#"{"a": 1}"#, "ids": [1, 2]}));
    }

    #[test]
    fn a_row_behind_other_text_keeps_it() {
        let row = RowValue::of(b"[12:00:00] INFO {\"a\": NaN, \"b\": 1}").expect("JSON");
        assert_eq!(row.written(Some("a")), b"[12:00:00] INFO {\"b\":1}");
        assert!(RowValue::of(b"no JSON").is_none());
    }
}
