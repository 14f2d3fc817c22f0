//! An option of engines: what the settings, the command line, refusals, results and docs read of it, and the macro that
//! declares all of them.

use super::EngineRules;
use crate::engines::profile::Profile;
use crate::engines::values::{OptionValues, UnreadableValue};

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
    pub engines: &'static [(Profile, OptionNeeds)],
    /// Whether pools may differ in it.
    pub differs_by_pool: bool,
    /// What reads, writes, copies and compares its field of [`EngineRules`].
    pub(super) read: fn(&mut EngineRules, &str) -> Result<(), UnreadableValue>,
    pub(super) written: fn(&EngineRules) -> String,
    pub(super) take: fn(&mut EngineRules, &EngineRules),
    pub(super) is_same: fn(&EngineRules, &EngineRules) -> bool,
}

impl EngineOption {
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
    pub(in crate::engines) fn take(&self, rules: &mut EngineRules, others: &EngineRules) {
        (self.take)(rules, others);
    }

    /// The value that the rules have, as it is written.
    pub fn written(&self, rules: &EngineRules) -> String {
        (self.written)(rules)
    }

    /// Whether the rules have another value than where it is left out.
    pub fn is_set(&self, rules: &EngineRules) -> bool {
        !(self.is_same)(rules, &EngineRules::default())
    }

    /// Whether an engine with these rules reads it.
    pub fn is_read(&self, rules: &EngineRules, engine: Profile) -> bool {
        self.engines.iter().any(|(of, needs)| *of == engine && needs.hold(rules, engine))
    }

    /// Whether it is one of an engine's.
    pub fn is_of(&self, engine: Profile) -> bool {
        self.engines.iter().any(|(of, _)| *of == engine)
    }

    /// Those of some engines that have it, and what else each needs, in words.
    pub fn belongs_to(&self, is_one: impl Fn(Profile) -> bool) -> String {
        let in_words = |(engine, needs): &(Profile, OptionNeeds)| match needs.in_words() {
            "" => engine.name().to_owned(),
            needs => format!("{} with {needs}", engine.name()),
        };
        let engines = self.engines.iter().filter(|(engine, _)| is_one(*engine));
        engines.map(in_words).collect::<Vec<_>>().join(", or ")
    }
}

/// What must hold of an engine, besides its name, for it to read an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionNeeds {
    /// Nothing.
    Nothing,
    /// Several groups of layers.
    SeveralGroups,
    /// A pool of blocks that is modelled at each capacity: several groups of layers, or a draft head.
    BlockPool,
    /// A draft head and windows.
    DraftedWindows,
    /// A pool for windows alongside that of full attention, in SGLang.
    WindowPool,
    /// A pool for states alongside that of full attention, in SGLang.
    StatePool,
    /// One of these pools.
    OtherPool,
    /// A host tier of the engine's own.
    HostTier,
    /// No such tier.
    NoHostTier,
    /// No pool for windows or states alongside that of full attention, in SGLang.
    NoOtherPool,
}

impl OptionNeeds {
    /// Whether it holds.
    pub fn hold(self, rules: &EngineRules, engine: Profile) -> bool {
        match self {
            Self::Nothing => true,
            Self::SeveralGroups => !rules.attention.is_full(),
            Self::BlockPool => rules.is_pool_of_blocks(engine),
            Self::DraftedWindows => rules.drafts_over_windows(engine),
            Self::WindowPool => rules.has_window_pool(engine),
            Self::StatePool => rules.has_state_pool(engine),
            Self::OtherPool => rules.has_other_pool(engine),
            Self::HostTier => rules.has_host(engine),
            Self::NoHostTier => !rules.has_host(engine),
            Self::NoOtherPool => !rules.has_other_pool(engine),
        }
    }

    /// In words, to follow "with".
    fn in_words(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::SeveralGroups => "several groups of layers",
            Self::BlockPool => "several groups of layers or a draft head",
            Self::DraftedWindows => "a draft head and windows alongside full attention",
            Self::WindowPool => "windows alongside full attention and no draft head",
            Self::StatePool => "states alongside full attention and no draft head",
            Self::OtherPool => "windows or states alongside full attention and no draft head",
            Self::HostTier => "a host tier",
            Self::NoHostTier => "no host tier",
            Self::NoOtherPool => "no windows and no states",
        }
    }

    /// What to do on the command line for it to hold of an engine, but for leaving the option out.
    pub fn cure(self, engine: Profile) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::SeveralGroups => Some("give --attention, such as full+window:128"),
            Self::BlockPool => {
                Some("give one of these, such as --attention full+window:128, or --below vllm-offload:SIZE")
            }
            Self::DraftedWindows => Some("give --draft-head and --attention such as full+window:128"),
            Self::WindowPool | Self::OtherPool => {
                Some("give --attention such as full+window:128, without --draft-head")
            }
            Self::StatePool => Some("give --attention such as full+3*mamba, without --draft-head"),
            Self::HostTier => Some("give --below hicache:SIZE"),
            Self::NoHostTier if engine == Profile::Vllm => Some("leave --below vllm-offload out"),
            Self::NoHostTier => Some("leave --below hicache out"),
            Self::NoOtherPool => Some("leave --attention out"),
        }
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
            },)+];
        }
    };
}

pub(super) use engine_options;
