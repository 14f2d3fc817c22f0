//! What keeps caches apart: the one table of the names that requests and logs have for it, and what follows of them.
//!
//! An engine keeps the pages of one model. Of two requests for it those pages are shared that have the same tokens
//! before them, unless a cache salt, an extra key or an adapter is hashed with them. Deployments of one model are
//! caches of their own. So each model is a pool; what else keeps pages apart is a scope within it
//! ([`PageIdentity::scope`]), which both `kvset prepare` and `kvset replay` make of these names.
//!
//! Read in vllm-project/vllm (`vllm/v1/core/kv_cache_utils.py`, `generate_block_hash_extra_keys`: adapter and salt),
//! sgl-project/sglang (`python/sglang/srt/entrypoints/openai/serving_base.py`, `_compute_extra_key`: salt and key are
//! joined) and BerriAI/litellm (`litellm/types/utils.py`, `StandardLoggingPayload`: `model_id` names the deployment).

use crate::any_value::{Any, Scalar, TakeValue, pass_items};
use crate::key::Key;
use crate::spelling::Spellings;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

/// A part of what keeps caches apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopePart {
    /// The model that serves.
    Model,
    /// A salt of the cache.
    Salt,
    /// SGLang's extra key.
    ExtraKey,
    /// A LoRA adapter.
    Adapter,
    /// An endpoint of a gateway with caches of its own.
    Deployment,
}

/// How many [`FIELDS`] there are.
const COUNT: usize = 28;

/// Where requests and logs name them, as paths; of several for one part the first that leads somewhere holds.
pub const FIELDS: [(&[&str], ScopePart); COUNT] = [
    (&["model"], ScopePart::Model),
    (&["model_name"], ScopePart::Model),
    (&["model_id"], ScopePart::Model),
    (&["served_model_name"], ScopePart::Model),
    (&["request_model"], ScopePart::Model),
    (&["model_group"], ScopePart::Model),
    (&["cache_salt"], ScopePart::Salt),
    (&["salt"], ScopePart::Salt),
    (&["extra_body", "cache_salt"], ScopePart::Salt),
    (&["extra_key"], ScopePart::ExtraKey),
    (&["extra_body", "extra_key"], ScopePart::ExtraKey),
    (&["lora_path"], ScopePart::Adapter),
    (&["lora_name"], ScopePart::Adapter),
    (&["lora_id"], ScopePart::Adapter),
    (&["lora_request"], ScopePart::Adapter),
    (&["lora_request", "lora_name"], ScopePart::Adapter),
    (&["lora_request", "name"], ScopePart::Adapter),
    (&["lora_request", "lora_int_id"], ScopePart::Adapter),
    (&["lora_request", "lora_path"], ScopePart::Adapter),
    (&["lora"], ScopePart::Adapter),
    (&["adapter"], ScopePart::Adapter),
    (&["adapter_name"], ScopePart::Adapter),
    (&["adapter_id"], ScopePart::Adapter),
    (&["parameters", "adapter_id"], ScopePart::Adapter),
    (&["extra_body", "lora_path"], ScopePart::Adapter),
    (&["deployment"], ScopePart::Deployment),
    (&["deployment_id"], ScopePart::Deployment),
    (&["deployment_name"], ScopePart::Deployment),
];

/// The field that a request of the API lies under in a line of a batch.
const BODY: &str = "body";

/// The model, and the name of the scope within its pool; neither where nothing says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageIdentity<'v> {
    /// The model that serves.
    pub model: Option<&'v str>,
    /// What else keeps pages apart.
    pub scope: Option<Cow<'v, str>>,
}

impl<'v> PageIdentity<'v> {
    /// What follows of the values of [`FIELDS`], each by its place; empty ones say nothing.
    pub fn of(value: impl Fn(usize) -> Option<&'v str>) -> Self {
        let part = |wanted: ScopePart| {
            let places = (0..COUNT).filter(|place| FIELDS[*place].1 == wanted);
            places.filter_map(&value).find(|value| !value.is_empty())
        };
        let salted = match (part(ScopePart::Salt), part(ScopePart::ExtraKey)) {
            (Some(salt), Some(key)) => Some(Cow::Owned(format!("{salt}{key}"))),
            (salt, key) => salt.or(key).map(Cow::Borrowed),
        };
        let named = [(ADAPTER, part(ScopePart::Adapter)), (DEPLOYMENT, part(ScopePart::Deployment))];
        let scope = named.into_iter().fold(salted, |scope, (mark, name)| match name {
            Some(name) => Some(Cow::Owned(format!("{}{mark}{name}", scope.unwrap_or_default()))),
            None => scope,
        });
        Self { model: part(ScopePart::Model), scope }
    }
}

