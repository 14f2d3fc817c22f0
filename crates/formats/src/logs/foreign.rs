//! Logs that hold no prompt which could be read, and what to log in their place.
//!
//! A table says how each looks; whatever is in none of its rows is described by what it lacks. Nothing here quotes a
//! record.

use super::envelope::{EnvelopeValue, Visit, is_object, walk};
use super::shape::PromptKind;
use crate::record::members::{Members, member, members};
use serde_json::value::RawValue;

/// What a record or a file is, and what helps.
struct Foreign {
    /// Any of these lists of marks, of which all must be there.
    marks: &'static [&'static [Mark]],
    /// What it is, as in "this is ...".
    what: &'static str,
    /// What to log or to do instead.
    instead: &'static str,
}

/// How a record shows what it is of.
#[derive(Clone, Copy)]
enum Mark {
    /// The first bytes.
    Magic(&'static [u8]),
    /// Bytes that stand near them.
    Near(&'static [u8]),
    /// Text that stands somewhere in a line which is no JSON.
    Says(&'static str),
    /// A line of columns, of which the first names them.
    Columns,
    /// A line of `name=value` pairs.
    Pairs,
    /// Something at this way of names and indices, joined by `/`.
    Has(&'static str),
    /// A text there that begins so.
    Begins(&'static str, &'static str),
    /// Something at this way in every one of its members.
    Each(&'static str),
    /// A prompt in every one of its members, which are more than a client's and an upstream's.
    EachAsks,
}
use Mark::{Begins, Columns, Each, EachAsks, Has, Magic, Near, Pairs, Says};

const NO_COUNTS: &str = "counts do not say which tokens are the same: log prompts, token ids or page ids";
const JSON_LINES: &str =
    "kvset reads JSON lines: convert it, for example with DuckDB's COPY ... TO 'log.jsonl'";
const UNPACK: &str = "kvset unpacks gzip and zstd only: unpack it first";
const PANDAS: &str = "write it with pandas' to_json(PATH, orient=\"records\", lines=True)";
const BREAKS_OFF: &str = "a JSON object breaks off, as where a collector splits long lines (Docker after 16 KiB): join \
    them, with Fluent Bit's multiline.parser docker, cri or Vector's auto_partial_merge";
const BARE_MESSAGES: &str = "a list of messages and nothing around it: write {\"timestamp\": ..., \"model\": ..., \
    \"messages\": [...]} a line";
const TEXT: &str = "a text, neither a JSON object nor an array: log requests with their prompts as JSON lines; where \
    such lines stand among others, --format with their kind and --skip-bad-rows read them";

/// Known by their first bytes.
const FILES: &[Foreign] = &[
    Foreign { marks: &[&[Magic(b"PAR1")]], what: "a Parquet file", instead: JSON_LINES },
    Foreign { marks: &[&[Magic(b"ARROW1")], &[Magic(b"FEA1")]], what: "an Arrow file", instead: JSON_LINES },
    Foreign { marks: &[&[Magic(b"ORC")]], what: "an ORC file", instead: JSON_LINES },
    Foreign { marks: &[&[Magic(b"SQLite format 3\0")]], what: "an SQLite database", instead: JSON_LINES },
    Foreign { marks: &[&[Magic(b"\x89HDF")]], what: "an HDF5 file", instead: JSON_LINES },
    Foreign {
        marks: &[&[Magic(b"\x80\x04")], &[Magic(b"\x80\x05")]],
        what: "a pickle of Python's",
        instead: "write it with json.dumps, a record a line",
    },
    Foreign {
        marks: &[
            &[Magic(b"PK\x03\x04"), Near(b"[Content_Types].xml")],
            &[Magic(b"PK\x03\x04"), Near(b"docProps/")],
            &[Magic(b"PK\x03\x04"), Near(b"xl/")],
            &[Magic(b"\xd0\xcf\x11\xe0")],
        ],
        what: "a spreadsheet (or another document of an office suite)",
        instead: "where a sheet has prompts or ids, read it with pandas' read_excel, and write it with to_json(PATH, \
            orient=\"records\", lines=True)",
    },
    Foreign { marks: &[&[Magic(b"PK\x03\x04")]], what: "a zip archive", instead: UNPACK },
    Foreign { marks: &[&[Magic(b"\xfd7zXZ\0")]], what: "packed with xz", instead: UNPACK },
    Foreign { marks: &[&[Magic(b"BZh")]], what: "packed with bzip2", instead: UNPACK },
    Foreign { marks: &[&[Magic(b"\x04\x22\x4d\x18")]], what: "packed with lz4", instead: UNPACK },
    Foreign { marks: &[&[Magic(b"\xff\x06\0\0sNaPpY")]], what: "packed with snappy", instead: UNPACK },
];

/// Known by the words of a line.
const TEXTS: &[Foreign] = &[
    Foreign {
        marks: &[&[Says("obj=GenerateReqInput(")], &[Says("Receive: obj=")], &[Says("Finish: obj=")]],
        what: "SGLang's request log as text",
        instead: "start SGLang with --log-requests --log-requests-level 3 --log-requests-format json",
    },
    Foreign {
        marks: &[
            &[Says("Received request "), Says("SamplingParams(")],
            &[Says("Received request "), Says("prompt:")],
        ],
        what: "vLLM's request log, which is text and cuts prompts off",
        instead: "log requests with \"return_token_ids\": true and their answers where they are sent",
    },
    Foreign {
        marks: &[
            &[Says("Avg prompt throughput")],
            &[Says("Prefill batch"), Says("#new-token")],
            &[Says("Decode batch"), Says("#running-req")],
            &[Says("print_timing")],
            &[Says("slot update_slots")],
            &[Says("slot launch_slot")],
            &[Says("[TRT-LLM]")],
            &[Says("text_generation_router")],
            &[Says("text_generation_launcher")],
        ],
        what: "an engine's log of how it runs; it has no prompt",
        instead: "log requests with their prompts or token ids: SGLang with --log-requests-format json, for vLLM \
            where requests are sent",
    },
    Foreign {
        marks: &[&[Says("[GIN]")], &[Says(" HTTP/1.")], &[Says(" HTTP/2")], &[Says(" HTTP/3")]],
        what: "an access log; it has no prompt",
        instead: "log the requests' bodies as JSON, at the gateway or the engine (docs/prepare.md lists how)",
    },
    Foreign {
        marks: &[&[Says("# HELP ")], &[Says("# TYPE ")]],
        what: "Prometheus' text format of metrics, which have no prompt",
        instead: NO_COUNTS,
    },
    Foreign {
        marks: &[&[Begins("", "<")]],
        what: "XML or HTML, no JSON",
        instead: "log requests as JSON lines",
    },
    Foreign {
        marks: &[&[Begins("", "{'")], &[Begins("", "[{'")]],
        what: "what Python prints of a dict, no JSON",
        instead: "write records with json.dumps",
    },
    Foreign {
        marks: &[&[Begins("", "- "), Says(": ")], &[Begins("", "---")]],
        what: "YAML, no JSON",
        instead: "put each record on a line as JSON, for example with `yq -o=json -I=0 '.[]'` where it is one list",
    },
    Foreign {
        marks: &[&[Columns]],
        what: "a table with columns (CSV), no JSON",
        instead: "where it has prompts or ids, make a JSON object a line of it, for example with pandas' read_csv and \
            to_json(PATH, orient=\"records\", lines=True); counts do not say which tokens are the same",
    },
    Foreign {
        marks: &[&[Pairs]],
        what: "a text log of name=value pairs (logfmt), no JSON",
        instead: "log requests with their prompts as JSON lines",
    },
];

/// Known by the fields of an object, though it has those of a format, or requests lie in it.
const DESPITE: &[Foreign] = &[
    Foreign {
        marks: &[
            &[Begins("type", "BlockStored")],
            &[Begins("type", "BlockRemoved")],
            &[Begins("type", "AllBlocksCleared")],
            &[Has("events/0/block_hashes")],
            &[Has("event/event/data")],
            &[Has("event/data/stored")],
            &[Has("event/data/removed")],
            &[Has("data/stored/blocks")],
            &[Has("data/removed/block_hashes")],
            &[Has("block_hashes"), Has("parent_block_hash")],
            &[Has("stored/blocks")],
        ],
        what: "a recording of cache events (KV events): which blocks were stored and removed, not which prompts came",
        instead: "log the requests at the engine or the router; a block that was found leaves no event",
    },
    Foreign {
        marks: &[&[Has("columns/0"), Has("data/0/0")]],
        what: "a table of pandas' with its columns apart (orient=\"split\")",
        instead: PANDAS,
    },
    Foreign {
        marks: &[&[Each("0")]],
        what: "a table of pandas' by columns (what to_json writes by itself)",
        instead: PANDAS,
    },
    Foreign {
        marks: &[&[Begins("messages", "[{'")], &[Begins("input", "[{'")]],
        what: "a row whose messages are what Python prints of a list, in a text",
        instead: "write them with json.dumps, or as a list",
    },
    Foreign {
        marks: &[&[Has("meta/0/name"), Has("meta/0/type"), Has("data/0/0")]],
        what: "a table of ClickHouse's with its columns apart (JSONCompact)",
        instead: "write it with FORMAT JSONEachRow",
    },
    Foreign {
        marks: &[&[Has("inputOverride/ai_languageModel")]],
        what: "a run of a model in n8n, whose messages are one text",
        instead: "log the requests that it sends, at a gateway in front of the model or at the engine",
    },
    Foreign {
        marks: &[&[EachAsks]],
        what: "one object with a request under each of its names",
        instead: "put each request on a line of its own, with `jq -c '.[]'`",
    },
];

/// Known by the fields of an object.
const RECORDS: &[Foreign] = &[
    Foreign {
        marks: &[&[Has("message/0/role"), Has("message/0/text")]],
        what: "a row of Dify's, with messages as `message` and their texts as `text`",
        instead: "write them as `messages`, each with its text as `content`",
    },
    Foreign {
        marks: &[&[Has("input_history/0/role")]],
        what: "a row of Bifrost's, with its messages as `input_history`",
        instead: "write them as `messages`, with `model` beside them",
    },
    Foreign {
        marks: &[&[Has("inputs/0/datatype"), Has("inputs/0/data")]],
        what: "a request of KServe's and Triton's protocol, of named tensors",
        instead: "write the data of `text_input` as `prompt`, or of `input_ids` as `token_ids`, a line",
    },
    Foreign {
        marks: &[
            &[Has("Item/messages/L")],
            &[Has("Item/messages/S")],
            &[Has("Item/prompt/S")],
            &[Has("Item/token_ids/L")],
            &[Has("Item/prompt_token_ids/L")],
            &[Has("messages/L/0/M")],
        ],
        what: "an export of DynamoDB's, with a type around each value",
        instead: "write its items without them, as boto3's TypeDeserializer reads them",
    },
    Foreign {
        marks: &[&[Has("fields/messages/arrayValue")], &[Has("fields/prompt/stringValue")]],
        what: "a document of Firestore's, with a type around each value",
        instead: "write its fields without them, as a client library reads them (`to_dict()`)",
    },
    Foreign {
        marks: &[&[Has("rows/0/f/0/v")]],
        what: "an answer of BigQuery's REST API, whose rows have no names",
        instead: "write it with `bq query --format=json`, or as an export in JSON lines",
    },
    Foreign {
        marks: &[
            &[Has("prompt_token_ids/list/0/element")],
            &[Has("token_ids/list/0/element")],
            &[Has("input_ids/list/0/element")],
            &[Has("messages/list/0/element")],
        ],
        what: "a row of Parquet's with its lists in objects (`list`, `element`)",
        instead: "write them as lists, as DuckDB's or PyArrow's readers do",
    },
    Foreign {
        marks: &[
            &[Has("role"), Has("content"), Has("chat_id")],
            &[Has("role"), Has("content"), Has("conversation_id")],
            &[Has("role"), Has("content"), Has("session_id")],
            &[Has("role"), Has("content"), Has("thread_id")],
            &[Has("messageId"), Has("parentMessageId"), Has("text")],
            &[Has("sender"), Has("text"), Has("conversationId")],
            &[Has("user_message"), Has("assistant_message")],
        ],
        what: "a row a message or a turn, and not a request with all that was said before",
        instead: "write the messages of a conversation up to each answer as one row, {\"timestamp\": ..., \"model\": ..., \
            \"messages\": ...}",
    },
    Foreign {
        marks: &[
            &[Has("properties/SequenceNumber")],
            &[Has("SequenceNumber"), Has("RequestMessages")],
            &[Has("SequenceNumber"), Has("ResponseMessages")],
            &[Has("properties/sequenceNumber")],
        ],
        what: "a log of Azure API Management, which spreads a message over several records",
        instead: "join the RequestMessages of a correlationId in the order of SequenceNumber, and write {\"model\": \
            ..., \"messages\": ...} a line",
    },
    Foreign {
        marks: &[
            &[Has("requests/0/Prompt Length")],
            &[Has("requests/0/prompt_length")],
            &[Has("requests/0/prompt")],
        ],
        what: "a workload of AIBrix's generator, with a prompt before the client makes a chat of it",
        instead: "log what the engine was sent, or write {\"timestamp\": ..., \"model\": ..., \"messages\": ...} a \
            line",
    },
    Foreign {
        marks: &[&[Has("text_input")]],
        what: "a benchmark's row (`text_input`), whose client makes a chat or a completion of it",
        instead: "write {\"timestamp\": ..., \"model\": ..., \"messages\": ...}, or \"prompt\", a line",
    },
    Foreign {
        marks: &[
            &[Has("conversations/0/from")],
            &[Has("conversation/0/role")],
            &[Has("conversations/0/role")],
            &[Has("instruction"), Has("output")],
        ],
        what: "a data set of conversations, no log of requests",
        instead: "write {\"timestamp\": ..., \"model\": ..., \"messages\": ...} for each request that was sent",
    },
    Foreign {
        marks: &[
            &[Has("contents/0/parts")],
            &[Has("contents/parts")],
            &[Begins("api_method", "generateContent")],
            &[Begins("api_method", "streamGenerateContent")],
            &[Has("systemInstruction/parts")],
        ],
        what: "a request of Gemini's API (generateContent, `contents`), which no open engine serves",
        instead: "send requests by the chats API that the engine serves, and log those",
    },
    Foreign {
        marks: &[&[Has("text"), Has("sampling_params")]],
        what: "a request of SGLang's own API (`text` with `sampling_params`)",
        instead: "write its text as {\"timestamp\": ..., \"model\": ..., \"prompt\": ...} a line",
    },
    Foreign {
        marks: &[&[Has("resourceId"), Has("operationName"), Begins("category", "RequestResponse")]],
        what: "a diagnostic log of Azure, which has no prompt",
        instead: "log the requests' bodies at a gateway in front of the model, such as API Management",
    },
    Foreign {
        marks: &[&[Has("chat_history"), Has("message")], &[Has("preamble"), Has("message")]],
        what: "a request of Cohere's chat API (`chat_history`)",
        instead: "write its messages as {\"model\": ..., \"messages\": ...} a line",
    },
    Foreign {
        marks: &[&[Has("input/inputBodyS3Path")]],
        what: "a record of Bedrock's invocation log whose body lies in S3 (`inputBodyS3Path`)",
        instead: "put the body in its place, as `inputBodyJson`",
    },
    Foreign {
        marks: &[&[Begins("schemaType", "ModelInvocationLog")]],
        what: "a record of Bedrock's invocation log without a chat or a completion that an open engine serves",
        instead: "where the body is not there, switch on text data delivery of Bedrock's model invocation logging",
    },
    Foreign {
        marks: &[
            &[Begins("type", "session_meta"), Has("payload")],
            &[Begins("type", "response_item"), Has("payload")],
            &[Begins("type", "turn_context"), Has("payload")],
            &[Begins("type", "event_msg"), Has("payload")],
            &[Begins("type", "session"), Has("cwd")],
            &[Has("parentUuid"), Has("sessionId")],
            &[Has("checkpoint"), Has("history")],
        ],
        what: "a transcript of an agent's session (as Codex and Claude Code keep it), which has messages and not the \
            requests made of them",
        instead: "log the requests, at a gateway in front of the model or at the engine",
    },
    Foreign {
        marks: &[&[Has("request_head_complete")], &[Has("response_head_complete")]],
        what: "a record of Cloudflare's AI Gateway with the head of the body (`request_head`), which breaks off \
            where it is long",
        instead: "fetch the whole body of each log by its id (`.../logs/ID/request`) and write that a line",
    },
    Foreign {
        marks: &[&[Has("peft_type")], &[Has("lora_alpha")]],
        what: "the configuration of an adapter, no log",
        instead: "log the requests that name it (`lora_name`)",
    },
    Foreign {
        marks: &[&[Has("architectures"), Has("model_type")], &[Has("num_hidden_layers")]],
        what: "a model's configuration, no log",
        instead: "give it to `kvset model`, or to --model-config alongside a log",
    },
    Foreign {
        marks: &[
            &[Has("ce-type")],
            &[Has("ce_type")],
            &[Begins("type", "org.kubeflow.serving.inference.response")],
        ],
        what: "a cloud event of an answer without its request",
        instead: "log the events of the requests (`org.kubeflow.serving.inference.request`)",
    },
    Foreign {
        marks: &[
            &[Has("spans/0/name"), Has("target"), Has("level")],
            &[Has("span/name"), Has("target"), Has("level")],
        ],
        what: "the log of a server in Rust (TGI's `--json-output`), which has spans with parameters and no prompt",
        instead: "log the requests' bodies at a gateway in front of it",
    },
    Foreign {
        marks: &[&[Has("sessionId"), Has("message/role")], &[Has("session_id"), Has("message/role")]],
        what: "a transcript of an agent's session, which keeps messages and not the requests made of them",
        instead: "log the requests, at a gateway in front of the model or at the engine",
    },
    Foreign {
        marks: &[&[Has("inputs"), Has("parameters")], &[Has("instances"), Has("parameters")]],
        what: "a request of another API (`inputs` or `instances` with `parameters`)",
        instead: "write its prompt as {\"model\": ..., \"prompt\": ...} a line",
    },
    Foreign {
        marks: &[
            &[Begins("object", "chat.completion")],
            &[Begins("object", "text_completion")],
            &[Begins("object", "response")],
            &[Has("choices/0/message")],
            &[Has("choices/0/delta")],
            &[Has("choices/0/text")],
            &[Begins("type", "message"), Begins("role", "assistant")],
            &[Has("candidates/0/content")],
            &[Has("done_reason"), Has("eval_count")],
        ],
        what: "an answer without its request; it has no prompt",
        instead: "log each request alongside its answer, as {\"request\": ..., \"response\": ...}, or ask vLLM for \
            \"return_token_ids\"",
    },
    Foreign {
        marks: &[
            &[Has("spans")],
            &[Has("data/0/spans")],
            &[Has("batches/0/scopeSpans")],
            &[Has("traceId"), Has("spanId")],
            &[Has("trace_id"), Has("span_id")],
            &[Has("context/trace_id")],
            &[Has("localEndpoint")],
        ],
        what: "a record of spans that is no export request of OTLP's",
        instead: "export them with OTLP in JSON or protobuf (`resourceSpans`), prompts in attributes",
    },
    Foreign {
        marks: &[&[Has("resourceMetrics")], &[Has("resource_metrics")]],
        what: "an export of OpenTelemetry's metrics, which have no prompt",
        instead: "export traces or logs",
    },
    Foreign {
        marks: &[&[Has("input_lens"), Has("output_lens")], &[Has("request_throughput")]],
        what: "a benchmark's result; it has no prompt",
        instead: NO_COUNTS,
    },
    Foreign {
        marks: &[
            &[Has("method"), Has("path")],
            &[Has("method"), Has("url")],
            &[Has("method"), Has("uri")],
            &[Has("request_method")],
            &[Has("http_method")],
            &[Has("httpRequest/requestUrl")],
            &[Has("request_time"), Has("status")],
            &[Has("response_code"), Has("duration")],
            &[Has("statusCode"), Has("latency")],
        ],
        what: "an access log; it has no prompt",
        instead: "log the requests' bodies, too, at the gateway or the engine (docs/prepare.md lists how)",
    },
];

/// Parts of the names of counts, as any log spells them.
const COUNTS: [&str; 6] = ["token", "promptlen", "inputlen", "outputlen", "usage", "latency"];

/// What a row is that has the fields of a format, or something with them in it, and is none of it: events of a cache
/// list tokens, but not those of prompts.
pub(crate) fn despite_its_fields(row: &[u8]) -> Option<String> {
    let members = members(std::str::from_utf8(row).ok()?)?;
    among(DESPITE, &members).map(|known| known.sentence(""))
}

/// What a file or a record is, and what helps; nothing where nobody can say. It is looked into as an envelope is.
pub fn describe(record: &[u8]) -> Option<String> {
    if let Some(file) = FILES.iter().find(|known| known.matches(|mark| is_of_bytes(mark, record))) {
        return Some(file.sentence(""));
    }
    let Ok(text) = std::str::from_utf8(record) else { return None };
    if lists_messages(text.trim()) {
        return Some(BARE_MESSAGES.to_owned());
    }
    let (mut found, mut has_prompt, mut has_counts, mut messages) = (None, false, false, None);
    walk(record, &mut |place, value| {
        if let Some(known) = known(value) {
            let at = if place.is_top() { String::new() } else { format!("{place} ") };
            found = Some(known.sentence(&at));
            return Visit::Stop;
        }
        let Some(members) = &value.members else {
            if place.is_top() || !is_object(value.text) {
                return Visit::Open;
            }
            found = Some(format!("{place} {BREAKS_OFF}"));
            return Visit::Stop;
        };
        has_counts = has_counts || members.iter().any(|(name, _)| is_count(name));
        if let Some((name, _)) = members.iter().find(|(_, value)| lists_messages(value.get())) {
            messages = messages.take().or(Some(name.clone().into_owned()));
        }
        let is_prompt = PromptKind::of_members(members).is_some();
        has_prompt |= is_prompt;
        if is_prompt { Visit::Pass } else { Visit::Open }
    });
    match found {
        None if has_prompt => None,
        None if let Some(name) = &messages => Some(format!(
            "it has a list of messages under another name, `{name}`: write it as `messages`, with what else the request \
             had (`model`, `tools`) beside it"
        )),
        None if has_counts => Some(format!("it has counts of tokens and no prompt: {NO_COUNTS}")),
        None if is_text(text) => Some(TEXT.to_owned()),
        found => found,
    }
}

/// Whether a value is a list of messages, each of somebody.
fn lists_messages(json: &str) -> bool {
    let items: Option<Vec<&RawValue>> =
        json.starts_with('[').then(|| serde_json::from_str(json).ok()).flatten();
    let is_message = |item: &&RawValue| {
        members(item.get())
            .is_some_and(|members| ["role", "content"].iter().all(|name| member(&members, name).is_some()))
    };
    items.is_some_and(|items| !items.is_empty() && items.iter().all(is_message))
}

fn known(value: &EnvelopeValue<'_>) -> Option<&'static Foreign> {
    if let Some(members) = &value.members {
        return among(DESPITE, members).or_else(|| among(RECORDS, members));
    }
    if value.is_list {
        return None;
    }
    let line = value.text.lines().find(|line| !line.trim().is_empty())?;
    let holds = |mark: &Mark| match mark {
        Says(words) => line.contains(words),
        Begins(_, with) => line.trim_start().starts_with(with),
        Columns => is_columns(line),
        Pairs => line.split_whitespace().filter(|word| is_pair(word)).count() >= 3,
        _ => false,
    };
    TEXTS.iter().find(|known| known.matches(holds))
}

/// The first of these that an object is by its members.
fn among(table: &'static [Foreign], members: &Members<'_>) -> Option<&'static Foreign> {
    let each = |holds: &dyn Fn(&str) -> bool| {
        members.iter().all(|(_, value)| value.get().starts_with('{') && holds(value.get()))
    };
    let holds = |mark: &Mark| match mark {
        Has(path) => at(members, path).is_some(),
        Begins(path, with) => {
            let text = at(members, path).and_then(|json| json.strip_prefix('"'));
            text.is_some_and(|text| text.starts_with(with))
        }
        Each(path) if members.len() > 1 => {
            each(&|json| self::members(json).is_some_and(|inner| at(&inner, path).is_some()))
        }
        EachAsks if members.len() > 2 => each(&|json| PromptKind::of(json).is_some()),
        _ => false,
    };
    table.iter().find(|known| known.matches(holds))
}

impl Foreign {
    fn matches(&self, holds: impl Fn(&Mark) -> bool) -> bool {
        self.marks.iter().any(|all| all.iter().all(&holds))
    }

    fn sentence(&self, at: &str) -> String {
        format!("{at}this is {}: {}", self.what, self.instead)
    }
}

fn is_of_bytes(mark: &Mark, bytes: &[u8]) -> bool {
    match mark {
        Magic(magic) => bytes.starts_with(magic),
        Near(some) => memchr::memmem::find(bytes, some).is_some(),
        _ => false,
    }
}

/// The JSON at a way of names and indices; nothing for null.
fn at<'v>(members: &Members<'v>, path: &str) -> Option<&'v str> {
    let mut steps = path.split('/');
    let mut here = member(members, steps.next()?)?;
    for step in steps {
        here = match here.starts_with('[') {
            true => {
                let items: Vec<&RawValue> = serde_json::from_str(here).ok()?;
                items.get(step.parse::<usize>().ok()?)?.get()
            }
            false => member(&self::members(here)?, step)?,
        };
    }
    (here != "null").then_some(here)
}

/// Whether a line names the columns of a table: two words or more between commas, semicolons or tabs.
fn is_columns(line: &str) -> bool {
    let is_name = |column: &str| {
        let column = column.trim().trim_matches('"');
        let known = |c: char| c.is_alphanumeric() || " _-.()/#%".contains(c);
        !column.is_empty() && column.len() <= 64 && column.chars().all(known)
    };
    [',', ';', '\t'].into_iter().any(|separator| {
        let columns: Vec<&str> = line.split(separator).collect();
        columns.len() > 1
            && columns.iter().all(|column| is_name(column))
            && columns[0].contains(char::is_alphabetic)
    })
}

fn is_pair(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    })
}

/// Whether a record is a text, and neither JSON nor bytes of another kind.
fn is_text(record: &str) -> bool {
    let is_printed = |c: char| !c.is_control() || c.is_whitespace();
    let start = record.trim_start();
    // `[2025-11-20 12:00:00] ...`: a list has no such item.
    let dated = start.strip_prefix('[').and_then(|inner| inner.split_once(']')).is_some_and(|(inner, _)| {
        inner.starts_with(|c: char| c.is_ascii_digit()) && inner.contains(':') && !inner.contains('"')
    });
    (dated || !start.starts_with(['{', '['])) && record.chars().all(is_printed)
}

fn is_count(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    // Ids are no counts of them.
    !name.ends_with("ids") && COUNTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_named_also_behind_a_collector() {
        let text = "[2025-11-20 12:00:00] Receive: obj=GenerateReqInput(rid='a1', input_ids=[11, 12])";
        for record in [text.to_owned(), serde_json::json!({"log": text, "stream": "stdout"}).to_string()] {
            let told = describe(record.as_bytes()).expect("known");
            assert!(told.contains("SGLang") && told.contains("--log-requests-format json"), "{told}");
            assert!(!told.contains("a1") && !told.contains("11"), "{told}");
        }
        let behind = describe(br#"{"records": [{"properties": {"SequenceNumber": 0}}]}"#).expect("known");
        assert!(behind.starts_with("at `records[]` this is a log of Azure API Management"), "{behind}");
        assert!(describe(b"PAR1\x15\x04").expect("known").contains("Parquet"));
    }

    #[test]
    fn what_is_not_known_is_told_by_what_it_lacks() {
        let counts = describe(br#"{"ts": 1, "usage": {"inputTokens": 5}}"#).expect("counts");
        assert!(counts.contains("no prompt"), "{counts}");
        // PostHog's rows were told to log the prompts that they have.
        let renamed = br#"{"properties": {"$ai_input_tokens": 9, "$ai_input": [{"role": "user", "content": "hunter2"}]}}"#;
        let told = describe(renamed).expect("messages");
        assert!(told.contains("`$ai_input`") && !told.contains("hunter2"), "{told}");
        let bare = br#"[{"role": "user", "content": "hunter2"}]"#;
        assert!(describe(bare).is_some_and(|told| told.starts_with("a list of messages")));
        assert!(describe(b"hunter2").is_some_and(|told| !told.contains("hunter2")));
        assert_eq!(describe(br#"{"note": "hunter2"}"#), None);
    }

    #[test]
    fn columns_and_pairs_are_told_from_prose() {
        for line in ["Timestamp,Request tokens,Response tokens", "a;b", "TIMESTAMP\tContextTokens"] {
            assert!(is_columns(line), "{line}");
        }
        for line in ["5,472,18", "no JSON", "Well, it's said; done!", ""] {
            assert!(!is_columns(line), "{line}");
        }
    }
}
