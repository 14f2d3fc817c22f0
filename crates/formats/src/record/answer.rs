//! What a row says of the answer to its prompt: how long it was, how long it took, and how much of the
//! prompt came from the serving engine's cache.
//!
//! The usage is the row's own, that of its `response`, or the last one of the chunks a response was streamed
//! in: an array of chunks, or the stream's text as it was sent (`data: {...}` lines).

use super::answer_names::{
    self, ANSWER_IDS, CountKind, DETAILS, RESPONSES, USAGES, count_of, of_prompt, one_of, standard,
};
use super::generated::{Generated, GeneratedReading, List};
use super::json::{Fields, Object, ParseTrouble, ignore, read_length, read_line};
use super::numbers;
use super::observed::{CacheWrites, ObservedRequest};
use super::outcome::LoggedOutcome;
use super::stated_time::{DURATION, StatedTime};
use crate::any_value::{Any, Scalar, TakeValue};
use crate::codec::{DecodeError, ErrorCode};
use crate::time::{NumberUnit, Numbers};
use kvset_core::request::event::CachedTokens;
use serde::de::value::MapDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::time::Duration;

/// Fields of a response that have what was generated, or end it: of chat completions and completions, of Anthropic's
/// Messages API and of OpenAI's Responses API.
const GENERATED: [&str; 5] = ["choices", "content", "delta", "stop_reason", "output"];

/// What was found alongside a prompt, or in the `usage` of its response.
#[derive(Debug, Default)]
pub struct LoggedAnswer {
    /// Where reading is, or why it stopped.
    trouble: ParseTrouble,
    /// What is counted, by its [kind](CountKind), for all prompts of the row.
    counts: [Option<u64>; CountKind::COUNT],
    /// What was generated.
    generated: GeneratedReading,
    /// From arrival to the last token.
    duration: Option<Duration>,
    /// The same by other names.
    times: StatedTime,
    /// Whether a cache served the request.
    outcome: LoggedOutcome,
    /// Whether the object at hand is a usage.
    in_usage: bool,
}

