//! An option of engines: what the settings, the command line, refusals, results and docs read of it, and the macro that
//! declares all of them.

use super::EngineRules;
use super::part::EnginePart;
use super::values::{OptionValues, UnreadableValue};
use crate::engines::profile::Profile;
use crate::units::PageSize;

/// An option of engines.
///
/// Two options may have one name where their engines differ: the watermarks of two stores have different defaults.
pub struct EngineOption {
    /// Its name in a configuration and in results.
    pub key: &'static str,
    /// Its name on the command line, without the dashes in front; `None` where another option gives it there.
    pub flag: Option<&'static str>,
    /// What its value is called in help.
    pub value_name: &'static str,
    /// What it means, line by line.
    pub doc: &'static [&'static str],
    /// What may be written.
    pub values: OptionValues,
    /// What a flag without a value means, where it may stand alone.
    pub alone: Option<&'static str>,
    /// A value to show.
    pub example: &'static str,
    /// The engines that have it, each with what else must hold for it to read it.
    pub engines: &'static [(Profile, EnginePart)],
    /// Whether pools may differ in it.
    pub differs_by_pool: bool,
    /// What `kvset tune` tries of it.
    pub tries: Tries,
    /// What reads, writes, copies and compares its field of [`EngineRules`].
    pub(super) read: fn(&mut EngineRules, &str) -> Result<(), UnreadableValue>,
    pub(super) written: fn(&EngineRules) -> String,
    pub(super) take: fn(&mut EngineRules, &EngineRules),
    pub(super) is_same: fn(&EngineRules, &EngineRules) -> bool,
}

impl EngineOption {
    /// What holds of an option that does not say otherwise.
    pub(super) const USUAL: Self = Self {
        key: "",
        flag: None,
        value_name: "",
        doc: &[],
        values: OptionValues::Text(""),
        alone: None,
        example: "",
        engines: &[],
        differs_by_pool: false,
        tries: Tries::NONE,
        read: |_, _| Ok(()),
        written: |_| String::new(),
        take: |_, _| (),
        is_same: |_, _| true,
    };

    /// Reads a value into the rules.
    ///
    /// # Errors
    /// What is wrong with the text, and what is expected.
    pub fn read(&self, rules: &mut EngineRules, text: &str) -> Result<(), String> {
        let read = match self.values.contains(text) {
            true => (self.read)(rules, text),
            false => Err(UnreadableValue::NotAllowed),
        };
        read.map_err(|error| match error {
            UnreadableValue::NotAllowed => format!("expected {}", self.values),
            UnreadableValue::Because(reason) => reason.to_string(),
        })
    }

    /// Gives the rules the value that others have.
    pub fn take(&self, rules: &mut EngineRules, others: &EngineRules) {
        (self.take)(rules, others);
    }

    /// The value that the rules have, as it is written.
    pub fn written(&self, rules: &EngineRules) -> String {
        (self.written)(rules)
    }

    /// Whether two rules have the same value.
    pub fn is_same(&self, rules: &EngineRules, others: &EngineRules) -> bool {
        (self.is_same)(rules, others)
    }

    /// Whether the rules have another value than where it is left out.
    pub fn is_set(&self, rules: &EngineRules) -> bool {
        !self.is_same(rules, &EngineRules::default())
    }

    /// Whether an engine with these rules reads it.
    pub fn is_read(&self, rules: &EngineRules, engine: Profile) -> bool {
        self.engines.iter().any(|(of, needs)| *of == engine && needs.holds(rules, engine))
    }

    /// Whether it is one of an engine's.
    pub fn is_of(&self, engine: Profile) -> bool {
        self.engines.iter().any(|(of, _)| *of == engine)
    }

    /// Those of some engines that have it, and what else each needs, in words.
    pub fn belongs_to(&self, is_one: impl Fn(Profile) -> bool) -> String {
        let in_words = |(engine, needs): &(Profile, EnginePart)| match needs.words {
            "" => engine.name().to_owned(),
            needs => format!("{} with {needs}", engine.name()),
        };
        let engines = self.engines.iter().filter(|(engine, _)| is_one(*engine));
        engines.map(in_words).collect::<Vec<_>>().join(", or ")
    }
}

/// What `kvset tune` tries of an option where an engine reads it.
#[derive(Debug, Clone, Copy)]
pub struct Tries {
    /// What else must hold for trying to be worth its time.
    pub when: EnginePart,
    /// Whether leaving it out is tried.
    pub without: bool,
    /// The values, as they are written.
    pub values: &'static [&'static str],
    /// So many pages, in tokens.
    pub pages: &'static [u32],
}

impl Tries {
    /// Nothing.
    pub const NONE: Self = Self { when: EnginePart::NOTHING, without: false, values: &[], pages: &[] };

    /// These values.
    pub(super) const fn of(values: &'static [&'static str]) -> Self {
        Self { values, ..Self::NONE }
    }

    /// The values as they are written, where pages have so many tokens.
    pub fn written(&self, page_size: PageSize) -> impl Iterator<Item = String> {
        let pages = self.pages.iter().map(move |pages| (pages * page_size.get()).to_string());
        self.values.iter().map(|text| (*text).to_owned()).chain(pages)
    }
}

/// Declares [`EngineRules`] and its options. A field is written as in a struct, with its default, and the option's
/// declaration behind it.
macro_rules! engine_options {
    (
        $(#[$about:meta])+
        pub struct EngineRules {$(
            $(#[doc = $doc:literal])+
            $field:ident: $Type:ty = $default:expr => { $($option:tt)+ }
        )+}
    ) => {
        $(#[$about])+
        pub struct EngineRules {$(
            $(#[doc = $doc])+
            pub $field: $Type,
        )+}

        impl Default for EngineRules {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl EngineRules {
            /// The options, in the order in which they are listed.
            #[allow(clippy::needless_update, reason = "an option may say everything")]
            pub const OPTIONS: &[EngineOption] = &[$(EngineOption {
                doc: &[$($doc),+],
                read: |rules, text| {
                    rules.$field = OptionType::read(text)?;
                    Ok(())
                },
                written: |rules| rules.$field.written(),
                take: |rules, others| rules.$field.clone_from(&others.$field),
                is_same: |rules, others| rules.$field == others.$field,
                $($option)+
                ..EngineOption::USUAL
            },)+];
        }
    };
}

pub(super) use engine_options;
