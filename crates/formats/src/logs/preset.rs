//! The shapes by name.

use super::envelope::{self, RecordPath};
use super::layout::LogLayout;
use super::layouts::{self, has_paths};
use super::shape::PromptKind;
use super::{Logged, Places, dynamo, otlp, vllm};
use crate::codec::DecodeError;
use kvset_core::units::text::named;
use std::fmt;
use std::str::FromStr;

/// What is known of a shape of log.
struct PresetSpec {
    /// Where the shape was read: repository and path.
    source: &'static str,
    /// What reads a record of it.
    reader: Reader,
    /// The fields that distinguish its records from others: a record has all of one row. Records of requests that failed
    /// early, which are passed over, have them, too.
    marks: &'static [&'static [&'static str]],
    /// Whether a record is of this shape, given which paths lead somewhere in it. The first row that says so has it.
    shows: fn(&[u8], HasPath<'_>) -> bool,
}

/// Tells which paths lead somewhere in a record.
type HasPath<'h> = &'h mut dyn FnMut(&str) -> bool;

/// What reads a record.
enum Reader {
    Layout(&'static LogLayout),
    Own(for<'r> fn(&'r [u8], &Places) -> Result<Logged<'r>, DecodeError>),
}

/// Declares [`Preset`] and what is known of each, a shape a row.
macro_rules! presets {
    ($(
        $(#[$about:meta])+
        $Name:ident $name:literal $reader:expr, $([$($mark:literal),+])+, $source:literal, if $shows:expr;
    )+) => {
        /// A shape of log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Preset {
            $($(#[$about])+ $Name,)+
        }

        impl Preset {
            /// Every preset with the name that users write.
            pub const NAMES: [(&'static str, Self); [$($name),+].len()] = [$(($name, Self::$Name)),+];

            const ALL: &[PresetSpec] = &[
                $(PresetSpec { source: $source, reader: $reader, marks: &[$(&[$($mark),+]),+], shows: $shows },)+
            ];
        }
    };
}

presets! {
    /// LiteLLM's standard logging payload.
    Litellm "litellm" Reader::Layout(&layouts::LITELLM), ["call_type"] ["messages"] ["startTime", "status"],
        "BerriAI/litellm: litellm/types/utils.py (StandardLoggingPayload)",
        if |_, has| has("call_type") && has("startTime");
    /// Kong's logs, as its `kafka-log` plugin and others write them.
    Kong "kong" Reader::Layout(&layouts::KONG), ["ai.proxy"] ["latencies"],
        "Kong/kong: kong/llm/plugin/shared-filters/serialize-analytics.lua",
        if |_, has| has("ai.proxy");
    /// APISIX's logs, as its `kafka-logger` plugin and others write them.
    Apisix "apisix" Reader::Layout(&layouts::APISIX), ["request.uri"] ["request.body"] ["route_id"],
        "apache/apisix: apisix/utils/log-util.lua (get_full_log)",
        if |_, has| has("request.uri") && (has("apisix_latency") || has("route_id"));
    /// Higress's access log.
    Higress "higress" Reader::Layout(&layouts::HIGRESS), ["ai_log"] ["response_code"],
        "alibaba/higress: plugins/wasm-go/extensions/ai-statistics/main.go",
        if |_, has| has("ai_log");
    /// Envoy AI Gateway's spans.
    EnvoyAiGateway "envoy-ai-gateway" Reader::Own(otlp::read), ["resourceSpans"] ["resourceLogs"],
        "envoyproxy/ai-gateway: internal/tracing/openinference/openai/request_attrs.go",
        if |_, _| false;
    /// Dynamo's request traces and audit records.
    Dynamo "dynamo" Reader::Own(dynamo::read), ["schema"] ["event.schema"] ["request"],
        "ai-dynamo/dynamo: lib/llm/src/request_trace/types.rs, lib/llm/src/audit/handle.rs",
        if |record, has| {
            (has("schema") || has("event")) && dynamo::is_trace(record)
                || has("requested_streaming") && has("schema_version")
        };
    /// SGLang's request log.
    Sglang "sglang" Reader::Layout(&layouts::SGLANG), ["event", "rid"] ["event", "obj"],
        "sgl-project/sglang: python/sglang/srt/utils/request_logger.py",
        if |_, has| has("event") && has("rid") && has("obj");
    /// Lines of a batch's input file.
    OpenaiBatch "openai-batch" Reader::Layout(&layouts::OPENAI_BATCH), ["custom_id"] ["body"],
        "vllm-project/vllm: vllm/entrypoints/openai/run_batch.py (BatchRequestInput, BatchRequestOutput)",
        if |_, has| {
            has("custom_id") && ["body", "response.body", "error"].into_iter().any(has)
        };
    /// OpenTelemetry's spans and log records.
    Otlp "otlp" Reader::Own(otlp::read), ["resourceSpans"] ["resourceLogs"],
        "open-telemetry/opentelemetry-proto: opentelemetry/proto (trace/v1, logs/v1, common/v1)",
        if |record, has| {
            has("resourceSpans") || otlp::is_protobuf(record) || has("resourceLogs") && !carries_another(record)
        };
    /// Requests to vLLM with its answers.
    Vllm "vllm" Reader::Layout(&layouts::VLLM), ["request"] ["response"] ["body"],
        "vllm-project/vllm: vllm/entrypoints/openai/chat_completion/protocol.py",
        if |record, has| has("response") && vllm::has_ids(record);
}

impl Preset {
    fn spec(self) -> &'static PresetSpec {
        &Self::ALL[self as usize]
    }

    /// Where the shape was read: repository and path.
    pub fn source(self) -> &'static str {
        self.spec().source
    }

    /// Reads a record that lies in nothing else ([`LogReader::open`](super::LogReader::open) opens what carries it).
    ///
    /// # Errors
    /// The record as a whole is not of this shape; a request that is of no use is one of the requests.
    pub(super) fn read<'r>(self, record: &'r [u8], places: &Places) -> Result<Logged<'r>, DecodeError> {
        match self.spec().reader {
            Reader::Layout(layout) => layout.read(record, places),
            Reader::Own(read) => read(record, places),
        }
    }

    /// The fields that distinguish its records from others, by rows.
    pub(super) fn marks(self) -> &'static [&'static [&'static str]] {
        self.spec().marks
    }

    /// Whether a record is one JSON object with one request, so that templates can name its fields.
    pub const fn has_fields(self) -> bool {
        !matches!(self, Self::EnvoyAiGateway | Self::Otlp)
    }

    /// The preset whose shape a record seems to have, itself and not what it carries.
    pub fn of(record: &[u8]) -> Option<Self> {
        let mut has = has_paths(record);
        Self::NAMES.iter().map(|(_, preset)| *preset).find(|preset| (preset.spec().shows)(record, &mut has))
    }

    /// The preset whose shape a record seems to have, and where in it.
    pub fn recognise(record: &[u8]) -> Option<(Self, RecordPath)> {
        if let Some(preset) = Self::of(record) {
            return Some((preset, RecordPath::default()));
        }
        let text = std::str::from_utf8(record).ok()?;
        if PromptKind::of(text).is_some() {
            return None;
        }
        let mut known = None;
        let opened = envelope::open(record, &mut |inner| {
            known = Self::of(inner);
            known.is_some()
        })?;
        known.map(|preset| (preset, opened.place))
    }
}

/// Whether log records of OTLP, none of which is of a request, carry records of another log in their bodies.
fn carries_another(record: &[u8]) -> bool {
    !otlp::has_requests(record) && envelope::open(record, &mut |inner| Preset::of(inner).is_some()).is_some()
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::NAMES[*self as usize].0)
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(&Self::NAMES, "preset", text)
    }
}
