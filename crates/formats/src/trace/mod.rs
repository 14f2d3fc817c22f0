//! Trace files of every known shape, read as a stream of requests.
//!
//! [`open`] takes files (plain, `.zst` or `.gz`, distinguished by their first bytes) or `-` for standard
//! input, and [`TraceReader::next_item`] hands out one request after the other from reused buffers, so a
//! trace larger than memory can be read: a line at a time, for weka a session at a time.
//!
//! | format | a line | time | tokens per page |
//! |---|---|---|---|
//! | mooncake | a request | `timestamp`, ms | 512 |
//! | mooncake-delta | what a request adds to its session's prompt | `timestamp` or `delay`, ms | 512 |
//! | weka | a session, or a request | `t`, s from the session's start; `timestamp`, ms | `block_size`, else 64 |
//! | qwen | a request | `timestamp`, s | 16 |
//! | dynamo | a request that ended, or another event (passed over) | `request_received_ms` | `trace_block_size` |
//! | token-ids | a prompt, or a batch of them | `timestamp`, ms, where given | 64 |
//! | openai | a chat or completion request, bare or under `body`; needs the model's tokenizer | `timestamp`, ms, where given | 64 |
//! | litellm, kong, apisix, higress, envoy-ai-gateway, vllm, sglang, openai-batch, otlp | a record of that log ([`crate::logs`]), of OTLP behind its length, too | the log's own | 64 |
//! | avro | an event (`schemas/request_event.avsc`) of a container file | `event_time`, ms | `page_size`, else 64 |
//! | events | the same in JSON, one per line | `event_time`, ms | `page_size`, else 64 |
//!
//! Weka sessions come in file order, the requests of each in the order of their times (stable). The
//! requests of a sub-agent count from its start: its `t`, which is its end, less its `duration_ms`; a
//! sub-agent without a duration is taken to start at its `t`. Published files have them count from the session's start:
//! a file's times decide, and [`TraceReader::notes`] says so. An entry with neither `hash_ids` nor
//! nested `requests` is a fault of its session. Sessions have no common clock, so each is started where
//! the one before it ended; [`TraceReader::notes`] says so.
//!
//! A line that does not parse, or a request whose number of page ids contradicts its tokens, is a
//! [`TraceItem::Refused`]; the rows after it are read on. Damaged compressed data and failing disks end
//! the trace with a [`TraceError`].

mod ahead;
mod arrival;
mod avro;
mod background;
mod carried;
mod detect;
mod entry;
mod error;
mod events;
mod fields;
mod findings;
mod first_row;
mod formats;
mod frames;
mod groups;
mod id_arrays;
mod input;
mod joined;
mod lines;
mod logged;
mod options;
mod order_evidence;
mod paging;
mod parallel;
mod reader;
mod records;
mod rows;
mod served;
mod start_unit;
mod text;
mod time_facts;
mod timeline;
mod unpack;
mod write;

pub use crate::record::answer::LoggedAnswer;
pub use crate::record::fault::RowFault;
pub use crate::record::generated::Generated;
pub use crate::record::id_scope::IdScope;
pub use crate::record::observed::{CacheWrites, ObservedRequest};
pub use crate::record::repeats::{PromptRepeats, RepeatFacts};
pub use crate::record::row::TraceRow;
pub use background::{AheadReader, Recording, open_ahead, recorded_ahead};
pub use detect::format_of;
pub use error::{RowError, TraceError};
pub use findings::TraceFindings;
pub use groups::ItemGroup;
pub use input::decompress;
pub use options::{DEFAULT_PAGE_SIZE, Format, ReadOptions, RowOrder};
pub use reader::{ReadProgress, TraceItem, TraceReader, open};
pub use rows::RawRecords;
pub use time_facts::{Backwards, TimeFacts, TraceClock};
pub use write::write_row;
