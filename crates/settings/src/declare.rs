//! Sections as data: one declaration gives the type, its default, its range, its documentation,
//! and whether it shapes results.

use super::field::{Field, Refusal};
use super::problem::{Problem, unknown_key};
use config::{Map, Value, ValueKind};
use std::ops::RangeInclusive;

/// One setting as the documentation, `config default` and `config show` present it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDoc {
    /// Name within its section.
    pub name: &'static str,
    /// What it means, line by line.
    pub doc: &'static [&'static str],
    /// What may be written.
    pub allowed: String,
    /// The value as TOML, secrets masked; `None` when it is not set.
    pub value: Option<String>,
    /// A value to show where none is set.
    pub example: Option<String>,
    /// Whether a change makes other results, and so another fingerprint.
    pub shapes_results: bool,
}

/// A table of the configuration.
pub trait Section: Sized {
    /// What the section is about, line by line.
    const ABOUT: &'static [&'static str];
    /// The names of its fields.
    const KEYS: &'static [&'static str];

    /// Reads the table; what is left out or wrong keeps its default, and every problem is noted.
    fn read(reader: Reader<'_>) -> Self;

    /// Its fields with their present values.
    fn fields(&self) -> Vec<FieldDoc>;
}

/// Reads the fields of one table and notes what is wrong.
pub struct Reader<'a> {
    path: &'a str,
    table: Map<String, Value>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Opens the table at `path`; keys that are not in `known` are noted.
    pub fn open(path: &'a str, value: Option<Value>, known: &[&str], problems: &'a mut Vec<Problem>) -> Self {
        let table = match value.map(|value| (value.origin().map(str::to_owned), value.kind)) {
            None => Map::new(),
            Some((_, ValueKind::Table(table))) => table,
            Some((origin, _)) => {
                let reason = format!("expected a table [{path}] with {}", known.join(", "));
                problems.push(Problem { key: path.to_owned(), value: None, reason, origin });
                Map::new()
            }
        };
        let mut unknown: Vec<_> = table.iter().filter(|(name, _)| !known.contains(&name.as_str())).collect();
        unknown.sort_by_key(|(name, _)| name.as_str());
        problems.extend(unknown.into_iter().map(|(name, value)| Problem {
            key: format!("{path}.{name}"),
            value: None,
            reason: unknown_key(name, known),
            origin: value.origin().map(str::to_owned),
        }));
        Self { path, table, problems }
    }

    /// Reads one field, or takes its default.
    pub fn field<T: Field>(&mut self, name: &str, default: T, range: Option<RangeInclusive<T::Bound>>) -> T {
        let Some(value) = self.table.remove(name) else { return default };
        let refusal = match T::read(&value) {
            Ok(read) if within(&read, range.as_ref()) => return read,
            Ok(_) => Refusal::NotAllowed,
            Err(refusal) => refusal,
        };
        let reason = match refusal {
            Refusal::NotAllowed => format!("expected {}", T::allowed(range.as_ref())),
            Refusal::Because(reason) => reason,
        };
        let origin = value.origin().map(str::to_owned);
        self.problems.push(Problem {
            key: format!("{}.{name}", self.path),
            value: if T::MAY_BE_SECRET { None } else { shown(&value) },
            reason,
            origin,
        });
        default
    }
}

/// Whether what the range bounds lies in it; a value that is not set always does.
fn within<T: Field>(value: &T, range: Option<&RangeInclusive<T::Bound>>) -> bool {
    range.is_none_or(|range| value.measure().is_none_or(|measure| range.contains(&measure)))
}

/// A value as it may be repeated in an error; tables are left out, they may hold secrets.
fn shown(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::Nil | ValueKind::Table(_) => None,
        ValueKind::String(text) => Some(super::field::quoted(&text.chars().take(80).collect::<String>())),
        ValueKind::Array(entries) => {
            let entries: Vec<String> = entries.iter().take(20).filter_map(shown).collect();
            Some(format!("[{}]", entries.join(", ")))
        }
        _ => Some(value.to_string()),
    }
}

/// Describes one field; the macro below fills it in.
pub fn describe<T: Field>(
    (name, doc): (&'static str, &'static [&'static str]),
    value: &T,
    range: Option<RangeInclusive<T::Bound>>,
    example: Option<T>,
    shapes_results: bool,
) -> FieldDoc {
    FieldDoc {
        name,
        doc,
        allowed: T::allowed(range.as_ref()),
        value: value.toml(),
        example: example.and_then(|example| example.toml()),
        shapes_results,
    }
}

/// `Some` of the expression, or `None` where there is none.
macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// Declares sections. A field is written
///
/// ```text
/// /// What it means.
/// [results]                       only where it shapes results
/// name: Type = default, in range, like example;
/// ```
macro_rules! sections {
    ($(
        $(#[doc = $about:literal])+
        pub struct $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $([$mark:ident])?
                $field:ident: $Type:ty = $default:expr $(, in $range:expr)? $(, like $example:expr)?;
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Section {
            $( $(#[doc = $doc])+ pub $field: $Type, )+
        }

        impl Default for $Section {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $crate::declare::Section for $Section {
            const ABOUT: &'static [&'static str] = &[$($about),+];
            const KEYS: &'static [&'static str] = &[$(stringify!($field)),+];

            fn read(mut reader: $crate::declare::Reader<'_>) -> Self {
                Self { $( $field: reader.field(stringify!($field), $default, optional!($($range)?)), )+ }
            }

            fn fields(&self) -> Vec<$crate::declare::FieldDoc> {
                vec![$( $crate::declare::describe::<$Type>(
                    (stringify!($field), &[$($doc),+]),
                    &self.$field,
                    optional!($($range)?),
                    optional!($($example)?),
                    [$(stringify!($mark))?].contains(&"results"),
                ), )+]
            }
        }
    )+};
}