impl LoggedAnswer {
    /// Reads an answer that was found by itself: an object, its chunks, or the stream as it was sent. What is none of
    /// these, or was cut off, says nothing of usage from there on: of the prompt it is no part.
    ///
    /// # Errors
    /// A count of its usage is no count.
    pub fn of_response(text: &str) -> Result<Self, DecodeError> {
        let mut answer = Self::default();
        answer.read_text(text);
        match answer.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok(answer),
        }
    }

    /// Reads the value of a field of a record that [`takes`](Self::takes) it.
    ///
    /// # Errors
    /// A count is no count.
    pub fn read_value(&mut self, key: &str, value: &RawValue) -> Result<(), DecodeError> {
        let mut field = MapDeserializer::new(std::iter::once((key, value)));
        let read = field.next_key::<IgnoredAny>().and_then(|_| self.row_field(key, &mut field));
        match (self.refusal(), read) {
            (Some(refusal), _) => Err(refusal),
            (None, Err(_)) => {
                let detail = format!("`{}` has the wrong type", self.trouble.field);
                Err(DecodeError::new(self.code(), detail))
            }
            (None, Ok(())) => Ok(()),
        }
    }

    /// Takes a count that a record has under a dotted path.
    ///
    /// # Errors
    /// It is no count.
    pub fn read_named(&mut self, path: &str, value: &str) -> Result<(), DecodeError> {
        let takes = path.split('.').next().is_some_and(Self::takes);
        let last = path.rsplit('.').next().filter(|_| takes);
        let known = of_prompt(path).or_else(|| count_of(last?, true));
        let Some((name, kind)) = known else { return Ok(()) };
        self.trouble.field = name;
        let read = numbers::count(value).map_err(|why| {
            DecodeError::new(self.code(), format!("`{}` holds no count: {why}", self.trouble.field))
        })?;
        self.note(kind, read);
        Ok(())
    }

    /// The same, and of another answer what this one does not say.
    pub fn or(self, other: Self) -> Self {
        Self {
            trouble: ParseTrouble::default(),
            counts: std::array::from_fn(|kind| self.counts[kind].or(other.counts[kind])),
            generated: self.generated.or(other.generated),
            duration: self.duration.or(other.duration),
            times: self.times.or(other.times),
            outcome: self.outcome.or(other.outcome),
            in_usage: false,
        }
    }

    /// The refusal of what was found to be wrong.
    fn refusal(&mut self) -> Option<DecodeError> {
        let fault = self.trouble.fault.take()?;
        Some(DecodeError::new(self.code(), fault.to_string()))
    }

    /// The code of what is wrong with the field at hand.
    fn code(&self) -> ErrorCode {
        match count_of(self.trouble.field, true) {
            Some((_, CountKind::Cached | CountKind::CacheRead)) => ErrorCode::InvalidCachedTokens,
            _ => ErrorCode::InvalidNumber,
        }
    }

    /// Reads an answer that is a text, as far as it is one.
    fn read_text(&mut self, text: &str) {
        if text.trim_start().starts_with(['{', '[']) {
            // Whether the text is JSON to its end does not matter.
            drop(read_line(text.as_bytes(), Any(Response(self))));
            return;
        }
        for chunk in text.lines().filter_map(|line| line.strip_prefix("data:")) {
            // A line that is no JSON, such as the `[DONE]` at the end, says nothing of usage.
            if chunk.trim_start().starts_with('{') && self.trouble.fault.is_none() {
                drop(read_line(chunk.as_bytes(), Any(Response(self))));
            }
        }
    }

    /// The names of all that belongs here.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        answer_names::all()
    }

    /// Whether a field of the row itself belongs here. A `body` there is the request's.
    pub fn takes(key: &str) -> bool {
        answer_names::is_of_row(key)
    }

    /// Reads a field of the row itself.
    fn row_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let key = standard(key);
        if let Some(known) = StatedTime::name(key).filter(|known| known.is_length()) {
            return self.times.read(known, map, Numbers::Dates, &mut self.trouble);
        }
        match of_prompt(key) {
            Some((name, kind)) => self.read_count(name, kind, map),
            None => self.field(key, map),
        }
    }

    /// Reads a count; a later chunk without it leaves what an earlier one said.
    fn read_count<'de, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        kind: CountKind,
        map: &mut A,
    ) -> Result<(), A::Error> {
        self.trouble.field = name;
        let read = self.trouble.count(map)?;
        self.note(kind, read);
        Ok(())
    }

    fn note(&mut self, kind: CountKind, read: Option<u64>) {
        let held = &mut self.counts[kind as usize];
        *held = read.or(*held);
    }

    fn count(&self, kind: CountKind) -> Option<u64> {
        self.counts[kind as usize]
    }

    /// Reads a field of the row that [`takes`](Self::takes) it; `trouble` learns where parsing stopped.
    pub(crate) fn read<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        trouble: &mut ParseTrouble,
    ) -> Result<(), A::Error> {
        let read = self.row_field(key, map);
        *trouble = std::mem::take(&mut self.trouble);
        read
    }

    /// Tokens generated for one of the row's `prompts`; a sum over several tells of none.
    pub fn output_tokens(&self, prompts: usize) -> Option<u64> {
        let listed = self.generated.listed();
        self.count(CountKind::Output).or(listed).filter(|_| prompts == 1)
    }

    /// What was generated for the row's only prompt.
    pub fn generated(&self, prompts: usize) -> Generated {
        if prompts == 1 {
            self.generated.generated(self.count(CountKind::Output))
        } else {
            Generated::Unknown
        }
    }

    /// Tokens of all of the row's prompts together as the serving engine counted them.
    pub fn prompt_tokens(&self) -> Option<u64> {
        let count = |kind| self.count(kind);
        let apart = [CountKind::CacheRead, CountKind::CacheCreation].map(|kind| count(kind).unwrap_or(0));
        let summed = count(CountKind::Input).map(|rest| match count(CountKind::Output) {
            // The sum says that the rest is all.
            Some(output) if count(CountKind::Total) == Some(rest.saturating_add(output)) => rest,
            _ => apart.into_iter().fold(rest, u64::saturating_add),
        });
        count(CountKind::Prompt).or(summed).or(count(CountKind::RowTokens))
    }

    /// The same of a row of token ids, whose length is one of tokens.
    pub fn prompt_ids(&self) -> Option<u64> {
        self.prompt_tokens().or(self.count(CountKind::RowLength))
    }

    /// Tokens of the row's only prompt that came from the serving engine's cache. Engines and APIs leave them out of a
    /// usage where nothing was cached.
    pub fn cached_tokens(&self, prompts: usize) -> CachedTokens {
        if prompts != 1 {
            return CachedTokens::Unstated;
        }
        let has_usage = self.count(CountKind::Prompt).or(self.count(CountKind::Input)).is_some();
        let cached = self.count(CountKind::Cached).or(self.count(CountKind::CacheRead));
        CachedTokens::of_usage(cached, has_usage)
    }

    /// Tokens of the row's only prompt that were written to the provider's cache.
    pub fn cache_writes(&self, prompts: usize) -> Option<CacheWrites> {
        let classes = [CountKind::FiveMinutes, CountKind::OneHour].map(|kind| self.count(kind));
        let [five_minutes, one_hour] = classes.map(Option::unwrap_or_default);
        let classed = five_minutes.saturating_add(one_hour);
        let is_classed = classes != [None; 2];
        let tokens = self.count(CountKind::CacheCreation).or(is_classed.then_some(classed))?;
        // A class beyond the sum is of other chunks than the sum: all that is known is the larger.
        let tokens = tokens.max(classed);
        (prompts == 1).then_some(CacheWrites { tokens, five_minutes, one_hour })
    }

    /// What all of that says of the row's only prompt.
    pub fn observed(&self) -> ObservedRequest {
        ObservedRequest {
            duration: self.duration(),
            input_tokens: self.prompt_tokens(),
            input_length: self.count(CountKind::RowLength),
            output_tokens: self.output_tokens(1),
            answer: self.generated(1),
            cached_tokens: self.cached_tokens(1),
            cache_writes: self.cache_writes(1),
            unread: Vec::new(),
        }
    }

    /// Takes a list of token ids that was found elsewhere in the record.
    pub fn list(&mut self, ids: &str) {
        self.generated.list(ids);
    }

    /// From arrival to the last token.
    pub fn duration(&self) -> Option<Duration> {
        self.duration.or(self.times.length())
    }

    /// Why no cache of pages served the request, where the row says so.
    pub fn passed_over(&self) -> Option<&'static str> {
        self.outcome.passed_over(self.count(CountKind::Cached).is_some())
    }

    /// Reads a usage, or what leads to one.
    fn below<'de, A: MapAccess<'de>>(&mut self, in_usage: bool, map: &mut A) -> Result<(), A::Error> {
        let outside = std::mem::replace(&mut self.in_usage, in_usage);
        let read = map.next_value_seed(Any(Response(self)));
        self.in_usage = outside;
        read
    }
}

