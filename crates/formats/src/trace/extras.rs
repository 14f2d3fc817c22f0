//! What a row says alongside its prompt, whatever that is of: when it came, for whom, and of its answer.

use crate::any_value::Any;
use crate::identity::NamedParts;
use crate::record::answer::LoggedAnswer;
use crate::record::json::{Name, ParseTrouble, ignore, row_name};
use crate::record::row::Draft;
use crate::record::stated_time::StatedTime;
use crate::time::{Numbers, ms_of};
use kvset_core::request::labels::{Label, Labels};
use serde::de::MapAccess;
use std::ops::Range;
use std::time::Duration;

const FIELD_SESSION: &str = "session_id";

/// What was said.
#[derive(Debug, Default)]
pub(super) struct RowExtras {
    pub time: StatedTime,
    pub session: Option<Range<usize>>,
    pub scope_name: Option<Range<usize>>,
    pub labels: Labels<Range<usize>>,
    pub answer: LoggedAnswer,
    pub parts: NamedParts,
}

/// How such fields are read.
pub(super) struct ExtrasReading<'r> {
    /// Where their names go.
    pub text: &'r mut String,
    pub trouble: &'r mut ParseTrouble,
    /// The field that scopes ids, where one is named.
    pub scope_field: Option<&'r str>,
    /// How numbers that are times are meant.
    pub numbers: Numbers,
}

impl RowExtras {
    /// Reads the value of a field; one of another name says nothing here.
    pub fn read<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        reading: ExtrasReading<'_>,
    ) -> Result<(), A::Error> {
        let ExtrasReading { text, trouble, scope_field, numbers } = reading;
        if scope_field == Some(key) {
            trouble.field = "--id-scope field";
            self.scope_name = map.next_value_seed(Any(Name(text)))?;
            if key == FIELD_SESSION {
                self.session = self.scope_name.clone();
            }
            if let Some(label) = Label::of_field(key) {
                self.labels.set(label, self.scope_name.clone());
            }
            return Ok(());
        }
        let key = row_name(key);
        if let Some(known) = StatedTime::name(key) {
            return self.time.read(known, map, numbers, trouble);
        }
        match key {
            FIELD_SESSION => {
                trouble.field = FIELD_SESSION;
                self.session = map.next_value_seed(Any(Name(text)))?;
            }
            _ if LoggedAnswer::takes(key) => self.answer.read(key, map, trouble)?,
            _ if NamedParts::takes(key) => self.parts.read(key, map, text)?,
            _ => {
                let label = Label::of_field(key);
                trouble.field = label.map_or("", Label::name);
                match label {
                    Some(label) => self.labels.set(label, map.next_value_seed(Any(Name(text)))?),
                    None => ignore(map)?,
                }
            }
        }
        Ok(())
    }

    /// How long the request took.
    pub fn duration(&self) -> Option<Duration> {
        self.answer.duration().or_else(|| self.time.duration())
    }

    /// Says it of one of the `prompts` of the row; `kept` is what keeps its pages apart.
    pub fn complete(&self, draft: &mut Draft, prompts: usize, kept: &Draft) {
        let duration = self.duration();
        draft.at(self.time.arrival(duration));
        draft.is_end = self.time.is_end_alone(duration);
        draft.is_backward = self.time.is_backward();
        draft.output_tokens = self.answer.output_tokens(prompts);
        draft.duration_ms = duration.map(ms_of);
        draft.cached_tokens = self.answer.cached_tokens(prompts);
        draft.labels = std::mem::take(&mut draft.labels).or(&self.labels);
        draft.session = self.session.clone();
        draft.scope_name = self.scope_name.clone();
        (draft.pool, draft.apart) = (kept.pool.clone(), kept.apart.clone());
    }
}
