//! Few rows that hold many requests each, as exports of a search have them: each request is looked at by itself, with
//! what stands around all of them.

use super::RowReading;
use super::trial::Rows;
use crate::row_values::RowValue;
use serde_json::Value;
use std::collections::VecDeque;

/// Rows of which so few hold a whole log.
const FEW_ROWS: usize = 8;
/// Levels of a row that are looked into, and lists of it that are tried.
const LEVELS: usize = 6;
const TRIED: usize = 16;
/// Bytes of a row whose lists are looked at in part.
const LONG: usize = 1 << 20;
/// Rows that are made of all.
const MOST: usize = 128;

impl Rows<'_, '_> {
    /// Puts a row for each request in the place of those that hold several in a list.
    pub fn split_lists(&mut self) {
        if self.rows.len() <= FEW_ROWS {
            // Each is read several times.
            let long = self.rows.iter_mut().filter(|row| row.bytes > LONG);
            long.for_each(|row| thin_out(&mut row.value, 0));
        }
        for most in [FEW_ROWS, MOST, MOST] {
            if self.rows.len() > most || !self.split_level() {
                return;
            }
        }
    }

    /// Splits the rows that hold a list of requests, if any does.
    fn split_level(&mut self) -> bool {
        let rows = std::mem::take(&mut self.rows);
        let (room, mut is_split) = (MOST.div_ceil(rows.len().max(1)), false);
        let mut spread = 0;
        for (at, row) in rows.into_iter().enumerate() {
            let list = list_of_requests(&row, self.read);
            is_split |= list.is_some();
            match list {
                Some(list) => self.rows.extend(each_item(row, &list, room)),
                None => self.rows.push(row),
            }
            spread = if at < self.spread { self.rows.len() } else { spread };
        }
        self.spread = spread;
        self.readings.clear();
        is_split
    }
}

/// Where in a row the list is whose items are its requests.
fn list_of_requests(row: &RowValue<'_>, read: &mut dyn FnMut(&[u8]) -> Option<RowReading>) -> Option<String> {
    let mut requests = |row: &RowValue<'_>| read(&row.written(None)).map_or(0, |reading| reading.requests);
    let all = requests(row);
    if all < 2 {
        return None;
    }
    lists(&row.value).into_iter().find(|list| {
        let mut with = |is_kept: fn(usize) -> bool| {
            let mut value = row.value.clone();
            let mut at = 0..;
            let items = value.pointer_mut(list).and_then(Value::as_array_mut);
            items.into_iter().for_each(|items| items.retain(|_| at.next().is_some_and(is_kept)));
            requests(&RowValue { before: row.before, value, bytes: row.bytes })
        };
        let first = with(|at| at == 0);
        first < all && first + with(|at| at > 0) == all
    })
}

/// The lists of a row that may hold requests, from the outermost on; of others than records only the first is looked
/// into.
fn lists(value: &Value) -> Vec<String> {
    let (mut found, mut waiting) = (Vec::new(), VecDeque::from([(String::new(), value, 0)]));
    while let Some((place, value, depth)) = waiting.pop_front().filter(|_| found.len() < TRIED) {
        if depth > LEVELS {
            continue;
        }
        match value {
            Value::Object(members) => waiting.extend(members.iter().map(|(name, inner)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                (format!("{place}/{name}"), inner, depth + 1)
            })),
            Value::Array(items) => {
                let holds = |item: &Value| item.is_object() || item.is_array();
                found.extend((items.len() > 1 && holds(&items[0])).then(|| place.clone()));
                waiting.extend(items.first().map(|first| (format!("{place}/0"), first, depth + 1)));
            }
            _ => {}
        }
    }
    found
}

/// Leaves items that are spread over it of every long list of objects or lists.
fn thin_out(value: &mut Value, depth: usize) {
    match value {
        Value::Object(members) if depth <= LEVELS => {
            members.values_mut().for_each(|inner| thin_out(inner, depth + 1));
        }
        Value::Array(items) if items.first().is_some_and(|item| item.is_object() || item.is_array()) => {
            let (step, mut at) = (items.len().div_ceil(MOST).max(1) | 1, 0..);
            items.retain(|_| at.next().is_some_and(|at: usize| at.is_multiple_of(step)));
            items.iter_mut().for_each(|inner| thin_out(inner, depth + 1));
        }
        _ => {}
    }
}

/// The row with one item of the list each, at most so many that are spread over it.
fn each_item<'r>(mut row: RowValue<'r>, list: &str, most: usize) -> Vec<RowValue<'r>> {
    let items = row.value.pointer_mut(list).map(Value::take);
    let Some(Value::Array(items)) = items else { return vec![row] };
    // No even step, for lists whose items alternate.
    let step = if items.len() <= most { 1 } else { items.len().div_ceil(most) | 1 };
    let bytes = row.bytes / items.len().max(1);
    let alone = |item: Value| {
        let mut value = row.value.clone();
        if let Some(place) = value.pointer_mut(list) {
            *place = Value::Array(vec![item]);
        }
        RowValue { before: row.before, value, bytes }
    };
    items.into_iter().step_by(step).map(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_values::walk;
    use serde_json::json;
    use std::collections::HashMap;

    /// The rows that are made of one, where a request is an object with a prompt.
    fn split(row: &Value) -> Vec<Value> {
        let mut read = |row: &[u8]| {
            let mut requests = 0;
            let value = serde_json::from_slice(row).expect("JSON");
            walk(&value, &mut |path, _| requests += u64::from(path.ends_with("prompt")));
            Some(RowReading { requests, ..RowReading::default() })
        };
        let value = RowValue { before: b"", value: row.clone(), bytes: 0 };
        let mut rows = Rows { rows: vec![value], spread: 1, readings: HashMap::new(), read: &mut read };
        rows.split_lists();
        assert_eq!(rows.spread, rows.rows.len());
        rows.rows.into_iter().map(|row| row.value).collect()
    }

    #[test]
    fn requests_of_a_list_are_rows_with_what_stands_around_them() {
        let of = |pod: &str, prompts: &[&str]| {
            let lines = prompts.iter().map(|prompt| json!(["7", json!({"prompt": prompt}).to_string()]));
            json!({"stream": {"pod": pod}, "values": lines.collect::<Vec<_>>()})
        };
        let of = |pod: &str, prompts: &[&str]| json!({"labels": ["x", "y"], "result": [of(pod, prompts)]});
        let mut whole = of("a", &["1", "2"]);
        let other = of("b", &["3"]);
        whole["result"].as_array_mut().expect("a list").push(other["result"][0].clone());
        assert_eq!(split(&whole), [of("a", &["1"]), of("a", &["2"]), other]);
        let hits = json!({"hits": {"hits": [{"prompt": 1}, {"error": 1}, {"prompt": 2}], "total": 3}});
        assert_eq!(split(&hits).len(), 3);
        for one in [json!({"prompt": [{"a": 1}, {"a": 2}]}), json!({"a": [[1, 2], [3]], "prompt": 1})] {
            assert_eq!(split(&one), [one]);
        }
    }
}
