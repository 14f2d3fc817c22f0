//! What the object around the rows of a page says of the rest: that there is more, where the next page is, how many rows
//! there are in all.

use super::UnreadField;
use super::rules::UnreadKind;
use super::scopes::is_within;
use super::trial::Rows;
use super::words::{any, is_set, words};
use crate::row_values::walk;
use kvset_core::units::names::listed;
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a field says that there are more rows than so many; nothing where it does not.
fn says_more(path: &str, value: &Value, rows: u64) -> Option<String> {
    const WHERE: [&str; 11] = listed("page token cursor link links url offset key marker position results");
    const ROWS: [&str; 13] =
        listed("items rows hits results records pages entries elements count total matches found limit");
    const OTHERS: [&str; 16] = listed(
        "token tokens cost price ms s seconds duration time latency bytes size usage shards took elapsed",
    );
    let last = words(path.rsplit('.').next().unwrap_or_default());
    let all: Vec<String> = path.rsplit('.').take(3).flat_map(words).collect();
    if path.contains("[]") || is_within(path) {
        return None;
    }
    let says = |first: &[&str], second: &[&str]| any(&last, first) && any(&last, second);
    let is_next = last == ["next"] || says(&["next", "continuation", "evaluated"], &WHERE);
    let is_more = says(&["has", "more", "is"], &["more", "next", "available", "truncated", "partial"])
        || last == ["truncated"];
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let is_place =
        !matches!(value, Value::Null | Value::Bool(_)) && value.as_str().is_none_or(|text| !text.is_empty());
    let counts = any(&all, &["total", "found", "before", "matched"])
        && (any(&last, &ROWS) || any(&last, &["value", "before"]))
        && !any(&all, &OTHERS);
    match number {
        Some(total) if counts && any(&last, &["pages"]) => (total > 1.0).then(|| format!("{total} pages")),
        Some(total) if counts => (total > rows as f64).then(|| format!("{total} rows in all")),
        _ if is_more && is_set(value) => Some("that there are more".to_owned()),
        _ if is_next && is_place => Some("where the next are".to_owned()),
        _ => None,
    }
}

impl Rows<'_, '_> {
    /// What the objects around several requests say of those that are not there: where every one of them does.
    pub fn rest_of_pages(&mut self) -> Vec<UnreadField> {
        let more = |value: &Value, rows: u64| {
            let mut said = BTreeMap::new();
            walk(value, &mut |path, value| {
                said.extend(says_more(path, value, rows).map(|what| (path.to_owned(), what)));
            });
            said
        };
        // Each row is read for it.
        let may_say = (0..self.rows.len()).filter(|row| !more(&self.rows[*row].value, 1).is_empty());
        let may_say: Vec<_> = may_say.collect();
        let requests: u64 =
            may_say.iter().filter_map(|row| self.reading(*row)).map(|reading| reading.requests).sum();
        let pages = may_say.len() as u64;
        if pages == 0 || pages < self.rows.len() as u64 || requests < 2 * pages {
            return Vec::new();
        }
        let mut said = more(&self.rows[may_say[0]].value, requests);
        may_say[1..].iter().for_each(|row| {
            let other = more(&self.rows[*row].value, requests);
            said.retain(|path, _| other.contains_key(path));
        });
        let fields = said.into_iter().map(|(path, what)| UnreadField {
            said: format!("{what}, and it holds {requests}"),
            ..UnreadField::counted(path, UnreadKind::Rest, (pages, pages))
        });
        fields.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_says_that_there_are_others() {
        for (path, value) in [
            ("has_more", json!(true)),
            ("pageInfo.hasNextPage", json!(true)),
            ("meta.totalItems", json!(48211)),
            ("meta.totalPages", json!(4)),
            ("hits.total.value", json!(10000)),
            ("rows_before_limit_at_least", json!("48211")),
            ("next_cursor", json!("abc")),
            ("links.next", json!("https://x/2")),
            ("LastEvaluatedKey", json!({"id": 7})),
            ("response.numFound", json!(500)),
            ("total", json!(13)),
            ("is_truncated", json!(true)),
        ] {
            assert!(says_more(path, &value, 12).is_some(), "{path}");
        }
        for (path, value) in [
            ("has_more", json!(false)),
            ("meta.totalItems", json!(12)),
            ("meta.totalPages", json!(1)),
            ("next_cursor", Value::Null),
            ("links.next", json!("")),
            ("usage.total_tokens", json!(900)),
            ("took", json!(900)),
            ("_shards.total", json!(50)),
            ("data[].has_more", json!(true)),
            ("limit", json!(100)),
            ("page", json!(2)),
        ] {
            assert_eq!(says_more(path, &value, 12), None, "{path}");
        }
    }
}
