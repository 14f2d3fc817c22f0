//! Which attributes hold what was said: they reach no name, no label and no message, and those that may hold a part
//! of a prompt are named where it is not whole.

use super::item::LoggedItem;
use kvset_core::units::names::listed;

/// Attributes that hold prompts, answers or parts of them.
const CONTENT: [&str; 30] = listed(
    "input.value output.value gen_ai.input.messages gen_ai.output.messages gen_ai.system_instructions \
        gen_ai.tool.definitions model_request_parameters pydantic_ai.all_messages all_messages_events \
        final_result events request_data response_data mlflow.spanInputs mlflow.spanOutputs \
        langfuse.observation.input langfuse.observation.output langfuse.trace.input langfuse.trace.output \
        braintrust.input braintrust.input_json braintrust.output braintrust.output_json genkit:input \
        genkit:output haystack.component.input haystack.component.output system_prompt tool_arguments \
        tool_response",
);

/// What the names of others begin with.
const PREFIXES: [&str; 17] = listed(
    "llm.input_messages. llm.output_messages. llm.prompts. llm.prompt_template. llm.completions. \
        llm.choices. llm.tools. llm.request.functions traceloop.entity. gen_ai.prompt gen_ai.completion \
        gen_ai.tool.call ai.prompt ai.response ai.toolCall gcp.vertex.agent. lk.",
);

/// Those that may hold a part of a prompt that stands in another one, and that are not read alongside it.
const PARTS: [&str; 7] = listed(
    "gen_ai.system_instructions gen_ai.tool.definitions model_request_parameters system_prompt \
        gen_ai.agent.tools agent.tools traceloop.entity.input",
);

/// Whether an attribute holds what must not leave.
pub(super) fn is_content(key: &str) -> bool {
    CONTENT.contains(&key) || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether an item holds anything that was said.
pub(super) fn has_content(item: &LoggedItem) -> bool {
    !item.messages.is_empty() || item.attributes.iter().any(|attribute| is_content(&attribute.key))
}

/// The attributes of an item that may hold a part of a prompt.
pub(super) fn parts(item: &LoggedItem) -> impl Iterator<Item = &'static str> {
    PARTS.into_iter().filter(|key| item.get(key).is_some())
}

/// The attributes of a request, and of the spans around it, that may hold the rest of a prompt that is not whole.
pub(super) fn unread(item: &LoggedItem) -> Vec<String> {
    // By the conventions these are read alongside the messages.
    let read = ["gen_ai.system_instructions", "gen_ai.tool.definitions", "model_request_parameters"];
    let is_read = |key: &&str| item.get("gen_ai.input.messages").is_some() && read.contains(key);
    let own = parts(item).filter(|key| !is_read(key)).map(str::to_owned);
    let mut all: Vec<String> = own.chain(item.around.iter().cloned()).collect();
    all.dedup();
    all
}
