//! Logs as gateways, inference engines and telemetry write them: the requests in a record.
//!
//! A [`Preset`] is one such shape. It says where in a record the request is, what the answer's usage tells, when the
//! request came and for whom. `kvset prepare` and `kvset replay` read through it alike.
//!
//! Shapes are those of the projects' own sources; [`Preset::source`] names the file. What a shape leaves out of a
//! prompt is never passed over in silence: a record whose prompt is masked, cut off or not logged is refused, and the
//! refusal says what to switch on.

mod dynamo;
mod envelope;
pub mod foreign;
mod layout;
mod layouts;
mod litellm;
mod otlp;
mod path;
mod preset;
mod read;
mod sglang;
pub mod shape;
mod vllm;

pub(crate) use envelope::open;
pub use envelope::{EnvelopeRecords, RecordPath};
pub(crate) use layout::token_ids;
pub use path::FieldPath;
pub use preset::Preset;
pub use read::LogReader;

use crate::codec::DecodeError;
use crate::record::observed::ObservedRequest;
use crate::time::Time;
use kvset_core::units::PageSize;
use std::borrow::Cow;

/// Places that the operator named: they hold in place of a preset's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Where the request is.
    pub request: Option<FieldPath>,
    /// Where the response is.
    pub response: Option<FieldPath>,
}

/// What a request's prompt is logged as. `Debug` is left out: prompts must reach no log.
pub enum LoggedPrompt<'r> {
    /// A body of one of the APIs that `kvset_tokenize` reads, as JSON.
    Body(Cow<'r, str>),
    /// Token ids, of one prompt or of several.
    Tokens(Vec<Vec<u32>>),
    /// Page ids, as the engine's router made them.
    Pages {
        /// One per page, in the order of the prompt.
        ids: Vec<u64>,
        /// Tokens per page.
        page_size: Option<PageSize>,
    },
}

/// A request as a log tells of it.
pub struct LoggedRequest<'r> {
    /// Its prompt.
    pub prompt: LoggedPrompt<'r>,
    /// When it came.
    pub arrival: Option<Time>,
    /// What was observed of it.
    pub observed: ObservedRequest,
    /// What the log calls the model, the tenant and others, by the names that templates and labels have for them.
    pub names: Vec<(Cow<'r, str>, String)>,
}

impl LoggedRequest<'_> {
    /// The value of a name.
    pub fn name(&self, wanted: &str) -> Option<&str> {
        self.names.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str())
    }
}

/// What a record holds.
pub enum Logged<'r> {
    /// Requests in the order of the record, each by itself usable or not.
    Requests {
        /// How many there are.
        count: usize,
        /// Each read when it is requested, so that no more than one is held.
        requests: Box<dyn Iterator<Item = Result<LoggedRequest<'r>, DecodeError>> + 'r>,
    },
    /// Something else, and what: no request that a cache served.
    PassedOver(&'static str),
}

impl<'r> Logged<'r> {
    /// A record of one request.
    fn one(request: Result<LoggedRequest<'r>, DecodeError>) -> Self {
        Self::Requests { count: 1, requests: Box::new(std::iter::once(request)) }
    }
}
