//! Options of engines, as the core declares them.

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use kvset_core::engines::hybrid::Attention;
use kvset_core::engines::profile::Profile;
use kvset_core::engines::rules::{EngineOption, EngineRules, GivenOptions, OptionValues};

/// What engines are configured with besides their names; each option belongs to some of them.
#[derive(Debug, Clone, Default)]
pub struct EngineArgs(GivenOptions);

impl Args for EngineArgs {
    fn augment_args(command: Command) -> Command {
        EngineRules::options_by_name().filter_map(argument).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EngineArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in EngineRules::options_by_name().filter(|option| option.flag.is_some()) {
            if let Some(text) = matches.get_one::<String>(option.key) {
                let given = self.0.give(option, text);
                given.map_err(|reason| clap::Error::raw(ErrorKind::ValueValidation, reason))?;
            }
        }
        Ok(())
    }
}

/// An option as the command line has it.
fn argument(option: &'static EngineOption) -> Option<Arg> {
    let parser: ValueParser = match &option.values {
        OptionValues::Names(names) => PossibleValuesParser::new(*names).into(),
        _ => ValueParser::new(|text: &str| {
            option.read(&mut EngineRules::default(), text).map(|()| text.to_owned())
        }),
    };
    let help = option.doc.concat();
    let argument = Arg::new(option.key)
        .long(option.flag?)
        .value_name(option.value_name)
        .value_parser(parser)
        .help(help.trim().trim_end_matches('.').to_owned());
    Some(match option.alone {
        Some(value) => argument.num_args(0..=1).require_equals(true).default_missing_value(value),
        None => argument,
    })
}

impl EngineArgs {
    /// Whether an option was given.
    pub fn has(&self, key: &str) -> bool {
        self.0.has(key)
    }

    /// The options, each at what was given, at what the `model` says, or at the engine's default.
    pub fn rules(&self, model: Option<&Attention>) -> EngineRules {
        let rules = self.0.values();
        match model.filter(|_| !self.has("attention")) {
            Some(attention) => EngineRules { attention: attention.clone(), ..rules },
            None => rules,
        }
    }

    /// Whether every option that was given is read by one of the engines, with these rules; `offloads` where vLLM's
    /// own tier is below.
    ///
    /// # Errors
    /// The first that is not, with what to do.
    pub fn check(&self, engines: &[Profile], rules: &EngineRules, offloads: bool) -> Result<(), String> {
        let given = EngineRules::options_by_name().filter(|option| self.has(option.key));
        given.filter_map(|option| refusal(option, engines, rules, offloads)).next().map_or(Ok(()), Err)
    }
}

/// Why none of the engines reads an option, with what to do.
fn refusal(
    option: &EngineOption,
    engines: &[Profile],
    rules: &EngineRules,
    offloads: bool,
) -> Option<String> {
    let flag = option.flag?;
    let named = || EngineRules::OPTIONS.iter().filter(|other| other.key == option.key);
    let of_engines =
        || named().flat_map(|option| option.engines).filter(|(engine, _)| engines.contains(engine));
    if of_engines().next().is_none() {
        let all: Vec<_> =
            named().flat_map(|option| option.engines).map(|(engine, _)| engine.name()).collect();
        let (all, one) = (all.join(" and "), all.join(" or --engine "));
        return Some(format!("--{flag} is an option of {all}: leave it out, or choose --engine {one}"));
    }
    let is_read = |option: &EngineOption| engines.iter().any(|engine| option.is_read(rules, *engine));
    // The steps in which vLLM computes a prompt are those in which its own tier takes pages, too.
    let is_of_tier = offloads && option.key == "prefill_chunk";
    if is_of_tier || named().any(|option| is_read(option) || !option.is_set(rules)) {
        return None;
    }
    let of = option.belongs_to(|engine| engines.contains(&engine));
    Some(match of_engines().find_map(|(_, needs)| needs.cure) {
        Some(cure) => format!("--{flag} is of {of}: {cure}, or leave it out"),
        None => format!("--{flag} is of {of}: leave it out"),
    })
}