/// What stands in front of the name of an adapter, and of a deployment: characters that no name has.
const ADAPTER: char = '\u{1f}';
const DEPLOYMENT: char = '\u{1e}';

/// The values of [`FIELDS`] in a JSON object, as ranges of a text that they were appended to. What stands in the object
/// itself goes before what stands in its `body`, and of what stands there twice the last holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedParts {
    /// Each by its place in [`FIELDS`], and whether it stands in the object's `body`, or in another object.
    values: Vec<(usize, bool, Range<usize>)>,
}

impl NamedParts {
    /// The names of an object's fields that are one of [`FIELDS`], or lead to one.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FIELDS.into_iter().map(|(path, _)| path[0]).chain([BODY])
    }

    /// The one of these names that is `key`.
    pub fn name(key: &str) -> Option<&'static str> {
        let key = SPELLINGS.standard(key);
        Self::names().find(|name| *name == key)
    }

    /// Whether the object's field of this name is one of [`FIELDS`], or leads to one.
    pub fn takes(key: &str) -> bool {
        Self::name(key).is_some()
    }

    /// Reads the value of a field that is [taken](Self::takes).
    pub fn read<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        text: &mut String,
    ) -> Result<(), A::Error> {
        let parts = &mut self.values;
        map.next_value_seed(Any(match SPELLINGS.standard(key) {
            BODY => NestedValue { parts, is_within: true, text, level: 0, open: ALL },
            key => NestedValue { parts, is_within: false, text, level: 1, open: below(ALL, 0, key) },
        }))
    }

    /// Takes what another JSON object says, which holds where this one says nothing.
    pub fn read_within(&mut self, json: &[u8], text: &mut String) {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let below = NestedValue { parts: &mut self.values, is_within: true, text, level: 0, open: ALL };
        // What is no JSON says so where its prompt is read.
        drop(Any(below).deserialize(&mut deserializer));
    }

    /// Takes a value that was found by the name of its place.
    pub fn set(&mut self, place: usize, value: Range<usize>) {
        self.values.push((place, false, value));
    }

    /// Every value, by its place.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.values.iter().map(|(place, _, value)| (*place, value.clone()))
    }

    /// The model, where it is all that is named, as of nearly every row.
    pub fn only_model(&self) -> Option<Range<usize>> {
        match self.values.as_slice() {
            [(place, _, value)] if FIELDS[*place].1 == ScopePart::Model && !value.is_empty() => {
                Some(value.clone())
            }
            _ => None,
        }
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// What follows of the values, which are ranges of `text`.
    pub fn identity<'t>(&self, text: &'t str) -> PageIdentity<'t> {
        let mut values = [None; COUNT];
        for is_within in [true, false] {
            for (place, _, value) in self.values.iter().filter(|(_, within, _)| *within == is_within) {
                values[*place] = Some(&text[value.clone()]);
            }
        }
        PageIdentity::of(|place| values[place])
    }
}

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| {
    // Those that lead on, too.
    Spellings::of(FIELDS.into_iter().flat_map(|(path, _)| path.iter().copied()).chain([BODY]))
});

/// All fields, as a set of places.
const ALL: u32 = (1 << COUNT) - 1;

/// Those of `open` whose path goes on with this name behind so many others.
fn below(open: u32, level: usize, key: &str) -> u32 {
    let goes_on = |place: &usize| open >> place & 1 == 1 && FIELDS[*place].0.get(level) == Some(&key);
    (0..COUNT).filter(goes_on).fold(0, |set, place| set | 1 << place)
}

/// A value at or above some of the fields.
struct NestedValue<'a> {
    parts: &'a mut Vec<(usize, bool, Range<usize>)>,
    is_within: bool,
    text: &'a mut String,
    /// Names of the paths in `open` that lead here.
    level: usize,
    open: u32,
}

