//! Tools as the conventions describe them (`gen_ai.tool.definitions`), or as OpenAI does.

use super::chat::{cut_off, quoted};
use crate::codec::{DecodeError, ErrorCode};
use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

const TOOLS: &str = "gen_ai.tool.definitions";

#[derive(serde::Deserialize)]
struct Tool<'a> {
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
    let tools: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| cut_off(TOOLS))?;
    let tools: Vec<String> = tools.into_iter().map(tool).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", tools.join(",")))
}

fn tool(raw: &RawValue) -> Result<String, DecodeError> {
    let tool: Tool<'_> = serde_json::from_str(raw.get()).map_err(|_| cut_off(TOOLS))?;
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
    let mut function = format!("\"name\":{}", quoted(&name));
    for (field, value) in [("description", description), ("parameters", parameters)] {
        if value.get() != "null" {
            function += &format!(",\"{field}\":{}", value.get());
        }
    }
    Ok(format!("{{\"type\":\"function\",\"function\":{{{function}}}}}"))
}
