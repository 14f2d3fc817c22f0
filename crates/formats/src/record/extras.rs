//! What a row says alongside its prompt, whatever that is of: when it came, for whom, and of its answer.

use super::answer::LoggedAnswer;
use super::json::{Name, ParseTrouble, ignore};
use super::observed::ObservedRequest;
use super::row::Draft;
use super::stated_time::{StatedTime, TimeName};
use crate::any_value::Any;
use crate::identity::NamedParts;
use crate::spelling::Spellings;
use crate::time::Numbers;
use hashbrown::HashMap;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::names::listed;
use serde::de::MapAccess;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

const FIELD_SESSION: &str = "session_id";

/// Fields of rows of page ids, and of the session and sub-agents around them, in the usual spelling.
const OF_PAGES: [&str; 22] = listed(
    "t in out hash_ids chunk_hashes block_hashes prefix_hashes chunk_size seq_len ids_chained api_time \
        delay delay_ms input_length output_length duration_ms block_size hash_id_scope requests id \
        cached_tokens request_id",
);

/// What was said.
#[derive(Debug, Default)]
pub(crate) struct RowExtras {
    pub time: StatedTime,
    pub session: Option<Range<usize>>,
    pub scope_name: Option<Range<usize>>,
    pub labels: Labels<Range<usize>>,
    /// What the row says of its answer, where it says anything.
    answer: Option<Box<LoggedAnswer>>,
    /// What keeps its pages apart.
    pub parts: NamedParts,
}

/// How such fields are read.
pub(crate) struct ExtrasReading<'r> {
    /// Where their names go.
    pub text: &'r mut String,
    pub trouble: &'r mut ParseTrouble,
    /// The field that scopes ids, where one is named.
    pub scope_field: Option<&'r str>,
    /// How numbers that are times are meant.
    pub numbers: Numbers,
}

/// A field of a row by its usual name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownField {
    pub name: &'static str,
    /// Whether rows of page ids have it in a meaning of their own.
    pub is_of_pages: bool,
    /// What it says alongside a prompt.
    said: Option<Alongside>,
}

#[derive(Debug, Clone, Copy)]
enum Alongside {
    Session,
    Time(TimeName),
    Part,
    Answer,
    Label(Label),
}

type KnownFields = HashMap<&'static str, KnownField, foldhash::fast::FixedState>;

/// Every known field. A row has a dozen, so none is looked for in lists.
static KNOWN: LazyLock<KnownFields> = LazyLock::new(|| {
    let labels = Label::ALL.into_iter().map(|label| (label.name(), Alongside::Label(label)));
    let parts = NamedParts::names().map(|name| (name, Alongside::Part));
    let answers = LoggedAnswer::names().filter(|name| LoggedAnswer::takes(name));
    let answers = answers.map(|name| (name, Alongside::Answer));
    let times = StatedTime::names().map(|known| (known.name, Alongside::Time(known)));
    // Of two meanings of one name the last holds.
    let all = labels.chain(parts).chain(answers).chain([(FIELD_SESSION, Alongside::Session)]).chain(times);
    let all = all.map(|(name, said)| (name, Some(said)));
    let mut known = KnownFields::default();
    for (name, said) in OF_PAGES.into_iter().map(|name| (name, None)).chain(all) {
        let is_of_pages = OF_PAGES.contains(&name);
        known.insert(name, KnownField { name, is_of_pages, said });
    }
    known
});

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| Spellings::of(KNOWN.keys().copied()));

impl KnownField {
    /// The field of this name in any spelling.
    pub fn of(key: &str) -> Option<Self> {
        let known = KNOWN.get(key).or_else(|| {
            let usual = SPELLINGS.standard(key);
            if usual == key { None } else { KNOWN.get(usual) }
        });
        known.copied()
    }
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
        match scope_field == Some(key) {
            true => self.read_scope(key, map, text, trouble),
            false => self.read_known(KnownField::of(key), map, numbers, text, trouble),
        }
    }

    /// Reads the value of the field that scopes ids; it may name the session, or be a label, too.
    pub fn read_scope<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        text: &mut String,
        trouble: &mut ParseTrouble,
    ) -> Result<(), A::Error> {
        trouble.field = "--id-scope field";
        self.scope_name = map.next_value_seed(Any(Name(text)))?;
        if key == FIELD_SESSION {
            self.session = self.scope_name.clone();
        }
        if let Some(label) = Label::of_field(key) {
            self.labels.set(label, self.scope_name.clone());
        }
        Ok(())
    }

    /// Reads the value of a field that may be known.
    pub fn read_known<'de, A: MapAccess<'de>>(
        &mut self,
        known: Option<KnownField>,
        map: &mut A,
        numbers: Numbers,
        text: &mut String,
        trouble: &mut ParseTrouble,
    ) -> Result<(), A::Error> {
        let said = known.and_then(|known| Some((known.name, known.said?)));
        let Some((name, said)) = said else {
            trouble.field = "";
            return ignore(map);
        };
        trouble.field = name;
        match said {
            Alongside::Session => self.session = map.next_value_seed(Any(Name(text)))?,
            Alongside::Time(time) => self.time.read(time, map, numbers, trouble)?,
            Alongside::Part => self.parts.read(name, map, text)?,
            Alongside::Answer => self.answer.get_or_insert_default().read(name, map, trouble)?,
            Alongside::Label(label) => self.labels.set(label, map.next_value_seed(Any(Name(text)))?),
        }
        Ok(())
    }

    /// What the row says of its answer.
    pub fn answer(&self) -> &LoggedAnswer {
        static NOTHING: LazyLock<LoggedAnswer> = LazyLock::new(LoggedAnswer::default);
        self.answer.as_deref().unwrap_or(&NOTHING)
    }

    /// How long the request took.
    pub fn duration(&self) -> Option<Duration> {
        self.answer().duration().or_else(|| self.time.duration())
    }

    /// What is said of the row's only prompt.
    pub fn observed(&self) -> ObservedRequest {
        ObservedRequest { duration: self.duration(), ..self.answer().observed() }
    }

    /// Says it of one of the prompts of the row, of which this was observed; `kept` is what keeps its pages apart.
    pub fn complete(&self, draft: &mut Draft, observed: &ObservedRequest, kept: &Draft) {
        let duration = observed.duration;
        draft.at(self.time.arrival(duration));
        draft.is_end = self.time.is_end_alone(duration);
        draft.is_backward = self.time.is_backward();
        draft.observe(observed);
        draft.labels = std::mem::take(&mut draft.labels).or(&self.labels);
        draft.session = self.session.clone();
        draft.scope_name = self.scope_name.clone();
        (draft.pool, draft.apart) = (kept.pool.clone(), kept.apart.clone());
    }
}