impl NestedValue<'_> {
    fn value(self, value: fmt::Arguments<'_>) {
        let start = self.text.len();
        // Writing to a string cannot fail.
        let _ = fmt::write(self.text, value);
        let ends_here = |place: &usize| self.open >> place & 1 == 1 && FIELDS[*place].0.len() == self.level;
        let (is_within, value) = (self.is_within, start..self.text.len());
        self.parts.extend((0..COUNT).filter(ends_here).map(|place| (place, is_within, value.clone())));
    }
}

impl<'de> TakeValue<'de> for NestedValue<'_> {
    type Taken = ();

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<(), E> {
        if !matches!(scalar, Scalar::Null | Scalar::Flag(_)) {
            self.value(format_args!("{scalar}"));
        }
        Ok(())
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        pass_items(&mut list)
    }

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { parts, is_within, text, level, open } = self;
        while let Some(Key(key)) = map.next_key()? {
            match below(open, level, SPELLINGS.standard(&key)) {
                0 => {
                    map.next_value::<IgnoredAny>()?;
                }
                open => {
                    map.next_value_seed(Any(NestedValue { parts, is_within, text, level: level + 1, open }))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(json: &str) -> (Option<String>, Option<String>) {
        let (mut text, mut parts) = (String::new(), NamedParts::default());
        parts.read_within(json.as_bytes(), &mut text);
        let PageIdentity { model, scope } = parts.identity(&text);
        (model.map(str::to_owned), scope.map(Cow::into_owned))
    }

    fn scope(json: &str) -> Option<String> {
        identity(json).1
    }

    #[test]
    fn each_part_keeps_apart_by_itself_and_with_the_others() {
        let every = [
            r#"{}"#,
            r#"{"cache_salt": "a"}"#,
            r#"{"cache_salt": "b"}"#,
            r#"{"lora_path": "a"}"#,
            r#"{"lora_request": {"lora_name": "b", "lora_int_id": 1}}"#,
            r#"{"cache_salt": "a", "adapter_id": "b"}"#,
            r#"{"deployment": "a"}"#,
            r#"{"cache_salt": "b", "lora_path": "a", "deployment": "a"}"#,
        ];
        let scopes: Vec<_> = every.into_iter().map(scope).collect();
        let distinct: std::collections::HashSet<_> = scopes.iter().collect();
        assert_eq!(distinct.len(), every.len(), "{scopes:?}");
        assert_eq!((&scopes[0], scopes[1].as_deref()), (&None, Some("a")));
    }

    #[test]
    fn other_names_and_forms_say_the_same() {
        assert_eq!(scope(r#"{"extra_body": {"cache_salt": "a"}}"#), Some("a".to_owned()));
        assert_eq!(scope(r#"{"extra_key": "a"}"#), Some("a".to_owned()));
        assert_eq!(
            scope(r#"{"cache_salt": "a", "extra_key": "b"}"#),
            Some("ab".to_owned()),
            "as SGLang joins them"
        );
        assert_eq!(scope(r#"{"lora_name": "x"}"#), scope(r#"{"parameters": {"adapter_id": "x"}}"#));
        assert_eq!(scope(r#"{"lora_id": 7}"#), scope(r#"{"lora_request": {"lora_int_id": 7}}"#));
        for nothing in [
            r#"{"cache_salt": "", "lora_path": null, "adapter": {"a": 1}, "lora": ["x"], "lora_request": false}"#,
            r#"{"meta": {"cache_salt": "a"}}"#,
            "[]",
            "{",
        ] {
            assert_eq!(scope(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_object_goes_before_its_body() {
        let json = r#"{"body": {"model": "inner", "cache_salt": "a"}, "model": "outer"}"#;
        let mut text = String::new();
        let mut map = serde_json::Deserializer::from_str(json);
        struct Read<'a>(&'a mut NamedParts, &'a mut String);
        impl<'de> TakeValue<'de> for Read<'_> {
            type Taken = ();
            fn scalar<E: Error>(self, _: Scalar<'_>) -> Result<(), E> {
                Err(E::custom("no object"))
            }
            fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some(Key(key)) = map.next_key()? {
                    self.0.read(&key, &mut map, self.1)?;
                }
                Ok(())
            }
        }
        let mut parts = NamedParts::default();
        Any(Read(&mut parts, &mut text)).deserialize(&mut map).expect("an object");
        let found = parts.identity(&text);
        assert_eq!((found.model, found.scope.as_deref()), (Some("outer"), Some("a")));
    }
}
