//! What a row says of the answer to its prompt: how long it was, how long it took, and how much of the
//! prompt came from the serving engine's cache (WHATIF 1).
//!
//! The usage is the row's own, that of its `response`, or the last one of the chunks a response was streamed
//! in: an array of chunks, or the stream's text as it was sent (`data: {...}` lines).

use super::json::{Fields, Object, Time, TimeUnit, Trouble, ignore};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Fields of a row that hold an [`Answer`], or lead to one. The names inside `usage` are those of the
/// completions API, then those of the responses API, of Anthropic and of DeepSeek.
const KNOWN: [&str; 20] = [
    "usage",
    "response",
    "chunks",
    "message",
    "body",
    "completion_tokens",
    "output_tokens",
    "output_length",
    "prompt_tokens",
    "input_tokens",
    "duration_ms",
    "prompt_tokens_details",
    "input_tokens_details",
    "cached_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation",
    "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens",
    "prompt_cache_hit_tokens",
];

/// Prompt tokens that a request wrote to its provider's cache, as Anthropic counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheWrites {
    /// All of them.
    pub tokens: u64,
    /// Those that are kept for five minutes.
    pub five_minutes: u64,
    /// Those that are kept for an hour.
    pub one_hour: u64,
}

impl CacheWrites {
    /// Those of which nothing says how long they are kept.
    pub fn unstated(&self) -> u64 {
        self.tokens.saturating_sub(self.five_minutes.saturating_add(self.one_hour))
    }

    /// Adds another request's.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.five_minutes = self.five_minutes.saturating_add(other.five_minutes);
        self.one_hour = self.one_hour.saturating_add(other.one_hour);
    }

    /// What a response says: an object, its chunks, or the stream as it was sent. Nothing where its usage counts none.
    pub fn of_response(text: &str) -> Option<Self> {
        Answer::of_response(text)?.cache_writes(1)
    }
}

/// What was found beside a prompt, or in the `usage` of its response.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The known field that is being read; empty in unknown ones.
    field: &'static str,
    /// Tokens generated, for all prompts of the row.
    output_tokens: Option<u64>,
    /// Tokens of the prompt as the serving engine counted them, for all prompts of the row.
    prompt_tokens: Option<u64>,
    /// The same, but for what Anthropic counts apart.
    input_tokens: Option<u64>,
    /// Prompt tokens that came from the cache.
    cached_tokens: Option<u64>,
    /// The same, and those that were written to it, as Anthropic counts them.
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    /// The latter by how long they are kept.
    five_minutes: Option<u64>,
    one_hour: Option<u64>,
    /// From arrival to the last token.
    duration_ms: Option<i64>,
}

impl Answer {
    /// Reads an answer that was found by itself: an object, its chunks, or the stream as it was sent. Nothing where it
    /// is none of these.
    pub fn of_response(text: &str) -> Option<Self> {
        let mut answer = Self::default();
        let response = Response(&mut answer);
        if text.trim_start().starts_with(['{', '[']) {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            response.deserialize(&mut deserializer).ok()?;
        } else {
            response.visit_str::<serde_json::Error>(text).ok()?;
        }
        Some(answer)
    }

    /// Whether a field of the row itself belongs here. A `body` there is the request's.
    pub fn takes(key: &str) -> bool {
        const TAKEN: [&str; 7] =
            ["usage", "response", "chunks", "output_tokens", "output_length", "duration_ms", "cached_tokens"];
        TAKEN.contains(&key)
    }

