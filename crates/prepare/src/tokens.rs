//! Token ids of one prompt or several.

use kvset_formats::any_value::{Any, Scalar, TakeValue, wrong_kind};
use kvset_formats::record::numbers::{TokenId, WholeNumber};
use serde::de::{DeserializeSeed, Error, SeqAccess};

/// The prompts of a record, in memory reused from record to record. `Debug` is left out: token ids must
/// reach no log.
#[derive(Default)]
pub(super) struct RecordPrompts {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl RecordPrompts {
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
    }

    /// One prompt of these tokens, and no other.
    pub(super) fn set(&mut self, tokens: Vec<u32>) {
        self.ids = tokens;
        self.ends = vec![self.ids.len()];
    }

    /// These prompts, and no other.
    pub(super) fn set_all(&mut self, prompts: &[Vec<u32>]) {
        self.clear();
        for tokens in prompts {
            self.ids.extend_from_slice(tokens);
            self.end_prompt();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.ids[start..*end])
    }

    fn end_prompt(&mut self) {
        self.ends.push(self.ids.len());
    }
}

/// An array of token ids, or of arrays of them; says whether it is one. Under the same names logs keep
/// numbers of tokens, which say nothing here.
pub(super) struct TokenArray<'p> {
    pub(super) prompts: &'p mut RecordPrompts,
    /// Whether this is an item of an array, where a number is a token.
    pub(super) is_item: bool,
}

impl TokenArray<'_> {
    fn token<E: Error>(self, token: WholeNumber) -> Result<bool, E> {
        let TokenId(token) = TokenId::of(token).map_err(E::custom)?;
        self.prompts.ids.push(token);
        Ok(false)
    }
}

impl<'de> TakeValue<'de> for TokenArray<'_> {
    type Taken = bool;

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<bool, E> {
        match scalar {
            Scalar::Flag(_) => Err(wrong_kind()),
            Scalar::Null if self.is_item => Err(wrong_kind()),
            Scalar::Signed(_) => self.token(WholeNumber::of_scalar(&scalar)),
            _ if self.is_item => self.token(WholeNumber::of_scalar(&scalar)),
            // A list of which a database has made a text; any other text says nothing here.
            Scalar::Text(text) if text.trim_start().starts_with('[') => {
                let mut list = serde_json::Deserializer::from_str(&text);
                let read = Any(self).deserialize(&mut list).and_then(|read| list.end().map(|()| read));
                read.map_err(|_| E::custom("no list of token ids"))
            }
            _ => Ok(false),
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut array: A) -> Result<bool, A::Error> {
        let (mut lone, mut lists) = (false, false);
        if self.is_item {
            while let Some(TokenId(token)) = array.next_element()? {
                self.prompts.ids.push(token);
            }
        } else {
            while let Some(is_list) =
                array.next_element_seed(Any(TokenArray { prompts: self.prompts, is_item: true }))?
            {
                (lone, lists) = (lone | !is_list, lists | is_list);
                if lone && lists {
                    return Err(A::Error::custom("tokens and arrays of tokens in one array"));
                }
            }
        }
        if !lists {
            self.prompts.end_prompt();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Vec<Vec<u32>>> {
        let mut prompts = RecordPrompts::default();
        let read = Any(TokenArray { prompts: &mut prompts, is_item: false })
            .deserialize(&mut serde_json::Deserializer::from_str(json));
        read.ok().filter(|found| *found).map(|_| prompts.iter().map(<[u32]>::to_vec).collect())
    }

    #[test]
    fn one_prompt_or_several() {
        assert_eq!(read("[1, 2]"), Some(vec![vec![1, 2]]));
        assert_eq!(read("[[1], [], [2, 3]]"), Some(vec![vec![1], vec![], vec![2, 3]]));
        assert_eq!(read("[]"), Some(vec![vec![]]), "a prompt without tokens");
        assert_eq!(read("7").or(read("null")).or(read("1.5")), None, "a number of tokens is no prompt");
        for wrong in ["[1, [2]]", "[[1], 2]", "[[[1]]]", "[-1]", "[4294967296]", "[1.5]", "[true]", r#""1""#]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_are_read_in_every_form_of_a_whole_number() {
        for ids in ["[1.0, 2e0]", r#"["1", "2"]"#, r#""[1, 2]""#, r#"[[1.0, "2"]]"#] {
            assert_eq!(read(ids), Some(vec![vec![1, 2]]), "{ids}");
        }
    }
}
