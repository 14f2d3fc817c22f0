//! The shapes by name.

use super::envelope::{self, RecordPath};
use super::layouts::{self, has_paths};
use super::shape::PromptKind;
use super::{Logged, Places, dynamo, otlp, vllm};
use crate::codec::DecodeError;
use std::fmt;
use std::str::FromStr;

/// A shape of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preset {
    /// LiteLLM's standard logging payload.
    Litellm,
    /// Kong's logs, as its `kafka-log` plugin and others write them.
    Kong,
    /// APISIX's logs, as its `kafka-logger` plugin and others write them.
    Apisix,
    /// Higress's access log.
    Higress,
    /// Envoy AI Gateway's spans.
    EnvoyAiGateway,
    /// Dynamo's request traces and audit records.
    Dynamo,
    /// Requests to vLLM with its answers.
    Vllm,
    /// SGLang's request log.
    Sglang,
    /// Lines of a batch's input file.
    OpenaiBatch,
    /// OpenTelemetry's spans and log records.
    Otlp,
}

impl Preset {
    /// Every preset with the name that users write.
    pub const NAMES: [(&'static str, Self); 10] = [
        ("litellm", Self::Litellm),
        ("kong", Self::Kong),
        ("apisix", Self::Apisix),
        ("higress", Self::Higress),
        ("envoy-ai-gateway", Self::EnvoyAiGateway),
        ("dynamo", Self::Dynamo),
        ("vllm", Self::Vllm),
        ("sglang", Self::Sglang),
        ("openai-batch", Self::OpenaiBatch),
        ("otlp", Self::Otlp),
    ];

    /// Where the shape was read: repository and path.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Litellm => "BerriAI/litellm: litellm/types/utils.py (StandardLoggingPayload)",
            Self::Kong => "Kong/kong: kong/llm/plugin/shared-filters/serialize-analytics.lua",
            Self::Apisix => "apache/apisix: apisix/utils/log-util.lua (get_full_log)",
            Self::Higress => "alibaba/higress: plugins/wasm-go/extensions/ai-statistics/main.go",
            Self::EnvoyAiGateway => {
                "envoyproxy/ai-gateway: internal/tracing/openinference/openai/request_attrs.go"
            }
            Self::Dynamo => {
                "ai-dynamo/dynamo: lib/llm/src/request_trace/types.rs, lib/llm/src/audit/handle.rs"
            }
            Self::Vllm => "vllm-project/vllm: vllm/entrypoints/openai/chat_completion/protocol.py",
            Self::Sglang => "sgl-project/sglang: python/sglang/srt/utils/request_logger.py",
            Self::OpenaiBatch => {
                "vllm-project/vllm: vllm/entrypoints/openai/run_batch.py (BatchRequestInput, BatchRequestOutput)"
            }
            Self::Otlp => {
                "open-telemetry/opentelemetry-proto: opentelemetry/proto (trace/v1, logs/v1, common/v1)"
            }
        }
    }

    /// Whether a record is one JSON object with one request, so that templates can name its fields.
    pub const fn has_fields(self) -> bool {
        !matches!(self, Self::EnvoyAiGateway | Self::Otlp)
    }

    /// Reads a record that lies in nothing else ([`LogReader::open`](super::LogReader::open) opens what carries it).
    ///
    /// # Errors
    /// The record as a whole is not of this shape; a request that is of no use is one of the requests.
    pub(super) fn read<'r>(self, record: &'r [u8], places: &Places) -> Result<Logged<'r>, DecodeError> {
        match self {
            Self::Litellm => layouts::LITELLM.read(record, places),
            Self::Kong => layouts::KONG.read(record, places),
            Self::Apisix => layouts::APISIX.read(record, places),
            Self::Higress => layouts::HIGRESS.read(record, places),
            Self::Dynamo => dynamo::read(record, places),
            Self::Vllm => layouts::VLLM.read(record, places),
            Self::Sglang => layouts::SGLANG.read(record, places),
            Self::OpenaiBatch => layouts::OPENAI_BATCH.read(record, places),
            Self::EnvoyAiGateway | Self::Otlp => otlp::read(record, places),
        }
    }

    /// The fields that distinguish this shape's records from others: a record has all of one row. Records of requests
    /// that failed early, which are passed over, have them, too.
    pub(super) const fn marks(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Litellm => &[&["call_type"], &["messages"], &["startTime", "status"]],
            Self::Kong => &[&["ai.proxy"], &["latencies"]],
            Self::Apisix => &[&["request.uri"], &["request.body"], &["route_id"]],
            Self::Higress => &[&["ai_log"], &["response_code"]],
            Self::Dynamo => &[&["schema"], &["event.schema"], &["request"]],
            Self::Vllm => &[&["request"], &["response"], &["body"]],
            Self::Sglang => &[&["event", "rid"], &["event", "obj"]],
            Self::OpenaiBatch => &[&["custom_id"], &["body"]],
            Self::EnvoyAiGateway | Self::Otlp => &[&["resourceSpans"], &["resourceLogs"]],
        }
    }

    /// The preset whose shape a record seems to have, itself and not what it carries.
    pub fn of(record: &[u8]) -> Option<Self> {
        let mut has = has_paths(record);
        if has("ai.proxy") {
            Some(Self::Kong)
        } else if has("ai_log") {
            Some(Self::Higress)
        } else if has("call_type") && has("startTime") {
            Some(Self::Litellm)
        } else if has("request.uri") && (has("apisix_latency") || has("route_id")) {
            Some(Self::Apisix)
        } else if (has("schema") || has("event")) && dynamo::is_trace(record)
            || has("requested_streaming") && has("schema_version")
        {
            Some(Self::Dynamo)
        } else if has("event") && has("rid") && has("obj") {
            Some(Self::Sglang)
        } else if has("custom_id") && ["body", "response.body", "error"].into_iter().any(&mut has) {
            Some(Self::OpenaiBatch)
        } else if has("resourceSpans") || otlp::is_protobuf(record) {
            Some(Self::Otlp)
        } else if has("resourceLogs") {
            (!carries_another(record)).then_some(Self::Otlp)
        } else if has("response") && vllm::has_ids(record) {
            Some(Self::Vllm)
        } else {
            None
        }
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
        let known = Self::NAMES.iter().find(|(_, preset)| preset == self);
        f.pad(known.map_or("", |(name, _)| name))
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, preset)| *preset).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown preset `{text}`: expected one of {}", names.join(", "))
        })
    }
}
