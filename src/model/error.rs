//! Why a config gives no cost.

use super::families;

/// What is read of a config, or follows from it.
pub(super) type ModelRead<T> = Result<T, ModelConfigError>;

/// A `config.json` that cannot be turned into bytes per token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    /// The text is no JSON object.
    #[error("the model's config is not a JSON object: {reason}")]
    NotAnObject {
        /// What the parser says, or what was found.
        reason: String,
    },
    /// The text is far longer than any real config.
    #[error("the model's config is {bytes} bytes long, more than {most}: is it a config.json?")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The config names an architecture whose cache layout is not known.
    #[error(
        "architecture `{name}` is not known, and its cache layout is not guessed: give \
         --kv-bytes-per-token instead. known: {}",
        families::known_names()
    )]
    UnknownArchitecture {
        /// As the config spells it, shortened.
        name: String,
    },
    /// The config names an architecture that is known to cache something else than the rules say.
    #[error("architecture `{name}` is not computed: {reason}. give --kv-bytes-per-token instead")]
    OtherCache {
        /// As the config spells it, shortened.
        name: String,
        /// What it caches.
        reason: &'static str,
    },
    /// The cache cannot have the type that was requested.
    #[error("--kv-dtype {kv_dtype} does not fit this model: {reason}")]
    KvDtype {
        /// The type's name.
        kv_dtype: &'static str,
        /// Why, and what to give instead.
        reason: String,
    },
    /// The config names its model and no size of it.
    #[error(
        "the config does not say how large `{name}` is: it has no `num_hidden_layers`, no `hidden_size` and no heads{}. \
         give the model's own config.json",
        place.as_ref().map(|place| format!(" but in `{place}`, which is not read")).unwrap_or_default()
    )]
    NoSizes {
        /// As the config spells it, shortened.
        name: String,
        /// The object that has sizes, if one has.
        place: Option<String>,
    },
    /// The file is of something else than a model.
    #[error("this is {what}, which does not say what a model caches: give the model's own config.json")]
    OtherFile {
        /// Of what.
        what: &'static str,
    },
    /// A field the formula reads is not there.
    #[error("field `{field}` is missing from the model's config: {needed_for}")]
    Missing {
        /// Its path.
        field: String,
        /// What it is needed for.
        needed_for: &'static str,
    },
    /// A field holds something else than it should.
    #[error("field `{field}` of the model's config is {found}: expected {expected}")]
    Unexpected {
        /// Its path.
        field: String,
        /// What it holds, in a few words.
        found: String,
        /// What it should hold.
        expected: String,
    },
    /// There is nothing to count by the token.
    #[error(
        "no layer of this model keeps tokens, only states of constant size: its cost is not one by the token"
    )]
    NoTokens,
    /// The numbers multiply to more than 64 bits.
    #[error("{what} comes to more bytes than 64 bits hold ({formula}): the model's config is not plausible")]
    Overflow {
        /// The part that is computed.
        what: String,
        /// Its formula, with field names.
        formula: String,
    },
    /// The model cannot be served so, or nothing is left for its cache.
    #[error("{reason}")]
    Deployment {
        /// What does not fit, and what to change.
        reason: String,
    },
    /// The model cannot be split over this many ranks.
    #[error("--tp {tensor_parallel} does not fit `{field}` = {count}: one must divide the other")]
    TensorParallel {
        /// Ranks requested.
        tensor_parallel: u32,
        /// The field that counts what is split.
        field: String,
        /// Its value.
        count: u64,
    },
}
