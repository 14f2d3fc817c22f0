//! Tools as the conventions describe them (`gen_ai.tool.definitions`), or as OpenAI does.

use super::chat::{self, malformed, quoted};
use crate::codec::{DecodeError, ErrorCode};
use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

const TOOLS: &str = "gen_ai.tool.definitions";

#[derive(serde::Deserialize)]
struct ToolDefinition<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
    name: Option<String>,
    #[serde(borrow, default, deserialize_with = "said")]
    description: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "said")]
    parameters: Option<&'a RawValue>,
}

/// The value of a field that is there, null too.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The tools of OpenAI's API.
pub(super) fn of_definitions(json: &str) -> Result<String, DecodeError> {
    let tools: Vec<&RawValue> = serde_json::from_str(json).map_err(|error| malformed(TOOLS, &error))?;
    let tools: Vec<String> = tools.into_iter().map(tool).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", tools.join(",")))
}

fn tool(raw: &RawValue) -> Result<String, DecodeError> {
    let tool: ToolDefinition<'_> =
        serde_json::from_str(raw.get()).map_err(|error| malformed(TOOLS, &error))?;
    let Some(name) = tool.name.filter(|_| tool.function.is_none()) else { return Ok(raw.get().to_owned()) };
    if tool.kind != "function" {
        let detail = format!("`{TOOLS}` has a tool that is no function, which no chat template renders");
        return Err(DecodeError::new(ErrorCode::UnrenderedField, detail));
    }
    // What a tool does not have is null; what is left out was not captured.
    let (Some(description), Some(parameters)) = (tool.description, tool.parameters) else {
        let detail = format!("`{TOOLS}` has a tool whose description or parameters are not captured");
        return Err(DecodeError::new(ErrorCode::MissingField, detail));
    };
    Ok(chat::function(&name, Some(description.get()), Some(parameters.get())))
}

/// A tool as SDKs describe it, its schema under a name of their own: of Vercel's the first two, of Pydantic AI's the
/// last.
#[derive(serde::Deserialize)]
pub(super) struct OfferedTool<'a> {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub name: String,
    pub description: Option<String>,
    #[serde(borrow)]
    pub parameters: Option<&'a RawValue>,
    #[serde(borrow, rename = "inputSchema")]
    pub input_schema: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "said")]
    parameters_json_schema: Option<&'a RawValue>,
}

/// Where Pydantic AI keeps what it offers to the model.
pub(super) const PARAMETERS: &str = "model_request_parameters";

/// The tools among Pydantic AI's parameters of a request; nothing where it offers none.
pub(super) fn of_parameters(json: &str) -> Result<Option<String>, DecodeError> {
    #[derive(serde::Deserialize)]
    struct Parameters<'a> {
        #[serde(borrow, default)]
        function_tools: Vec<OfferedTool<'a>>,
        #[serde(borrow, default)]
        output_tools: Vec<OfferedTool<'a>>,
    }
    let Parameters { function_tools, output_tools } =
        serde_json::from_str(json).map_err(|error| malformed(PARAMETERS, &error))?;
    let offered = function_tools.iter().chain(&output_tools);
    let tools: Option<Vec<String>> = offered
        .map(|tool| {
            let schema = tool.parameters_json_schema?.get();
            let description = tool.description.as_deref().map(quoted);
            Some(chat::function(&tool.name, description.as_deref(), Some(schema)))
        })
        .collect();
    let tools = tools.ok_or_else(|| chat::of_another_form(PARAMETERS))?;
    Ok((!tools.is_empty()).then(|| format!("[{}]", tools.join(","))))
}
