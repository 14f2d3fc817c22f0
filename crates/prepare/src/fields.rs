//! One pass over a JSON record: the fields that templates name, the kind of prompt, the token ids.

use super::tokens::{RecordPrompts, TokenArray};
use kvset_formats::any_value::{Any, Scalar, TakeValue, pass_items};
use kvset_formats::codec::{DecodeError, ErrorCode};
use kvset_formats::key::Key;
use kvset_formats::record::json::TOKEN_FIELDS;
use kvset_formats::record::unshown::UnshownFields;
use kvset_formats::trace::LoggedAnswer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

/// Longest value that a template may take, in bytes.
const MAX_VALUE_BYTES: usize = 1024;
/// A line of a batch file holds the request under this name.
const BODY: &str = "body";
/// Fields that hold a response, or the chunks it was streamed in: of those the last one that says something holds.
/// This is for templates that name a field of a response; what its usage says is an [`LoggedAnswer`].
const STREAMED: [&str; 2] = ["response", "chunks"];

/// The values of the wanted fields, in memory reused from record to record.
#[derive(Default)]
pub(super) struct FieldValues {
    /// Texts, and where each was found, where it was.
    slots: Vec<(String, Option<ValueDepth>)>,
}

/// Where a value was found; what stands at the top goes before what stands in the body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueDepth {
    Body,
    Top,
}

impl FieldValues {
    /// Forgets the last record; there are so many wanted fields.
    pub(super) fn reset(&mut self, fields: usize) {
        self.slots.resize_with(fields, Default::default);
        self.slots.iter_mut().for_each(|(_, depth)| *depth = None);
    }

    /// The value of the field at `index` of those wanted.
    pub(super) fn get(&self, index: usize) -> Option<&str> {
        self.slots.get(index).filter(|(_, depth)| depth.is_some()).map(|(text, _)| text.as_str())
    }

    /// Takes a value that stands at the top.
    pub(super) fn set(&mut self, index: usize, value: &str) -> Result<(), DecodeError> {
        self.put(index, ValueDepth::Top, format_args!("{value}"))
    }

    fn put(&mut self, index: usize, depth: ValueDepth, value: fmt::Arguments<'_>) -> Result<(), DecodeError> {
        let slot = self.slots.get_mut(index).filter(|(_, found)| found.is_none_or(|found| found <= depth));
        let Some((text, found)) = slot else { return Ok(()) };
        text.clear();
        let written = Bounded(text).write_fmt(value);
        *found = Some(depth);
        written.map_err(|_| {
            let detail = format!("a field that a template names is longer than {MAX_VALUE_BYTES} bytes");
            DecodeError::new(ErrorCode::InvalidField, detail)
        })
    }
}

/// A text that takes no more than a value may have.
struct Bounded<'t>(&'t mut String);

impl fmt::Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_VALUE_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// What a record holds its prompt as.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PromptForms {
    pub(super) tokens: bool,
    pub(super) page_ids: bool,
    pub(super) body: bool,
    /// What its token ids do not show.
    pub(super) unshown: UnshownFields,
}

/// Reads a record, or a request that was found inside one of which the rest was read: what the record itself says goes
/// first. Wanted fields go into `values`, what it says of the answer into `answer`, and `with_tokens` token ids into
/// `prompts`.
pub(super) fn read(
    json: &[u8],
    depth: ValueDepth,
    paths: &[Vec<String>],
    with_tokens: bool,
    values: &mut FieldValues,
    prompts: &mut RecordPrompts,
    answer: Option<&mut LoggedAnswer>,
) -> Result<PromptForms, DecodeError> {
    if depth == ValueDepth::Top {
        values.reset(paths.len());
        prompts.clear();
    }
    let (open, held) = ((0..paths.len()).collect(), PromptForms::default());
    let walk = Walk { paths, with_tokens, values, prompts, answer, held, refusal: None };
    read_at(json, (depth, 0), open, walk)
}

