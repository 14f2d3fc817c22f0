//! Prompts as token ids, hashed into pages (see [`kvset_core::units::hashing`]).
//!
//! A line is an array of token ids, an object that holds one under `input_ids`, `token_ids` or
//! `tokens`, or an array of these. An object's array may itself be a batch of arrays. An empty array
//! is a prompt without tokens. Objects may carry `timestamp` (or another of the names that
//! [`crate::record::stated_time`] lists; small numbers in milliseconds) and `session_id`. What an object says of the
//! answer is read too: `output_tokens` or a `usage`, and `duration_ms`. Every prompt's partial last
//! page is hashed too and shows in `input_tokens`, so that the consumer decides whether it counts.

use crate::any_value::{Any, Scalar, TakeValue, wrong_kind};
use crate::codec::{DecodeError, ErrorCode, integers};
use crate::record::extras::{ExtrasReading, RowExtras};
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::json::{Fields, Object, ParseTrouble, TOKEN_FIELDS, read_line, row_name};
use crate::record::numbers::{TokenId, WholeNumber};
use crate::record::observed::ObservedRequest;
use crate::record::row::{DeclaredScope, RowBatch};
use crate::record::unshown::UnshownFields;
use crate::stated::PromptForm;
use crate::time::{NumberUnit, Numbers};
use crate::trace::carried::Carried;
use crate::trace::options::ReadOptions;
use crate::trace::paging::Paging;
use crate::trace::records::{Decode, RecordSink};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Decodes prompts of token ids.
pub(super) struct TokenIds {
    paging: Paging,
    tokens: Vec<u32>,
    last: Vec<u32>,
    numbers: Numbers,
    id_scope: IdScope,
}

impl TokenIds {
    pub fn new(options: &ReadOptions) -> Self {
        Self {
            paging: Paging::new(options),
            tokens: Vec::new(),
            last: Vec::new(),
            numbers: options.numbers(Numbers::DatesOr(NumberUnit::Milliseconds)),
            id_scope: options.id_scope.clone(),
        }
    }
}

impl Decode for TokenIds {
    fn decode(&mut self, line: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let RecordSink { batch, carried, number } = sink;
        self.tokens.clear();
        let mut prompts = LinePrompts {
            batch,
            carried,
            paging: &mut self.paging,
            tokens: &mut self.tokens,
            last: &mut self.last,
            scope_field: self.id_scope.field(),
            line: *number,
            numbers: self.numbers,
            trouble: ParseTrouble::default(),
        };
        let tokens = &mut *prompts.tokens;
        // The most common line; whatever else it is, or what is wrong with it, is for the general parser.
        let is_prompt = integers::read_array(line, |token| match u32::try_from(token) {
            Ok(token) => {
                tokens.push(token);
                true
            }
            Err(_) => false,
        });
        if is_prompt {
            prompts.file();
            return batch.set_scopes(batch.drafts.len() - 1, &self.id_scope, DeclaredScope::Global);
        }
        prompts.tokens.clear();
        if let Err(error) =
            read_line(line, Any(TokenField { prompts: &mut prompts, depth: 0, in_object: false }))
        {
            return Err(prompts.trouble.fault(&error));
        }
        batch.set_scopes(0, &self.id_scope, DeclaredScope::Global)
    }
}

/// Where the prompts of one line go.
struct LinePrompts<'s> {
    batch: &'s mut RowBatch,
    carried: &'s mut Carried,
    paging: &'s mut Paging,
    /// Tokens of the prompt being read.
    tokens: &'s mut Vec<u32>,
    /// Those of the prompt read before.
    last: &'s mut Vec<u32>,
    scope_field: Option<&'s str>,
    line: u64,
    /// How numbers that are times are meant.
    numbers: Numbers,
    trouble: ParseTrouble,
}

impl LinePrompts<'_> {
    /// Files the tokens read so far as one prompt.
    fn file(&mut self) {
        self.carried.placeholders.note(self.tokens);
        self.batch.file_prompt(self.paging, self.tokens);
        self.batch.drafts.last_mut().into_iter().for_each(|draft| draft.line = self.line);
        std::mem::swap(self.tokens, self.last);
        self.tokens.clear();
    }
}

/// A token, a prompt, an object with a prompt, or a batch of prompts; says whether it held prompts, and not a token.
struct TokenField<'a, 's> {
    prompts: &'a mut LinePrompts<'s>,
    /// Arrays around this value; a batch of batches is no known shape.
    depth: u32,
    /// Whether the value is a field of an object; a prompt object within another is no known shape.
    in_object: bool,
}

impl TokenField<'_, '_> {
    fn token<E: Error>(self, token: WholeNumber) -> Result<bool, E> {
        if self.depth == 0 {
            return Err(E::custom("a lone token"));
        }
        let read = TokenId::of(token);
        let TokenId(token) = match self.prompts.trouble.field {
            "" => read.map_err(E::custom)?,
            _ => self.prompts.trouble.number("token ids", read)?,
        };
        self.prompts.tokens.push(token);
        Ok(false)
    }
}

