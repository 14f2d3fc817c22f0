//! Which rule a config's model follows: by its class, else by its type, else by its text model's.

use super::error::{ModelConfigError, ModelRead};
use super::families::{self, Family, FamilyRow, Wrapper};
use super::fields::{ConfigFields, FieldNames, shorten};

/// The levels a wrapper may keep its text model's fields in.
const TEXT_LEVELS: [&str; 5] =
    ["text_config", "llm_config", "language_config", "language_model_config", "thinker_config"];

/// Usual fields under the names of MLC's `mlc-chat-config.json`.
const MLC_NAMES: FieldNames =
    &[("sliding_window", "sliding_window_size"), ("max_position_embeddings", "context_window_size")];

/// Usual fields under the names of TensorRT-LLM's checkpoints.
const TRTLLM_NAMES: FieldNames = &[("head_dim", "head_size")];

/// Most levels that are gone down.
const MOST_LEVELS: usize = 4;

/// A model whose rule is known.
#[derive(Debug)]
pub(super) struct KnownModel<'a> {
    /// As the config names it.
    pub name: String,
    pub family: Family,
    /// The level its fields are on.
    pub fields: ConfigFields<'a>,
    /// What to know of the way it was found.
    pub remarks: Vec<String>,
}

/// Files that lie beside a model's config, by a member that tells each.
const OTHER_FILES: [(&str, &str); 8] = [
    ("peft_type", "the configuration of an adapter"),
    ("general.architecture", "the metadata of a GGUF file"),
    ("cfg", "a configuration of NeMo"),
    ("tokenizer_class", "the configuration of a tokenizer"),
    ("_from_model_config", "how answers are generated (generation_config.json)"),
    ("do_sample", "how answers are generated (generation_config.json)"),
    ("search", "a configuration of ONNX Runtime"),
    ("weight_map", "the index of a model's weights"),
];

/// What one level calls its model.
#[derive(Debug, Clone, Copy)]
struct ModelNames<'a> {
    class: Option<&'a str>,
    model_type: Option<&'a str>,
}

/// Finds the model of a config.
pub(super) fn find<'a>(root: ConfigFields<'a>) -> ModelRead<KnownModel<'a>> {
    let mut remarks = Vec::new();
    let (root, mut names) = of_runtime(root, &mut remarks)?;
    if let Some(model_type) = of_params(names, &root)? {
        names.model_type = Some(model_type);
        remarks.push(
            "this is Mistral's params.json, read as vLLM's --config-format mistral reads it".to_owned(),
        );
    }
    let Some(name) = names.class.or(names.model_type).map(str::to_owned) else {
        if let Some((_, what)) = OTHER_FILES.into_iter().find(|(key, _)| root.has(key)) {
            return Err(ModelConfigError::OtherFile { what });
        }
        let needed_for = "it names the cache layout; a `model_type` does too";
        return Err(root.missing("architectures", needed_for));
    };
    let (family, fields) = resolve(root, names, None, &mut remarks, MOST_LEVELS)?;
    Ok(KnownModel { name: shorten(&name), family, fields, remarks })
}

/// The level and the names of a config in the form of another runtime; the root and its own where it is in none.
fn of_runtime<'a>(
    root: ConfigFields<'a>,
    remarks: &mut Vec<String>,
) -> ModelRead<(ConfigFields<'a>, ModelNames<'a>)> {
    let names = ModelNames::of(&root)?;
    if !root.says_sizes()
        && names.model_type.is_some()
        && let Some(sizes) = root.nested("model_config")?
    {
        remarks.push("this is MLC's config, which has the model's sizes in `model_config`".to_owned());
        return Ok((sizes.of_form(MLC_NAMES), names));
    }
    let built = root.nested("pretrained_config")?;
    let level = built.as_ref().unwrap_or(&root);
    if names.class.or(names.model_type).is_none()
        && let Some(class) = level.text("architecture")?
    {
        remarks.push("this is the config of a TensorRT-LLM checkpoint or engine, which names its class in `architecture`".to_owned());
        let names = ModelNames { class: Some(class), model_type: None };
        return Ok((built.unwrap_or(root).of_form(TRTLLM_NAMES), names));
    }
    Ok((root, names))
}

/// The type that stands for Mistral's own form of a config, which names neither a class nor a type.
fn of_params(names: ModelNames<'_>, root: &ConfigFields<'_>) -> ModelRead<Option<&'static str>> {
    let is_named = names.class.is_some() || names.model_type.is_some();
    if is_named || root.value("dim").is_none() || root.value("n_layers").is_none() {
        return Ok(None);
    }
    let is_latent = root.optional("kv_lora_rank")?.is_some();
    Ok(Some(if is_latent { "mistral-params-latent" } else { "mistral-params" }))
}