impl<'de> Fields<'de> for LoggedAnswer {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let key = standard(key);
        if let Some(name) = one_of(&ANSWER_IDS, key) {
            self.trouble.field = name;
            return map.next_value_seed(List(&mut self.generated));
        }
        if GENERATED.contains(&key) && !self.in_usage {
            let value: &RawValue = map.next_value()?;
            match key {
                "choices" => self.generated.choices(value),
                "content" => self.generated.content(value),
                "delta" => self.generated.delta(value),
                "output" => self.generated.output(value),
                _ => self.generated.end(value),
            }
            return Ok(());
        }
        self.trouble.field = "";
        if let Some((name, kind)) = count_of(key, self.in_usage) {
            return self.read_count(name, kind, map);
        }
        if let Some(name) = one_of(&USAGES, key).or_else(|| one_of(&DETAILS, key)) {
            self.trouble.field = name;
            return self.below(true, map);
        }
        if let Some(name) = one_of(&RESPONSES, key) {
            self.trouble.field = name;
            return self.below(false, map);
        }
        match key {
            DURATION => {
                self.trouble.field = DURATION;
                self.duration = read_length(map, NumberUnit::Milliseconds)?;
                Ok(())
            }
            _ if LoggedOutcome::takes(key) && !self.in_usage => {
                self.outcome.read(key, map.next_value()?);
                Ok(())
            }
            _ => ignore(map),
        }
    }
}

/// A response or a part of it: an object, as such or in a text; the array of chunks it was streamed in; or the stream
/// as it was sent. Whatever else stands there, such as the text of a message, says nothing of usage.
struct Response<'a>(&'a mut LoggedAnswer);

