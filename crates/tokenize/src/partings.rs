//! Where prompts part early for a reason that somebody should know: tools in another order each time, a clock in front.
//!
//! A prompt is found again as far as it is the same, so what changes near its head costs all behind it. This looks at
//! the two parts that stand there, and at nothing else: the tools, and the first text, which is the system's where it
//! says anything.

use super::fields::ObjectFields;
use super::remarks::ChatRemarks;
use hashbrown::HashMap;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

/// Most different sets of tools, and most different first texts, that are remembered.
const MOST: usize = 4096;
/// How many characters of a first text are kept to tell where another one parts from it.
const KEPT_CHARACTERS: usize = 1024;
/// Fewest bytes of a first text that is not the system's.
const LONG_BYTES: usize = 400;

/// What prompts before this one had at their heads. In memory bounded by [`MOST`].
#[derive(Debug, Default)]
pub(super) struct HeadPartings {
    /// The order of tools that came first, by what they are in any order.
    tools: Seen<u64>,
    /// The hash and the begin of the first text that came first, by what it is but for its numbers.
    heads: Seen<(u64, Box<str>)>,
}

type Seen<T> = HashMap<u64, T, foldhash::fast::RandomState>;

/// The first text of a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstText<'a> {
    pub text: &'a str,
    /// Whether the system says it.
    pub is_system: bool,
}

impl<'a> FirstText<'a> {
    /// That of a chat, where its first message is one text.
    pub fn of_chat(messages: &'a [ObjectFields]) -> Option<Self> {
        let first = messages.first()?;
        let is_system = ["system", "developer"].contains(&first.role());
        Some(Self { text: first.get("content")?.as_str()?, is_system }).filter(|first| first.shares())
    }

    /// That of a completion.
    pub fn of_completion(text: &'a str) -> Option<Self> {
        Some(Self { text, is_system: false }).filter(|first| first.shares())
    }

    /// Whether so much stands in it that others could share it: a short question is a prompt's own.
    fn shares(&self) -> bool {
        self.is_system || self.text.len() >= LONG_BYTES
    }
}

impl HeadPartings {
    /// Looks at a prompt, its tools as the body has them and its first text, and says how it parts from an earlier one.
    pub fn observe(&mut self, tools: Option<&RawValue>, head: Option<FirstText<'_>>) -> ChatRemarks {
        let is_reordered = tools.is_some_and(|tools| self.is_reordered(tools));
        let parted = head.and_then(|head| Some((self.parted_head(head)?, head.is_system)));
        let is_of = |system: bool| u64::from(parted.is_some_and(|(_, is_system)| is_system == system));
        ChatRemarks {
            reordered_tools: u64::from(is_reordered),
            renumbered_systems: is_of(true),
            renumbered_texts: is_of(false),
            parted_at: parted.and_then(|(at, _)| at),
            ..ChatRemarks::default()
        }
    }

    fn is_reordered(&mut self, tools: &RawValue) -> bool {
        let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(tools.get()) else { return false };
        if tools.len() < 2 {
            return false;
        }
        let hashes: Vec<u64> = tools.iter().map(|tool| xxh3_64(tool.get().as_bytes())).collect();
        let in_any_order = hashes.iter().fold(0u64, |sum, hash| sum.wrapping_add(*hash));
        let follow = |all: u64, hash: &u64| xxh3_64([all.to_le_bytes(), hash.to_le_bytes()].as_flattened());
        let in_order = hashes.iter().fold(0, follow);
        match self.tools.get(&in_any_order) {
            Some(first) => *first != in_order,
            None => {
                if self.tools.len() < MOST {
                    self.tools.insert(in_any_order, in_order);
                }
                false
            }
        }
    }

    /// Where a first text that is an earlier one but for numbers parts from it: the character, counted from 0, as far
    /// as the earlier one is known.
    fn parted_head(&mut self, FirstText { text, .. }: FirstText<'_>) -> Option<Option<usize>> {
        let hash = xxh3_64(text.as_bytes());
        let without_numbers = xxh3_64(without_numbers(text).as_bytes());
        match self.heads.get(&without_numbers) {
            Some((first, _)) if *first == hash => None,
            Some((_, begin)) => Some(parts_at(begin, text)),
            None => {
                if self.heads.len() < MOST {
                    let begin = text.chars().take(KEPT_CHARACTERS).collect::<String>().into();
                    self.heads.insert(without_numbers, (hash, begin));
                }
                None
            }
        }
    }
}

/// The character at which another text parts from one with this begin.
fn parts_at(begin: &str, other: &str) -> Option<usize> {
    begin.chars().zip(other.chars()).position(|(own, other)| own != other)
}

/// A text with each word that has a digit in it, such as a date, a count or an id, made the same.
fn without_numbers(text: &str) -> String {
    let mut without = String::with_capacity(text.len());
    for word in text.split_inclusive(|character: char| !character.is_alphanumeric()) {
        let end = word.trim_end_matches(|character: char| !character.is_alphanumeric()).len();
        let (word, rest) = word.split_at(end);
        without.push_str(if word.bytes().any(|byte| byte.is_ascii_digit()) { "0" } else { word });
        without.push_str(rest);
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    #[test]
    fn tools_in_another_order_part_and_other_tools_do_not() {
        let mut partings = HeadPartings::default();
        let mut parted = |json: &str| partings.observe(Some(&tools(json)), None).reordered_tools > 0;
        assert!(!parted(r#"[{"name": "a"}, {"name": "b"}]"#));
        assert!(!parted(r#"[{"name": "a"}, {"name": "b"}]"#));
        assert!(parted(r#"[{"name": "b"}, {"name": "a"}]"#));
        assert!(!parted(r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}]"#));
        assert!(!parted("[1]") && !parted("null") && !parted("[]"));
    }

    #[test]
    fn numbers_in_the_system_message_part_where_the_first_one_stands() {
        let mut partings = HeadPartings::default();
        let mut parted = |text: &str| {
            let remarks = partings.observe(None, Some(FirstText { text, is_system: true }));
            (remarks.renumbered_systems > 0).then_some(remarks.parted_at)
        };
        assert_eq!(parted("It is 10:15 on day 3. Be kind."), None);
        assert_eq!(parted("It is 10:15 on day 3. Be kind."), None);
        assert_eq!(parted("It is 10:16 on day 3. Be kind."), Some(Some(10)));
        assert_eq!(parted("It is 9:00 on day 12. Be kind."), Some(Some(6)));
        assert_eq!(parted("It is 10:15 on day 3. Be brief."), None, "another text");
        let long = |id: &str| format!("{} session a{id}f0", "word ".repeat(400));
        assert_eq!(parted(&long("1")), None);
        assert_eq!(parted(&long("2")), Some(None), "behind what is kept");
    }

    #[test]
    fn a_short_question_is_a_prompts_own() {
        assert!(FirstText::of_completion("What is 1 + 2?").is_none());
        assert!(FirstText::of_completion(&"At 10:15 ".repeat(60)).is_some_and(|head| !head.is_system));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut partings = HeadPartings::default();
        for number in 0..2 * MOST {
            let letters: String =
                format!("{number:08}").bytes().map(|digit| char::from(digit + 49)).collect();
            let head = FirstText { text: &letters, is_system: true };
            partings.observe(Some(&tools(&format!(r#"["{letters}", 1]"#))), Some(head));
        }
        assert_eq!((partings.tools.len(), partings.heads.len()), (MOST, MOST));
    }
}
