//! The SDKs that write spans, and where each keeps the prompt.
//!
//! A span is of an SDK by an attribute that only this one writes. What an SDK calls a request is one only where its own
//! kind says so: the spans around it repeat its prompt.

use super::item::LoggedItem;
use super::messages::AnyValue;

/// Whether a span of this kind is one request to a model.
type IsRequest = fn(&str) -> bool;

/// What is known of one SDK.
pub(super) struct Sdk {
    /// What users call it.
    pub name: &'static str,
    /// An attribute that only this SDK writes, in whole or up to a number.
    mark: &'static str,
    /// The attribute that says what a span is, and whether that is one request to a model.
    kind: Option<(&'static str, IsRequest)>,
    /// Where it keeps prompts.
    pub keeps: &'static str,
    /// What keeps it from doing so.
    pub advice: &'static str,
}

/// The SDKs, the more particular ones first.
const SDKS: [Sdk; 13] = [
    Sdk {
        name: "the Vercel AI SDK",
        mark: "ai.operationId",
        kind: Some(("ai.operationId", |kind| kind.ends_with(".doGenerate") || kind.ends_with(".doStream"))),
        keeps: "ai.prompt.messages",
        advice: "leave `recordInputs` of its telemetry on",
    },
    Sdk {
        name: "MLflow",
        mark: "mlflow.spanType",
        kind: Some(("mlflow.spanType", |kind| ["LLM", "CHAT_MODEL"].contains(&kind))),
        keeps: "mlflow.spanInputs",
        advice: "leave inputs unmasked",
    },
    Sdk {
        name: "Langfuse",
        mark: "langfuse.observation.type",
        kind: Some(("langfuse.observation.type", |kind| kind == "generation")),
        keeps: "langfuse.observation.input",
        advice: "give each generation its input, unmasked",
    },
    Sdk {
        name: "LangSmith",
        mark: "langsmith.span.kind",
        kind: Some(("langsmith.span.kind", |kind| kind.eq_ignore_ascii_case("llm"))),
        keeps: "gen_ai.prompt",
        advice: "leave LANGSMITH_HIDE_INPUTS off",
    },
    Sdk {
        name: "OpenInference",
        mark: "openinference.span.kind",
        kind: Some(("openinference.span.kind", |kind| kind == "LLM")),
        keeps: "llm.input_messages",
        advice: "leave OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_INPUT_MESSAGES off",
    },
    Sdk {
        name: "OpenLLMetry",
        mark: "traceloop.span.kind",
        kind: Some(("traceloop.span.kind", |_| false)),
        keeps: "gen_ai.prompt.N.content",
        advice: "leave TRACELOOP_TRACE_CONTENT at true",
    },
    Sdk {
        name: "OpenLLMetry",
        mark: "llm.request.type",
        kind: None,
        keeps: "gen_ai.prompt.N.content",
        advice: "leave TRACELOOP_TRACE_CONTENT at true",
    },
    Sdk {
        name: "Google's Agent Development Kit",
        mark: "gcp.vertex.agent.llm_request",
        kind: None,
        keeps: "gcp.vertex.agent.llm_request",
        advice: "it is a body of Google's API, which no chat template renders",
    },
    Sdk {
        name: "Genkit",
        mark: "genkit:input",
        kind: None,
        keeps: "genkit:input",
        advice: "trace the requests where they are served",
    },
    Sdk {
        name: "Haystack",
        mark: "haystack.component.input",
        kind: None,
        keeps: "haystack.component.input",
        advice: "trace the requests where they are served",
    },
    Sdk {
        name: "Pydantic AI",
        mark: "model_request_parameters",
        kind: None,
        keeps: "gen_ai.input.messages",
        advice: "leave `include_content` of its InstrumentationSettings on",
    },
    Sdk {
        name: "Logfire",
        mark: "logfire.msg",
        kind: None,
        keeps: "request_data",
        advice: "instrument the client that sends the requests",
    },
    Sdk {
        name: "LiveKit",
        mark: "lk.chat_ctx",
        kind: None,
        keeps: "lk.chat_ctx",
        advice: "trace the requests where they are served",
    },
];

impl Sdk {
    /// The SDK that wrote an item, as far as its attributes tell.
    pub fn of(item: &LoggedItem) -> Option<&'static Self> {
        SDKS.iter().find(|sdk| item.get(sdk.mark).is_some())
    }

    /// Whether a span is of one request to a model, where the SDK says so.
    pub fn is_request(&self, item: &LoggedItem) -> Option<bool> {
        let (key, is_request) = self.kind?;
        // MLflow writes every attribute as JSON.
        let kind = item.get(key).and_then(AnyValue::text)?.trim_matches('"');
        Some(is_request(kind))
    }
}
