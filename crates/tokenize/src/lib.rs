//! Chat and completion requests to token ids, as the model's own inference server makes them.
//!
//! [`Model::load`] reads a model directory: `tokenizer.json` for the Hugging Face `tokenizers` library,
//! `tokenizer_config.json` and `chat_template.jinja`, but no weights. A [`RequestTokenizer`], one a
//! thread, turns OpenAI-compatible bodies into token ids; hashed into pages (see
//! [`kvset_core::units::hashing`]) they are what the estimator reads.
//!
//! | body | prompt |
//! |---|---|
//! | `messages` | rendered by the chat template with `tools`, `documents`, `chat_template_kwargs`, `reasoning_effort`, `add_generation_prompt` (true unless said), `continue_final_message` |
//! | `prompt` | a text, token ids, or a list of either |
//!
//! Bodies come bare, or under `body` as in batch files. Templates are run as `transformers` runs them,
//! with these differences: `strftime_now` tells the time of the request (in UTC, and where none is known
//! it is undefined), integers beyond 64 bits are floats, floats from 1e16 on or below 1e-4 have no exponent
//! where `~` joins them to a text, and what `raise_exception` says is not repeated. Content that is not text is
//! refused.
//!
//! Bodies of Anthropic's Messages API (`system`, blocks, `input_schema`) and of OpenAI's Responses API
//! (`instructions`, `input`) become the chats that the engine which served them makes of them, by the rules in
//! `rules.rs`; [`RequestTokenizer::served_by`] names it.
//!
//! What is part of a prompt in another API and reaches no template (`previous_response_id`, `mcp_servers`, a
//! tool that is no function) makes the body refused by the field's name, `unrendered_field`: a prompt with
//! a part left out would be counted too short in silence.
//!
//! No error quotes a prompt, and no `Debug` shows text or token ids.
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod apis;
mod body;
mod cache;
mod chat;
mod developer;
mod encoder;
mod error;
mod fields;
mod marks;
mod messages;
mod model;
mod partings;
mod python;
mod remarks;
mod request;
mod roles;
mod rules;
mod strftime;
mod template;
mod tools;
mod unrendered;

pub use encoder::EncoderReuse;
pub use error::ModelError;
pub use model::{Model, ModelFiles};
pub use remarks::ChatRemarks;
pub use request::{RequestTokenizer, TokenizeLimits, TokenizedPrompts};
pub use rules::engine_version;