impl<'de> TakeValue<'de> for Response<'_> {
    type Taken = ();

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<(), E> {
        let Scalar::Text(text) = scalar else { return Ok(()) };
        self.0.read_text(&text);
        if self.0.trouble.fault.is_some() { Err(E::custom("refused")) } else { Ok(()) }
    }

    fn object<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        Object(self.0).visit_map(object)
    }

    fn list<A: SeqAccess<'de>>(self, mut chunks: A) -> Result<(), A::Error> {
        // Usages side by side are of samples of one prompt, which was looked up for the first of them.
        if self.0.in_usage && chunks.next_element_seed(Any(Response(&mut *self.0)))?.is_some() {
            while chunks.next_element::<IgnoredAny>()?.is_some() {}
        }
        while chunks.next_element_seed(Any(Response(&mut *self.0)))?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_listed_has_as_many_tokens_as_ids() {
        let of = |json: &str| LoggedAnswer::of_response(json).expect("an answer").output_tokens(1);
        assert_eq!(of(r#"{"output_token_ids": [4, 5, 6]}"#), Some(3));
        assert_eq!(of(r#"{"output_ids": [], "usage": null}"#), Some(0));
        assert_eq!(
            of(r#"{"output_ids": [4, 5], "usage": {"completion_tokens": 7}}"#),
            Some(7),
            "the last chunk's"
        );
        assert_eq!(of(r#"{"completion_token_ids": null}"#), None);
        assert_eq!(of(r#"{"response_token_ids": "cut off"}"#), None);
    }

    /// Samples of one prompt were taken for a decode worker, for each but the first finds all of it.
    #[test]
    fn of_usages_side_by_side_the_first_says_what_was_found() {
        let of = |json: &str| LoggedAnswer::of_response(json).expect("an answer").cached_tokens(1);
        let samples = r#"{"meta_info": [{"prompt_tokens": 96, "cached_tokens": 32}, {"cached_tokens": 95}]}"#;
        assert_eq!(of(samples), CachedTokens::Stated(32));
        assert_eq!(
            of(r#"[{"usage": {"cached_tokens": 1}}, {"usage": {"cached_tokens": 2}}]"#),
            CachedTokens::Stated(2)
        );
    }

    #[test]
    fn ids_of_an_answer_are_all_of_them_or_none() {
        let ids =
            |text: &str| LoggedAnswer::of_response(text).expect("an answer").generated(1).ids().to_vec();
        assert_eq!(ids(r#"{"output_ids": [4, "5", 6.0]}"#), [4, 5, 6]);
        assert_eq!(ids(r#"{"output_ids": "[4, 5]", "usage": {"completion_tokens": 2}}"#), [4, 5]);
        assert_eq!(ids(r#"{"choices": [{"index": 0, "token_ids": [4, 5]}]}"#), [4, 5]);
        let stream = "data: {\"choices\": [{\"index\": 0, \"token_ids\": [4]}]}\n\n\
            data: {\"choices\": [{\"index\": 0, \"token_ids\": [5, 6]}]}\n\n\
            data: {\"choices\": [], \"usage\": {\"completion_tokens\": 3}}\n\ndata: [DONE]\n";
        assert_eq!(ids(stream), [4, 5, 6], "each chunk goes on");
        for other in [
            r#"{"output_ids": [4, 5], "usage": {"completion_tokens": 7}}"#,
            r#"{"choices": [{"index": 0, "token_ids": [4]}, {"index": 1, "token_ids": [5]}]}"#,
            r#"{"output_ids": ["a", "b"]}"#,
            r#"{"choices": [{"index": 0, "message": {"content": "x"}}]}"#,
            r#"{"output_ids": [-4]}"#,
        ] {
            assert_eq!(ids(other), [0u32; 0], "{other}");
        }
        let several = LoggedAnswer::of_response(r#"{"output_ids": [4, 5]}"#).expect("an answer");
        assert!(several.generated(2).ids().is_empty(), "of several prompts it is none's");
    }

    #[test]
    fn cache_writes_are_told_by_how_long_they_are_kept() {
        let of_response = |text: &str| LoggedAnswer::of_response(text).ok()?.cache_writes(1);
        let of = |usage: &str| of_response(&format!(r#"{{"usage": {usage}}}"#));
        let writes = |tokens, five_minutes, one_hour| Some(CacheWrites { tokens, five_minutes, one_hour });
        let classes = r#""cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}"#;
        assert_eq!(of(&format!(r#"{{"cache_creation_input_tokens": 7, {classes}}}"#)), writes(7, 3, 4));
        assert_eq!(of(&format!("{{{classes}}}")), writes(7, 3, 4));
        assert_eq!(of(r#"{"cache_creation_input_tokens": 7}"#), writes(7, 0, 0));
        assert_eq!(of(r#"{"cache_creation_input_tokens": 0, "cache_creation": null}"#), writes(0, 0, 0));
        assert_eq!(of(r#"{"prompt_tokens": 9}"#), None);
        assert_eq!(writes(9, 3, 4).map(|writes| writes.unstated()), Some(2));
        let stream = format!(
            "event: message_start\ndata: {{\"message\": {{\"usage\": {{\"cache_creation_input_tokens\": 7, {classes}}}}}}}\n\n\
             data: {{\"type\": \"message_delta\", \"usage\": {{\"output_tokens\": 2}}}}\n"
        );
        assert_eq!(of_response(&stream), writes(7, 3, 4));
    }
}