/// Reads a response that was found inside a record, as if it stood there under its usual name.
pub(super) fn read_response(
    response: &[u8],
    paths: &[Vec<String>],
    values: &mut FieldValues,
) -> Result<(), DecodeError> {
    let is_of_responses = |index: &usize| paths[*index].first().is_some_and(|name| name == STREAMED[0]);
    let open: Vec<usize> = (0..paths.len()).filter(is_of_responses).collect();
    let prompts = &mut RecordPrompts::default();
    let (answer, held) = (None, PromptForms::default());
    let walk = Walk { paths, with_tokens: false, values, prompts, answer, held, refusal: None };
    // What was streamed is text.
    if response.trim_ascii_start().first().is_none_or(|first| !matches!(first, b'{' | b'[')) {
        let quoted = serde_json::to_vec(&String::from_utf8_lossy(response));
        return read_at(&quoted.unwrap_or_default(), (ValueDepth::Top, 1), open, walk).map(|_| ());
    }
    read_at(response, (ValueDepth::Top, 1), open, walk).map(|_| ())
}

/// Reads a value that stands below so many names of the paths in `open`: of none, the record itself.
fn read_at(
    json: &[u8],
    (depth, level): (ValueDepth, usize),
    open: Vec<usize>,
    mut walk: Walk<'_>,
) -> Result<PromptForms, DecodeError> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = Any(Inside { walk: &mut walk, depth, level, open, top: level == 0 })
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    match read {
        Ok(()) => Ok(walk.held),
        Err(error) => Err(walk.refusal.take().unwrap_or_else(|| undecodable(&error))),
    }
}

/// Says where, never what: the parser's own text may quote the record.
fn undecodable(error: &serde_json::Error) -> DecodeError {
    let detail =
        format!("json: not a record of a known shape at line {} column {}", error.line(), error.column());
    DecodeError::new(ErrorCode::Undecodable, detail)
}

struct Walk<'w> {
    paths: &'w [Vec<String>],
    with_tokens: bool,
    values: &'w mut FieldValues,
    prompts: &'w mut RecordPrompts,
    answer: Option<&'w mut LoggedAnswer>,
    held: PromptForms,
    /// A refusal with a code of its own; serde can carry no more than a text.
    refusal: Option<DecodeError>,
}

impl Walk<'_> {
    fn refuse<E: Error>(&mut self, refusal: DecodeError) -> E {
        self.refusal = Some(refusal);
        E::custom("refused")
    }
}

/// A value on the way to wanted fields.
struct Inside<'a, 'w> {
    walk: &'a mut Walk<'w>,
    depth: ValueDepth,
    /// Names of the paths in `open` that lead here.
    level: usize,
    /// Wanted fields at or below this value.
    open: Vec<usize>,
    /// Whether this is the record itself.
    top: bool,
}

