//! What a row shows of its format: its fields, by name and by how their values begin.

use crate::record::json::{TOKEN_FIELDS, row_name};
use crate::record::members::members;
use serde_json::value::RawValue;

/// Most field names that an error message shows.
const SHOWN_FIELDS: usize = 8;
/// The longest name that is shown.
const SHOWN_NAME: usize = 40;

/// The fields of a row that is an object, each by its name in the usual spelling with its JSON.
pub(super) struct FirstRow<'r>(Vec<(String, &'r str)>);

impl<'r> FirstRow<'r> {
    /// Nothing where the row is no object.
    pub fn of(row: &'r str) -> Option<Self> {
        let usual = members(row)?.into_iter().map(|(name, json)| (row_name(&name).to_owned(), json.get()));
        Some(Self(usual.collect()))
    }

    /// Whether a value of this name is so.
    pub fn any(&self, name: &str, is_so: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|(known, json)| known == name && is_so(json))
    }

    /// Whether one of these names is there.
    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.any(name, |_| true))
    }

    /// Whether a value of this name begins with one of these.
    pub fn begins(&self, name: &str, with: &[char]) -> bool {
        self.any(name, |json| json.starts_with(with))
    }

    /// Whether this is so of an object of this name.
    pub fn any_inner(&self, name: &str, is_so: impl Fn(&FirstRow<'_>) -> bool) -> bool {
        self.any(name, |json| FirstRow::of(json).is_some_and(|inner| is_so(&inner)))
    }

    /// Whether it lists the ids of pages.
    pub fn lists_pages(&self) -> bool {
        self.has(&["hash_ids", "chunk_hashes", "block_hashes", "prefix_hashes"])
    }

    /// Whether it lists the ids of tokens, as such or in a text.
    pub fn lists_tokens(&self) -> bool {
        let is_list = |json: &str| json.starts_with('[') || json.starts_with("\"[");
        TOKEN_FIELDS.iter().any(|name| self.any(name, is_list))
    }

    /// Whether it is a session: its requests have each their time, their pages, or their own requests.
    pub fn is_session(&self) -> bool {
        self.any("requests", |json| match first_item(json) {
            None => json != "null" && !json.starts_with('{'),
            Some(None) => true,
            Some(Some(first)) => {
                FirstRow::of(first).is_some_and(|first| first.has(&["t", "hash_ids", "requests"]))
            }
        })
    }

    /// Whether it asks a model: a chat, a prompt, or an input where a model is named.
    pub fn asks(&self) -> bool {
        self.begins("messages", &['[', '"'])
            || self.begins("prompt", &['[', '"', '{'])
            || self.begins("user_prompt", &['"'])
            || self.any("input", is_chat)
            || (self.begins("input", &['[', '"']) && self.has(&["model"]))
    }

    /// What can be said of a row of no known format: names of its fields, as far as they look like names.
    pub fn describe(row: &str) -> String {
        let names = members(row).unwrap_or_default();
        let is_name = |name: &&str| {
            name.len() <= SHOWN_NAME && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        };
        let shown: Vec<_> =
            names.iter().map(|(name, _)| name.as_ref()).filter(is_name).take(SHOWN_FIELDS).collect();
        let more = match names.len() - shown.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!(
            "a JSON object with the fields {}{more}, of no format that is known; a request in it, or a prompt that is a text, is \
             named with --request, and a file that begins with another line with --format (openai for chats) and \
             --skip-bad-rows",
            shown.join(", ")
        )
    }
}

/// The first item of a list, if it has one; nothing of what is no list.
fn first_item(list: &str) -> Option<Option<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    Some(items.first().map(|first| first.get()))
}

/// Whether a list holds messages with roles: a chat, whatever asks for it.
fn is_chat(list: &str) -> bool {
    let first = first_item(list).flatten().and_then(FirstRow::of);
    first.is_some_and(|first| first.has(&["role"]) && first.has(&["content"]))
}
