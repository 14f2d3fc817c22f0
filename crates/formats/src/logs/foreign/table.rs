//! The rows: how each log that holds no prompt looks, what it is, and what to log in its place.

/// What a record or a file is, and what helps.
pub(super) struct Foreign {
    /// Any of these lists of marks, of which all must be there.
    pub marks: &'static [&'static [Mark]],
    /// What it is, as in "this is ...".
    pub what: &'static str,
    /// What to log or to do instead.
    pub instead: &'static str,
}

/// How a record shows what it is of.
#[derive(Clone, Copy)]
pub(super) enum Mark {
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

pub(super) const NO_COUNTS: &str =
    "counts do not say which tokens are the same: log prompts, token ids or page ids";
const JSON_LINES: &str =
    "kvset reads JSON lines: convert it, for example with DuckDB's COPY ... TO 'log.jsonl'";
const UNPACK: &str = "kvset unpacks gzip and zstd only: unpack it first";
const PANDAS: &str = "write it with pandas' to_json(PATH, orient=\"records\", lines=True)";

/// Known by their first bytes.
pub(super) const FILES: &[Foreign] = &[
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
pub(super) const TEXTS: &[Foreign] = &[
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
        marks: &[&[Begins("", "==> "), Says(" <==")]],
        what: "what `tail` prints of several files, their names between their lines",
        instead: "give the files themselves, as FILE FILE",
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
pub(super) const DESPITE: &[Foreign] = &[
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
        marks: &[&[Has("samples/0/events/0/event")]],
        what: "a log of inspect_ai's, whose requests are events of its samples",
        instead: "write those: jq -c '.samples[].events[] | select(.event == \"model\") | {timestamp, model, messages: \
            .input, tools}'; condensed logs have texts apart, as `attachments`",
    },
    Foreign {
        marks: &[&[Has("trajectory/0/query/0/role")]],
        what: "the trajectory of an agent's run, which has what each request asked as `query`",
        instead: "write those: jq -c '.trajectory[] | {messages: .query}'",
    },
    Foreign {
        marks: &[&[Has("trajectory_format"), Has("messages")], &[Has("info/model_stats"), Has("messages")]],
        what: "the transcript of an agent's run, in which each answer was a request of its own",
        instead: "log the requests, at a gateway in front of the model or at the engine",
    },
    Foreign {
        marks: &[&[EachAsks]],
        what: "one object with a request under each of its names",
        instead: "put each request on a line of its own, with `jq -c '.[]'`",
    },
];

/// Known by the fields of an object.
pub(super) const RECORDS: &[Foreign] = &[
    Foreign {
        marks: &[&[Has("message/0/role"), Has("message/0/text")]],
        what: "a row of Dify's, with messages as `message` and their texts as `text`",
        instead: "write them as `messages`, each with its text as `content`",
    },
    Foreign {
        marks: &[&[Has("prompt/raw"), Has("promptIdx")]],
        what: "a result of promptfoo's, which has its prompt as a text (`prompt.raw`)",
        instead: "write those: jq -c '.results.results[] | {messages: (.prompt.raw | fromjson)}', or {prompt: \
            .prompt.raw} where it is no list of messages",
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
            &[Has("working_dir"), Has("message_count")],
            &[Has("parentUuid"), Has("sessionId")],
            &[Has("checkpoint"), Has("history")],
        ],
        what: "a transcript of an agent's session (as Codex, Claude Code and Goose keep it), which has messages and not the \
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