impl<'de> TakeValue<'de> for TokenField<'_, '_> {
    type Taken = bool;

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<bool, E> {
        match scalar {
            // A field's list, of which a database has made a text; any other text is a token in quotes.
            // NumPy's way to print a list has no commas.
            Scalar::Text(text)
                if self.depth == 0 && text.trim_start().starts_with('[') && !text.contains(',') =>
            {
                if text.contains("...") {
                    let detail = "token ids have `...` among them, as NumPy prints a long list: write it with tolist()";
                    let refusal = DecodeError::new(ErrorCode::InvalidField, detail);
                    return Err(self.prompts.trouble.stop(refusal.into()));
                }
                let list = text.split_whitespace().collect::<Vec<_>>().join(",");
                let list = list.replace("[,", "[").replace(",]", "]");
                read_line(list.as_bytes(), Any(self)).map_err(E::custom)
            }
            Scalar::Text(text) if self.depth == 0 && text.trim_start().starts_with('[') => {
                read_line(text.as_bytes(), Any(self)).map_err(E::custom)
            }
            Scalar::Null | Scalar::Flag(_) => Err(wrong_kind()),
            Scalar::Unsigned(_) if self.depth == 0 && self.in_object => Ok(false),
            number => self.token(WholeNumber::of_scalar(&number)),
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut array: A) -> Result<bool, A::Error> {
        /// A prompt within a batch.
        const MAX_DEPTH: u32 = 2;
        if self.depth == MAX_DEPTH {
            return Err(A::Error::custom("arrays nested too deeply"));
        }
        let (mut tokens, mut prompts) = (false, false);
        let (depth, in_object) = (self.depth + 1, self.in_object);
        while let Some(has_prompts) =
            array.next_element_seed(Any(TokenField { prompts: self.prompts, depth, in_object }))?
        {
            (tokens, prompts) = (tokens | !has_prompts, prompts | has_prompts);
            if tokens && prompts {
                return Err(A::Error::custom("tokens and prompts in one array"));
            }
        }
        if !prompts {
            self.prompts.file();
        }
        Ok(true)
    }

    fn object<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        if self.in_object {
            return Err(A::Error::custom("a prompt object within another"));
        }
        let first = self.prompts.batch.drafts.len();
        let (extras, unshown) = (RowExtras::default(), UnshownFields::default());
        let mut object = PromptObject { prompts: self.prompts, found: false, extras, unshown };
        Object(&mut object).visit_map(map)?;
        object.finish(first).map_err(|fault| self.prompts.trouble.stop(fault))?;
        Ok(true)
    }
}

/// An object that holds a prompt, or a batch of them, and what is said about it.
struct PromptObject<'a, 's> {
    prompts: &'a mut LinePrompts<'s>,
    found: bool,
    extras: RowExtras,
    unshown: UnshownFields,
}

impl PromptObject<'_, '_> {
    /// Gives the object's time and names to its prompts, whatever the order of its fields was.
    fn finish(self, first: usize) -> Result<(), RowFault> {
        if !self.found {
            return Err(RowFault::missing("input_ids"));
        }
        if let Some(why) = self.extras.answer().passed_over() {
            self.prompts.batch.drafts.truncate(first);
            self.prompts.batch.passed_over.push(why);
            return Ok(());
        }
        let lengths = self.prompts.batch.drafts[first..].iter().filter_map(|draft| draft.input_tokens);
        self.unshown.check(lengths.max().unwrap_or(0))?;
        let kept = self.prompts.batch.kept_apart(&self.extras.parts);
        let drafts = &mut self.prompts.batch.drafts[first..];
        let found = drafts.iter().filter_map(|draft| draft.input_tokens).sum();
        // What is written to a provider's cache is counted of requests whose prompts it was given as text.
        let (observed, form) = (self.extras.observed().of_prompts(drafts.len()), PromptForm::TokenIds);
        self.prompts.carried.stated.compare(observed.stated(form), found, form, &observed.unread)?;
        let observed = ObservedRequest { cache_writes: None, ..observed };
        drafts.iter_mut().for_each(|draft| self.extras.complete(draft, &observed, &kept));
        let LinePrompts { batch, paging, last, .. } = self.prompts;
        batch.file_answer(paging, last, observed.answer.ids());
        Ok(())
    }

    fn token_ids<'de, A: MapAccess<'de>>(
        &mut self,
        field: &'static str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let is_list =
            map.next_value_seed(Any(TokenField { prompts: self.prompts, depth: 0, in_object: true }))?;
        // Under the same names logs keep numbers of tokens.
        if is_list {
            self.unshown.note_list(field);
            if std::mem::replace(&mut self.found, true) {
                return Err(self.prompts.trouble.stop(RowFault::Repeated { field }));
            }
        }
        Ok(())
    }
}

impl<'de> Fields<'de> for PromptObject<'_, '_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let LinePrompts { scope_field, numbers, .. } = *self.prompts;
        let field = TOKEN_FIELDS.into_iter().find(|name| *name == row_name(key));
        if let Some(field) = field.filter(|_| scope_field != Some(key)) {
            self.prompts.trouble.field = field;
            return self.token_ids(field, map);
        }
        if UnshownFields::takes(key) && scope_field != Some(key) {
            self.unshown.read(key, map.next_value::<&RawValue>()?.get());
            return Ok(());
        }
        let LinePrompts { batch, trouble, .. } = &mut *self.prompts;
        self.extras.read(key, map, ExtrasReading { text: &mut batch.text, trouble, scope_field, numbers })
    }
}