impl<'a> ModelNames<'a> {
    fn of(level: &ConfigFields<'a>) -> ModelRead<Self> {
        let class = match level.list("architectures") {
            Ok(None) => None,
            Ok(Some(list)) if list[0].is_string() => list[0].as_str(),
            _ => {
                let found = level.value("architectures").unwrap_or(&serde_json::Value::Null);
                return Err(level.unexpected("architectures", found, "a list that begins with a class name"));
            }
        };
        Ok(Self { class, model_type: level.text("model_type")? })
    }

    /// The rule and the defaults: a class says the rule, and a type what its config class leaves out.
    fn row(self) -> Option<(Family, families::Defaults)> {
        let by_type = families::of_type(self.model_type);
        match (families::of_class(self.class), by_type) {
            (Some(class), Some(FamilyRow { defaults, .. })) => Some((class.family, defaults)),
            (Some(row), None) | (None, Some(row)) => Some((row.family, row.defaults)),
            (None, None) => None,
        }
    }

    /// Refuses what is known to cache something else; the class counts before the type.
    fn check(self) -> ModelRead<()> {
        let by_class = families::of_class(self.class).is_some() || families::wraps(self.class);
        let refused = self.class.into_iter().chain(self.model_type.filter(|_| !by_class)).find_map(|name| {
            let reason = families::refusal(name)?;
            Some(ModelConfigError::OtherCache { name: shorten(name), reason })
        });
        refused.map_or(Ok(()), Err)
    }

    fn unknown(self) -> ModelConfigError {
        ModelConfigError::UnknownArchitecture { name: shorten(self.class.or(self.model_type).unwrap_or("")) }
    }
}

/// Resolves a level; `outer` is the wrapper it lies in.
fn resolve<'a>(
    level: ConfigFields<'a>,
    names: ModelNames<'a>,
    outer: Option<&'static Wrapper>,
    remarks: &mut Vec<String>,
    levels: usize,
) -> ModelRead<(Family, ConfigFields<'a>)> {
    names.check()?;
    let text = text_level(&level)?.filter(|_| levels > 0);
    let wrapper = families::wrapper(names.class, names.model_type);
    // A text model's class counts as such, but for configs that keep its fields a level down all the same.
    if let Some((family, defaults)) = names.row().filter(|_| text.is_none() || level.counts_layers()) {
        note_unknown_class(names, remarks);
        let level = level.of_family(family, defaults);
        // A class's own defaults are those of one model. They stand for what a config of that class leaves out.
        if outer.is_none() && !level.says_sizes() {
            let place = level.sized_object();
            // Both are in every config that a class writes; any other file may have got one of them.
            if names.class.is_none() || names.model_type.is_none() || place.is_some() {
                return Err(ModelConfigError::NoSizes {
                    name: shorten(names.class.or(names.model_type).unwrap_or("")),
                    place: place.map(shorten),
                });
            }
        }
        return Ok((family, level));
    }
    if let Some(inner) = text {
        if wrapper.is_none() && names.row().is_none() && outer.is_none() {
            let class = names.class.or(names.model_type).unwrap_or("");
            remarks
                .push(format!("`{}` is in no table: the figure is that of its text model", shorten(class)));
        }
        let inner_names = ModelNames::of(&inner)?;
        return resolve(inner, inner_names, wrapper.or(outer), remarks, levels - 1);
    }
    if wrapper.is_some_and(|wrapper| wrapper.has_own_defaults) && !level.counts_layers() {
        return Err(level.missing("text_config", "this model's layers are described there"));
    }
    let inherited = wrapper.or(outer.filter(|outer| names.belong_to(outer)));
    let row = inherited.and_then(|wrapper| families::of_type(Some(wrapper.text)));
    match row {
        Some(row) => Ok((row.family, level.of_family(row.family, row.defaults))),
        None => Err(names.unknown()),
    }
}

impl ModelNames<'_> {
    /// Whether a text level names nothing, or the wrapper's own type (`kimi_k3_text` in `kimi_k3`).
    fn belong_to(self, wrapper: &Wrapper) -> bool {
        match (self.class, self.model_type) {
            (None, None) => true,
            (_, Some(name)) => {
                wrapper.types.iter().any(|own| name == *own || name.strip_suffix("_text") == Some(own))
            }
            (Some(_), None) => false,
        }
    }
}

/// The level of the text model inside this one.
fn text_level<'a>(level: &ConfigFields<'a>) -> ModelRead<Option<ConfigFields<'a>>> {
    for name in TEXT_LEVELS {
        if let Some(inner) = level.nested(name)? {
            return Ok(Some(inner));
        }
    }
    Ok(None)
}

/// Says that a class is in no table, where its type is.
fn note_unknown_class(names: ModelNames<'_>, remarks: &mut Vec<String>) {
    let (Some(class), Some(model_type)) = (names.class, names.model_type) else { return };
    if families::of_class(names.class).is_none() {
        remarks.push(format!(
            "class `{}` is in no table: its layers are taken to be those of type `{}`",
            shorten(class),
            shorten(model_type)
        ));
    }
}
