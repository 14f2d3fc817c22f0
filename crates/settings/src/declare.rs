//! Sections as data: one declaration gives the type, its default, its range, its documentation,
//! and whether it shapes results.

use super::field::{Field, ValueRefusal};
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
pub trait SettingsSection: Sized {
    /// What the section is about, line by line.
    const ABOUT: &'static [&'static str];
    /// The names of its settings.
    fn keys() -> Vec<&'static str>;

    /// Reads the table; what is left out or wrong keeps its default, and every problem is noted.
    fn read(reader: &mut TableReader<'_>) -> Self;

    /// Its fields with their present values.
    fn fields(&self) -> Vec<FieldDoc>;
}

/// Reads the fields of one table and notes what is wrong.
pub struct TableReader<'a> {
    path: &'a str,
    table: Map<String, Value>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> TableReader<'a> {
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
        let allowed = || T::allowed(range.as_ref());
        let read = |value: &Value| match T::read(value)? {
            read if within(&read, range.as_ref()) => Ok(read),
            _ => Err(ValueRefusal::NotAllowed),
        };
        self.setting(name, T::MAY_BE_SECRET, allowed, read).unwrap_or(default)
    }

    /// Reads what is written under a name, if anything is; a refusal is noted.
    pub fn setting<T>(
        &mut self,
        name: &str,
        may_be_secret: bool,
        allowed: impl FnOnce() -> String,
        read: impl FnOnce(&Value) -> Result<T, ValueRefusal>,
    ) -> Option<T> {
        let value = self.table.remove(name)?;
        let reason = match read(&value) {
            Ok(read) => return Some(read),
            Err(ValueRefusal::NotAllowed) => format!("expected {}", allowed()),
            Err(ValueRefusal::Because(reason)) => reason,
        };
        self.problems.push(Problem {
            key: format!("{}.{name}", self.path),
            value: if may_be_secret { None } else { shown(&value) },
            reason,
            origin: value.origin().map(str::to_owned),
        });
        None
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

/// How a declared setting is presented.
pub struct DeclaredSetting<T, B> {
    /// Its name within its section.
    pub name: &'static str,
    /// What it means, line by line.
    pub doc: &'static [&'static str],
    /// What bounds it.
    pub range: Option<RangeInclusive<B>>,
    /// A value to show where none is set.
    pub example: Option<T>,
    /// Whether a change makes other results.
    pub shapes_results: bool,
}

/// What one declaration in a section stands for: a setting, or several that another crate declares.
pub trait SettingEntry: Sized {
    /// What a range bounds.
    type Bound;

    /// The names of its settings.
    fn keys(name: &'static str) -> Vec<&'static str>;

    /// Reads them, or takes their defaults.
    fn read(
        reader: &mut TableReader<'_>,
        name: &'static str,
        default: Self,
        range: Option<RangeInclusive<Self::Bound>>,
    ) -> Self;

    /// Presents them.
    fn describe(&self, declared: DeclaredSetting<Self, Self::Bound>) -> Vec<FieldDoc>;
}

impl<T: Field> SettingEntry for T {
    type Bound = T::Bound;

    fn keys(name: &'static str) -> Vec<&'static str> {
        vec![name]
    }

    fn read(
        reader: &mut TableReader<'_>,
        name: &'static str,
        default: Self,
        range: Option<RangeInclusive<T::Bound>>,
    ) -> Self {
        reader.field(name, default, range)
    }

    fn describe(&self, declared: DeclaredSetting<T, T::Bound>) -> Vec<FieldDoc> {
        vec![FieldDoc {
            name: declared.name,
            doc: declared.doc,
            allowed: T::allowed(declared.range.as_ref()),
            value: self.toml(),
            example: declared.example.and_then(|example| example.toml()),
            shapes_results: declared.shapes_results,
        }]
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
        pub struct $SettingsSection:ident {
            $(
                $(#[doc = $doc:literal])+
                $([$mark:ident])?
                $field:ident: $Type:ty = $default:expr $(, in $range:expr)? $(, like $example:expr)?;
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $SettingsSection {
            $( $(#[doc = $doc])+ pub $field: $Type, )+
        }

        impl Default for $SettingsSection {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $crate::declare::SettingsSection for $SettingsSection {
            const ABOUT: &'static [&'static str] = &[$($about),+];
            fn keys() -> Vec<&'static str> {
                [$(<$Type as $crate::declare::SettingEntry>::keys(stringify!($field))),+].concat()
            }

            fn read(reader: &mut $crate::declare::TableReader<'_>) -> Self {
                Self { $( $field: $crate::declare::SettingEntry::read(
                    reader,
                    stringify!($field),
                    $default,
                    optional!($($range)?),
                ), )+ }
            }

            fn fields(&self) -> Vec<$crate::declare::FieldDoc> {
                [$( $crate::declare::SettingEntry::describe(&self.$field, $crate::declare::DeclaredSetting {
                    name: stringify!($field),
                    doc: &[$($doc),+],
                    range: optional!($($range)?),
                    example: optional!($($example)?),
                    shapes_results: [$(stringify!($mark))?].contains(&"results"),
                }), )+].concat()
            }
        }
    )+};
}