impl<'w> Inside<'_, 'w> {
    fn value<E: Error>(self, value: fmt::Arguments<'_>) -> Result<(), E> {
        let Self { walk, depth, level, open, top } = self;
        if top {
            return Err(E::custom("no object"));
        }
        for index in open.into_iter().filter(|index| walk.paths[*index].len() == level) {
            if let Err(refusal) = walk.values.put(index, depth, value) {
                return Err(walk.refuse(refusal));
            }
        }
        Ok(())
    }

    /// Whether this is a response that may have been streamed.
    fn is_streamed(&self) -> bool {
        let name = |index: &usize| self.walk.paths[*index].get(self.level.checked_sub(1)?);
        self.open.iter().any(|index| name(index).is_some_and(|name| STREAMED.contains(&name.as_str())))
    }

    /// One of the chunks of this response.
    fn chunk(&mut self) -> Inside<'_, 'w> {
        let (depth, level, open) = (self.depth, self.level, self.open.clone());
        Inside { walk: &mut *self.walk, depth, level, open, top: false }
    }

    /// Reads the chunks of a stream as it was sent; a line that is no object, such as `[DONE]`, says nothing.
    fn stream<E: Error>(&mut self, text: &str) -> Result<(), E> {
        for chunk in text.lines().filter_map(|line| line.strip_prefix("data:")) {
            if chunk.trim_start().starts_with('{') {
                let mut deserializer = serde_json::Deserializer::from_str(chunk);
                let read = Any(self.chunk()).deserialize(&mut deserializer);
                read.map_err(|_| E::custom("not a chunk"))?;
            }
        }
        Ok(())
    }

    /// Reads what only the record itself has; says whether the value was read.
    fn top_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        let held = &mut self.walk.held;
        match key {
            _ if self.walk.with_tokens && TOKEN_FIELDS.contains(&key) => {
                let found =
                    map.next_value_seed(Any(TokenArray { prompts: self.walk.prompts, is_item: false }))?;
                if found && held.tokens {
                    let detail = "the record holds token ids twice";
                    return Err(self.walk.refuse(DecodeError::new(ErrorCode::Undecodable, detail)));
                }
                held.tokens |= found;
                if found {
                    held.unshown.note_list(key);
                }
            }
            _ if UnshownFields::takes(key) && self.walk.paths.iter().all(|path| path[0] != key) => {
                held.unshown.read(key, map.next_value::<&RawValue>()?.get());
            }
            BODY => {
                held.body = true;
                let open = (0..self.walk.paths.len()).collect();
                let (walk, depth) = (&mut *self.walk, ValueDepth::Body);
                map.next_value_seed(Any(Inside { walk, depth, level: 0, open, top: false }))?;
            }
            "messages" | "prompt" | "user_prompt" | "input" => {
                held.body = true;
                map.next_value::<IgnoredAny>()?;
            }
            "page_ids" => {
                held.page_ids = true;
                map.next_value::<IgnoredAny>()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl<'de> TakeValue<'de> for Inside<'_, '_> {
    type Taken = ();

    fn scalar<E: Error>(mut self, scalar: Scalar<'_>) -> Result<(), E> {
        match &scalar {
            Scalar::Null => return Ok(()),
            Scalar::Text(text) if self.is_streamed() => self.stream(text)?,
            _ => {}
        }
        self.value(format_args!("{scalar}"))
    }

    fn list<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
        if self.is_streamed() {
            while array.next_element_seed(Any(self.chunk()))?.is_some() {}
            return Ok(());
        }
        pass_items(&mut array)
    }

    fn object<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            if self.top && self.top_field(&key, &mut map)? {
                continue;
            }
            let level = self.level;
            let leads = |index: &usize| self.walk.paths[*index].get(level).is_some_and(|name| *name == *key);
            let open: Vec<usize> = self.open.iter().copied().filter(leads).collect();
            let (top, depth) = (self.top, self.depth);
            let walk = &mut *self.walk;
            if let Some(answer) = walk.answer.as_mut().filter(|_| top && LoggedAnswer::takes(&key)) {
                let value: &RawValue = map.next_value()?;
                if let Err(refusal) = answer.read_value(&key, value) {
                    return Err(walk.refuse(refusal));
                }
                if !open.is_empty() {
                    let mut value = serde_json::Deserializer::from_str(value.get());
                    let inside = Inside { walk, depth, level: level + 1, open, top: false };
                    Any(inside).deserialize(&mut value).map_err(A::Error::custom)?;
                }
                continue;
            }
            if open.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            map.next_value_seed(Any(Inside { walk, depth, level: level + 1, open, top: false }))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(
        record: &str,
        paths: &[&str],
    ) -> Result<(PromptForms, Vec<Option<String>>, RecordPrompts), DecodeError> {
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
        let (mut values, mut prompts) = (FieldValues::default(), RecordPrompts::default());
        let held = read(record.as_bytes(), ValueDepth::Top, &paths, true, &mut values, &mut prompts, None)?;
        let found = (0..paths.len()).map(|index| values.get(index).map(str::to_owned)).collect();
        Ok((held, found, prompts))
    }

    fn values(record: &str, paths: &[&str]) -> Vec<Option<String>> {
        read_text(record, paths).expect(record).1
    }

    #[test]
    fn scalars_are_found_at_the_top_below_and_in_the_body() {
        let text = |value: &str| Some(value.to_owned());
        let record = r#"{"n": 7, "f": 1.5, "b": true, "none": null, "list": ["x"], "meta": {"cluster": "eu"},
            "body": {"model": "inner", "messages": [], "user": "u"}, "model": "outer"}"#;
        assert_eq!(
            values(record, &["n", "f", "b", "none", "list", "meta.cluster", "meta", "model", "user", "no"]),
            [
                text("7"),
                text("1.5"),
                text("true"),
                None,
                None,
                text("eu"),
                None,
                text("outer"),
                text("u"),
                None
            ]
        );
        assert_eq!(values(r#"{"model": "outer", "body": {"model": "inner"}}"#, &["model"]), [text("outer")]);
        assert_eq!(values(r#"{"body": {"a": {"b": 1}}}"#, &["a.b", "body.a.b"]), [text("1"), None]);
    }

    #[test]
    fn the_last_chunk_of_a_streamed_response_that_says_something_holds() {
        let path = "response.usage.prompt_tokens_details.cached_tokens";
        let usage =
            |cached: u32| format!(r#"{{"usage":{{"prompt_tokens_details":{{"cached_tokens":{cached}}}}}}}"#);
        let chunks = format!(r#"{{"response": [{}, {}, {{"usage": null}}]}}"#, usage(3), usage(5));
        assert_eq!(values(&chunks, &[path]), [Some("5".to_owned())]);
        let stream = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n", usage(3), usage(7));
        let record = format!(r#"{{"response": {}}}"#, serde_json::Value::from(stream));
        assert_eq!(values(&record, &[path]), [Some("7".to_owned())]);
        assert_eq!(values(&format!(r#"{{"response": {}}}"#, usage(2)), &[path]), [Some("2".to_owned())]);
        assert_eq!(values(r#"{"list": [{"a": 1}]}"#, &["list.a"]), [None], "other arrays stay closed");
    }

    #[test]
    fn the_kind_of_prompt_shows_in_its_fields() {
        let held = |record: &str| read_text(record, &[]).expect(record).0;
        let none = PromptForms::default();
        assert_eq!(held(r#"{"messages": []}"#), PromptForms { body: true, ..none });
        assert_eq!(held(r#"{"prompt": "x"}"#), PromptForms { body: true, ..none });
        assert_eq!(held(r#"{"page_ids": [1]}"#), PromptForms { page_ids: true, ..none });
        assert_eq!(held(r#"{"token_ids": [1]}"#), PromptForms { tokens: true, ..none });
        assert_eq!(
            held(r#"{"tokens": 5, "messages": []}"#),
            PromptForms { body: true, ..none },
            "a number of tokens"
        );
        assert_eq!(held("{}"), none);
    }

    #[test]
    fn refusals_quote_nothing() {
        let long = format!(r#"{{"model": "hunter2{}"}}"#, "x".repeat(MAX_VALUE_BYTES));
        for (record, code) in [
            (r#"{"model": "hunter2"#, ErrorCode::Undecodable),
            (r#"["hunter2"]x"#, ErrorCode::Undecodable),
            (r#""hunter2""#, ErrorCode::Undecodable),
            (r#"{"tokens": ["hunter2"]}"#, ErrorCode::Undecodable),
            (r#"{"tokens": [1], "input_ids": [2]}"#, ErrorCode::Undecodable),
            (&long, ErrorCode::InvalidField),
        ] {
            let error = read_text(record, &["model"]).err().expect(record);
            assert_eq!(error.code(), code, "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
