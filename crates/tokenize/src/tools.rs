//! Tools as engines show them to chat templates, whichever API declares them.

use super::apis::{field, kind, written};
use super::rules::ChatRules;
use super::unrendered;
use kvset_core::request::refusal::DecodeError;
use minijinja::Value;
use minijinja::value::ValueKind;

/// What is known of a function, in the order of OpenAI's API.
const FIELDS: [&str; 3] = ["name", "description", "parameters"];
/// What is left out where a body does not say.
const OPTIONAL: [&str; 2] = ["strict", "defer_loading"];

/// A body's tools as the engine shows them; nothing where it shows none.
///
/// # Errors
/// A tool that is no function, by its place.
pub(super) fn declared(
    tools: Option<Vec<Value>>,
    choice: Option<&Value>,
    rules: &ChatRules,
) -> Result<Option<Vec<Value>>, DecodeError> {
    let Some(tools) = tools else { return Ok(None) };
    if tools.is_empty() || rules.tool_choice_hides_tools && choice.and_then(Value::as_str) == Some("none") {
        // A template with tools of its own is for bodies that have the field.
        return Ok((!rules.tool_choice_hides_tools).then_some(tools));
    }
    let chosen = choice.filter(|_| rules.tool_choice_hides_tools).and_then(chosen_name);
    let mut declared = Vec::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        if rules.skips_server_tools && is_server_tool(tool) {
            continue;
        }
        let fields = function(tool, rules).ok_or_else(|| unrendered::refused(&format!("tools[{index}]")))?;
        let name = fields.iter().find(|(name, _)| name == "name").map(|(_, name)| name);
        if chosen.as_ref().is_none_or(|chosen| name == Some(chosen)) {
            declared.push(shown(fields, field(tool, "defer_loading"), rules));
        }
    }
    Ok((!declared.is_empty()).then_some(declared))
}

/// Whether a tool is Anthropic's.
pub(super) fn is_anthropic(tool: &Value) -> bool {
    field(tool, "input_schema").is_some() || is_server_tool(tool)
}

/// The name of the function that a request must call.
fn chosen_name(choice: &Value) -> Option<Value> {
    field(choice, "function").and_then(|function| field(&function, "name")).or_else(|| field(choice, "name"))
}

/// A tool of Anthropic's own servers, whose schema no body has: `web_search_20250305` and the like.
fn is_server_tool(tool: &Value) -> bool {
    let kind = kind(tool);
    let named =
        ["web_search_", "computer_", "bash_", "text_editor_"].iter().find_map(|name| kind.strip_prefix(name));
    field(tool, "input_schema").is_none()
        && named.is_some_and(|date| date.len() == 8 && date.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The fields of a function in the order in which the API's own server has them; nothing where the tool is none.
fn function(tool: &Value, rules: &ChatRules) -> Option<Vec<(String, Value)>> {
    if let Some(function) = field(tool, "function").filter(|function| function.kind() == ValueKind::Map) {
        return Some(written(&function));
    }
    if let Some(schema) = field(tool, "input_schema") {
        let schema = Some(schema).filter(|schema| schema.kind() == ValueKind::Map)?;
        return Some(anthropic(tool, schema, rules));
    }
    let is_function = kind(tool) == "function" && field(tool, "name").is_some();
    is_function.then(|| {
        let mut fields = written(tool);
        fields.retain(|(name, _)| name != "type");
        fields
    })
}

/// Anthropic's tool: its schema is an object's where it does not say.
fn anthropic(tool: &Value, schema: Value, rules: &ChatRules) -> Vec<(String, Value)> {
    let has_type = field(&schema, "type").is_some();
    let mut schema = written(&schema);
    if !has_type {
        schema.push(("type".to_owned(), Value::from("object")));
    }
    let mut fields = vec![
        ("name".to_owned(), field(tool, "name").unwrap_or_else(|| Value::from(()))),
        ("description".to_owned(), description(tool, rules)),
        ("parameters".to_owned(), Value::from_pairs(schema)),
    ];
    let strict = field(tool, "strict").or_else(|| rules.declares_strict.then(|| Value::from(false)));
    fields.extend(strict.map(|strict| ("strict".to_owned(), strict)));
    fields
}

fn description(tool: &Value, rules: &ChatRules) -> Value {
    let absent = || if rules.declares_strict { Value::from("") } else { Value::from(()) };
    field(tool, "description").unwrap_or_else(absent)
}

/// What the template sees.
fn shown(fields: Vec<(String, Value)>, defers: Option<Value>, rules: &ChatRules) -> Value {
    let said = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let null = || Value::from(());
    let optional = |name: &&str| {
        let own = if *name == "defer_loading" { defers.clone() } else { None };
        let value = said(name).filter(|value| !value.is_none()).or(own)?;
        Some(((*name).to_owned(), value))
    };
    if !rules.shows_tools_as_written {
        let known = FIELDS.iter().map(|name| ((*name).to_owned(), said(name).unwrap_or_else(null)));
        let function = Value::from_pairs(known.chain(OPTIONAL.iter().filter_map(optional)));
        let tool = [("type".to_owned(), Value::from("function")), ("function".to_owned(), function)];
        let defers = defers.map(|defers| ("defer_loading".to_owned(), defers));
        return Value::from_pairs(tool.into_iter().chain(defers));
    }
    let is_known = |name: &str| FIELDS.contains(&name) || OPTIONAL.contains(&name);
    let written: Vec<(String, Value)> = fields
        .iter()
        .filter(|(name, value)| is_known(name) && (FIELDS.contains(&name.as_str()) || !value.is_none()))
        .cloned()
        .collect();
    let absent = FIELDS.iter().filter(|name| said(name).is_none());
    let absent = absent.map(|name| ((*name).to_owned(), null()));
    let missing = OPTIONAL.iter().filter(|name| said(name).is_none()).filter_map(optional);
    let function = Value::from_pairs(written.clone().into_iter().chain(absent).chain(missing));
    minijinja::context! { type => "function", function => function, defer_loading => defers }
}
