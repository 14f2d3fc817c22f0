//! One record of a log or a trace as typed values: its fields, numbers and times, the answer that was logged with it,
//! and the request that it becomes. Logs and traces read records alike, each in their own files.

pub mod answer;
mod answer_names;
pub(crate) mod brief;
pub(crate) mod dynamo;
pub(crate) mod extras;
pub mod fault;
pub(crate) mod file_spans;
pub mod generated;
pub mod id_scope;
pub mod json;
pub(crate) mod members;
pub mod numbers;
pub mod observed;
pub mod outcome;
mod remembered;
pub(crate) mod repeats;
mod request_names;
pub mod row;
pub(crate) mod served;
pub(crate) mod stated_time;
pub(crate) mod subagents;
pub mod unshown;