    /// Reads a field of the row that [`takes`](Self::takes) it; `trouble` learns where parsing stopped.
    pub fn read<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        trouble: &mut Trouble,
    ) -> Result<(), A::Error> {
        let read = self.field(key, map);
        trouble.field = self.field;
        read
    }

    /// Tokens generated for one of the row's `prompts`; a sum over several tells of none.
    pub fn output_tokens(&self, prompts: usize) -> Option<u64> {
        self.output_tokens.filter(|_| prompts == 1)
    }

    /// Tokens of the row's only prompt as the serving engine counted them.
    pub fn prompt_tokens(&self, prompts: usize) -> Option<u64> {
        let apart = self.cache_read.unwrap_or(0).saturating_add(self.cache_creation.unwrap_or(0));
        let summed = self.input_tokens.map(|rest| rest.saturating_add(apart));
        self.prompt_tokens.or(summed).filter(|_| prompts == 1)
    }

    /// Tokens of the row's only prompt that came from the serving engine's cache.
    pub fn cached_tokens(&self, prompts: usize) -> Option<u64> {
        self.cached_tokens.or(self.cache_read).filter(|_| prompts == 1)
    }

    /// Tokens of the row's only prompt that were written to the provider's cache.
    pub fn cache_writes(&self, prompts: usize) -> Option<CacheWrites> {
        let (five_minutes, one_hour) = (self.five_minutes.unwrap_or(0), self.one_hour.unwrap_or(0));
        let classed = five_minutes.saturating_add(one_hour);
        let is_classed = self.five_minutes.is_some() || self.one_hour.is_some();
        let tokens = self.cache_creation.or(is_classed.then_some(classed))?;
        // A class beyond the sum is of other chunks than the sum: all that is known is the larger.
        let tokens = tokens.max(classed);
        (prompts == 1).then_some(CacheWrites { tokens, five_minutes, one_hour })
    }

    /// From arrival to the last token, in milliseconds.
    pub fn duration_ms(&self) -> Option<u64> {
        self.duration_ms.and_then(|ms| u64::try_from(ms).ok())
    }

    /// Reads a number; a later chunk without it leaves what an earlier one said.
    fn number<'de, A: MapAccess<'de>>(map: &mut A, held: &mut Option<u64>) -> Result<(), A::Error> {
        if let Some(number) = map.next_value()? {
            *held = Some(number);
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for Answer {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.field = KNOWN.into_iter().find(|name| *name == key).unwrap_or_default();
        match self.field {
            "usage"
            | "body"
            | "message"
            | "prompt_tokens_details"
            | "input_tokens_details"
            | "cache_creation" => {
                map.next_value_seed(Object(self))?;
            }
            "response" | "chunks" => map.next_value_seed(Response(self))?,
            "completion_tokens" | "output_tokens" | "output_length" => {
                Self::number(map, &mut self.output_tokens)?;
            }
            "prompt_tokens" => Self::number(map, &mut self.prompt_tokens)?,
            "input_tokens" => Self::number(map, &mut self.input_tokens)?,
            "cached_tokens" | "prompt_cache_hit_tokens" => Self::number(map, &mut self.cached_tokens)?,
            "cache_read_input_tokens" => Self::number(map, &mut self.cache_read)?,
            "cache_creation_input_tokens" => Self::number(map, &mut self.cache_creation)?,
            "ephemeral_5m_input_tokens" => Self::number(map, &mut self.five_minutes)?,
            "ephemeral_1h_input_tokens" => Self::number(map, &mut self.one_hour)?,
            "duration_ms" => self.duration_ms = Time::read(map, TimeUnit::Milliseconds)?,
            _ => ignore(map)?,
        }
        Ok(())
    }
}

/// A response: an object, the array of chunks it was streamed in, or the stream as it was sent.
struct Response<'a>(&'a mut Answer);

impl<'de> DeserializeSeed<'de> for Response<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Response<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a response, its chunks, or its stream")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        Object(self.0).visit_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut chunks: A) -> Result<(), A::Error> {
        while chunks.next_element_seed(Object(&mut *self.0))?.is_some() {}
        Ok(())
    }

    /// A line of a stream that is no JSON, such as the `[DONE]` at its end, says nothing of usage.
    fn visit_str<E: Error>(self, stream: &str) -> Result<(), E> {
        for chunk in stream.lines().filter_map(|line| line.strip_prefix("data:")) {
            if !chunk.trim_start().starts_with('{') {
                continue;
            }
            let mut deserializer = serde_json::Deserializer::from_str(chunk);
            Object(&mut *self.0).deserialize(&mut deserializer).map_err(|_| E::custom("not a chunk"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_writes_are_told_by_how_long_they_are_kept() {
        let of = |usage: &str| CacheWrites::of_response(&format!(r#"{{"usage": {usage}}}"#));
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
        assert_eq!(CacheWrites::of_response(&stream), writes(7, 3, 4));
    }
}
