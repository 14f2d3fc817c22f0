//! What shapes prepared events, put together once for all threads.

use super::template::{FieldPlace, Template, TemplatePart};
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::PageSize;
use kvset_core::units::keyed::HashKey;
use kvset_core::units::ratio::Ratio;
use kvset_formats::codec::{DecodeLimits, LetterContent};
use kvset_formats::identity::FIELDS;
use kvset_formats::logs::{Places, Preset};
use kvset_formats::time::{NumberUnit, Numbers};
use std::collections::BTreeMap;

/// What records of a raw log are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RawFormat {
    /// Told record by record.
    #[default]
    Auto,
    /// Chat and completion requests, bare or under `body`.
    Openai,
    /// Token ids.
    TokenIds,
    /// Request events: page ids ready made.
    PageIds,
}

/// The unit of event times that are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeUnit {
    /// That in which they are dates; smaller numbers are milliseconds.
    #[default]
    Auto,
    /// This one.
    Stated(NumberUnit),
}

impl TimeUnit {
    pub(super) const fn numbers(self) -> Numbers {
        match self {
            Self::Auto => Numbers::DatesOr(NumberUnit::Milliseconds),
            Self::Stated(unit) => Numbers::Told(unit),
        }
    }
}

/// How a pool's pages are cut and chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRules {
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether a last page that is not full is hashed too.
    pub include_partial_page: bool,
    /// Share of the pages that are kept.
    pub sample_rate: Ratio,
}

/// What one record may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareLimits {
    /// Of the record, of what it names, and of a request's pages.
    pub decode: DecodeLimits,
    /// Most prompt tokens of one record.
    pub max_tokens: usize,
    /// Most prompts of one record.
    pub max_prompts: usize,
    /// Largest request event, in bytes of key and value.
    pub max_event_bytes: usize,
}

/// Everything that shapes prepared events but the tokenizers.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// What records are.
    pub format: RawFormat,
    /// The shape of log that the records have, where it is one of those known by name.
    pub preset: Option<Preset>,
    /// Where in a record the request and the response are, where the operator says: the record itself, or its `body`,
    /// and `response` where they are left out, or where the preset has them.
    pub places: Places,
    /// The pool's name.
    pub pool: Template,
    /// The name of the model that tokenises.
    pub model: Template,
    /// What page ids are unique within, where the operator says; else what keeps pages apart by the names that requests
    /// and logs have for it ([`kvset_formats::identity`]).
    pub namespace: Option<Template>,
    /// Where the event time is; the record's time stamp where it is left out.
    pub event_time: Option<FieldPlace>,
    /// Its unit, where it is a number.
    pub time_unit: TimeUnit,
    /// The key of page ids, where they are made with one.
    pub hash_key: Option<HashKey>,
    /// Page rules of pools by name.
    pub pools: BTreeMap<String, PageRules>,
    /// Page rules of all other pools.
    pub other_pools: PageRules,
    /// What one record may ask for.
    pub limits: PrepareLimits,
    /// What a dead letter holds of its record.
    pub letters: LetterContent,
    /// Largest dead letter; a larger one goes without the bytes of its record.
    pub max_letter_bytes: usize,
    /// Version of this program, for dead letters.
    pub version: String,
    /// Fingerprint of the configuration in force, for dead letters.
    pub fingerprint: String,
}

impl Recipe {
    pub(super) fn rules(&self, pool: &str) -> PageRules {
        self.pools.get(pool).copied().unwrap_or(self.other_pools)
    }
}

/// The recipe's templates, with every field that they name under a number.
pub(super) struct TemplateFields {
    pub(super) paths: Vec<Vec<String>>,
    pub(super) pool: Vec<TemplatePart<usize>>,
    pub(super) model: Vec<TemplatePart<usize>>,
    pub(super) namespace: Namespace,
    pub(super) event_time: Option<FieldPlace<usize>>,
    pub(super) labels: Labels<usize>,
}

impl TemplateFields {
    /// The labels that may be written out, with their fields.
    pub(super) fn labels_outside_the_namespace(&self) -> impl Iterator<Item = (Label, usize)> {
        self.labels
            .iter()
            .map(|(label, field)| (label, *field))
            .filter(|(_, field)| !self.is_in_namespace(*field))
    }

    /// Whether the namespace is made of this field. The namespace goes into the ids as a hash, so that who it
    /// belongs to stays inside: such a field is not written out under its own name either.
    fn is_in_namespace(&self, field: usize) -> bool {
        let named = |part: &TemplatePart<usize>| matches!(part, TemplatePart::Place { place: FieldPlace::Field(named), .. } if *named == field);
        matches!(&self.namespace, Namespace::Template(parts) if parts.iter().any(named))
    }
}

/// What page ids are unique within.
pub(super) enum Namespace {
    /// What the operator says.
    Template(Vec<TemplatePart<usize>>),
    /// What requests and logs say, by the numbers of [`FIELDS`].
    Identity(Vec<usize>),
}

impl TemplateFields {
    pub(super) fn of(recipe: &Recipe) -> Self {
        let mut paths = Vec::new();
        let parts = |template: &Template, paths: &mut Vec<Vec<String>>| -> Vec<TemplatePart<usize>> {
            let numbered = |part: &TemplatePart| match part {
                TemplatePart::Text(text) => TemplatePart::Text(text.clone()),
                TemplatePart::Place { place, optional } => {
                    TemplatePart::Place { place: numbered(place, paths), optional: *optional }
                }
            };
            template.parts().iter().map(numbered).collect()
        };
        let (pool, model) = (parts(&recipe.pool, &mut paths), parts(&recipe.model, &mut paths));
        let namespace = match &recipe.namespace {
            Some(template) => Namespace::Template(parts(template, &mut paths)),
            None => {
                let named =
                    |path: &[&str]| -> Vec<String> { path.iter().map(|name| (*name).to_owned()).collect() };
                Namespace::Identity(FIELDS.iter().map(|(path, _)| number(&named(path), &mut paths)).collect())
            }
        };
        let event_time = recipe.event_time.as_ref().map(|place| numbered(place, &mut paths));
        let labels = Label::ALL.map(|label| (label, number(&[label.name().to_owned()], &mut paths)));
        Self { pool, model, namespace, event_time, labels: labels.into_iter().collect(), paths }
    }
}

fn numbered(place: &FieldPlace, paths: &mut Vec<Vec<String>>) -> FieldPlace<usize> {
    match place {
        FieldPlace::Key => FieldPlace::Key,
        FieldPlace::Header(name) => FieldPlace::Header(name.clone()),
        FieldPlace::Field(path) => FieldPlace::Field(number(path, paths)),
    }
}

fn number(path: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    paths.iter().position(|known| known == path).unwrap_or_else(|| {
        paths.push(path.to_vec());
        paths.len() - 1
    })
}
