//! What a row says of the answer to its prompt: how long it was and how long it took.

use super::json::{Fields, Object, Time, TimeUnit, Trouble, ignore};
use serde::de::MapAccess;

/// Fields of a row that hold an [`Answer`], or lead to one. The names inside `usage` are those of the
/// completions API, then those of the responses API.
const KNOWN: [&str; 9] = [
    "usage",
    "response",
    "body",
    "completion_tokens",
    "output_tokens",
    "output_length",
    "prompt_tokens",
    "input_tokens",
    "duration_ms",
];

/// What was found beside a prompt, or in the `usage` of its response.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The known field that is being read; empty in unknown ones.
    field: &'static str,
    /// Tokens generated, for all prompts of the row.
    output_tokens: Option<u64>,
    /// Tokens of the prompt as the serving engine counted them, for all prompts of the row.
    prompt_tokens: Option<u64>,
    /// From arrival to the last token.
    duration_ms: Option<i64>,
}

impl Answer {
    /// Whether a field of the row itself belongs here. A `body` there is the request's.
    pub fn takes(key: &str) -> bool {
        ["usage", "response", "output_tokens", "output_length", "duration_ms"].contains(&key)
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
        self.prompt_tokens.filter(|_| prompts == 1)
    }

    /// From arrival to the last token, in milliseconds.
    pub fn duration_ms(&self) -> Option<u64> {
        self.duration_ms.and_then(|ms| u64::try_from(ms).ok())
    }
}

impl<'de> Fields<'de> for Answer {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.field = KNOWN.into_iter().find(|name| *name == key).unwrap_or_default();
        match self.field {
            "usage" | "response" | "body" => map.next_value_seed(Object(self))?,
            "completion_tokens" | "output_tokens" | "output_length" => {
                self.output_tokens = map.next_value()?;
            }
            "prompt_tokens" | "input_tokens" => self.prompt_tokens = map.next_value()?,
            "duration_ms" => self.duration_ms = Time::read(map, TimeUnit::Milliseconds)?,
            _ => ignore(map)?,
        }
        Ok(())
    }
}
