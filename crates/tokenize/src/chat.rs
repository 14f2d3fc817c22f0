//! A chat as text: what the engine gives to the model's template, and what the template makes of it.

use super::body::{Body, Thoughts};
use super::fields::ObjectFields;
use super::messages::Preparation;
use super::model::Model;
use super::remarks::ChatRemarks;
use super::roles::RenderedRoles;
use super::rules::ChatRules;
use super::template::ChatTemplates;
use super::{developer, tools};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::EventTime;
use minijinja::Value;

/// Appended to a final message that the model is to go on with, and cut off with what follows it.
const CONTINUE: &str = "CONTINUE_FINAL_MESSAGE_TAG ";
/// The variable by which templates are told how much the model is to think.
const EFFORT: &str = "reasoning_effort";
/// The variable by which templates ask for the time.
const NOW: &str = "strftime_now";

/// How a chat is rendered.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub rules: &'static ChatRules,
    /// When the request came.
    pub time: Option<EventTime>,
    /// Largest text.
    pub max_bytes: usize,
}

/// The variables of a template, by name; later ones hold.
type Variables = Vec<(String, Value)>;

impl Setting {
    /// The text that the model's template makes of a chat, what is tokenised by itself behind it, and what there is
    /// to say of it.
    pub fn render(
        self,
        model: &Model,
        messages: Vec<ObjectFields>,
        mut body: Body<'_>,
        roles: &mut RenderedRoles,
        mut remarks: ChatRemarks,
    ) -> Result<(String, Option<String>, ChatRemarks), DecodeError> {
        let Some(templates) = &model.templates else {
            return Err(DecodeError::new(ErrorCode::NoChatTemplate, "the model has no chat template"));
        };
        if messages.is_empty() {
            return Err(DecodeError::new(ErrorCode::MissingField, "the chat has no message"));
        }
        let tools = tools::declared(body.tools.take(), body.tool_choice.as_ref(), self.rules)?;
        let name = templates.choose(tools.is_some())?;
        let preparation = Preparation { rules: self.rules, takes_parts: templates.takes(name) };
        let messages = messages.into_iter().enumerate();
        let messages: Result<Vec<_>, _> =
            messages.map(|(index, message)| preparation.message(message, index, &mut remarks)).collect();
        let names = |role: &str| templates.names(name, role);
        let mut messages = developer::without_developers(messages?, names, self.rules);
        let mut variables = model.specials.clone();
        variables.push(("tools".to_owned(), tools.map_or(Value::from(()), Value::from)));
        let (continues, generates) = self.add_variables(templates, name, body, &mut variables)?;
        let mut continued = None;
        if self.rules.ends_with_user {
            continued = self.end_with_user(&mut messages, continues);
        } else if continues {
            mark_end(&mut messages)?;
        }
        variables.push(("add_generation_prompt".to_owned(), Value::from(generates || continued.is_some())));
        let render = |messages: Vec<ObjectFields>| {
            let messages = messages.into_iter().map(|message| Value::from_pairs(message.0));
            let mut variables = variables.clone();
            variables.push(("messages".to_owned(), messages.collect()));
            templates.render(name, variables, self.time, self.max_bytes)
        };
        let text = render(messages.clone())?;
        roles.check(templates, name, &messages, &text, render)?;
        remarks.chats = 1;
        remarks.dated = u64::from(templates.asks_for(name, NOW));
        let is_cut = continues && !self.rules.ends_with_user;
        let text = if is_cut { cut_at_mark(text)? } else { text };
        Ok((text, continued, remarks))
    }

    /// Adds what the body says alongside its messages and tools; returns whether the last message is to be continued,
    /// and whether an answer is to begin.
    fn add_variables(
        self,
        templates: &ChatTemplates,
        name: &str,
        body: Body<'_>,
        variables: &mut Variables,
    ) -> Result<(bool, bool), DecodeError> {
        let thoughts = body.thoughts(self.rules)?;
        let kwargs = body.chat_template_kwargs.unwrap_or_default();
        let asked = |name: &str, field: Option<bool>, otherwise: bool| {
            kwargs.get(name).map_or(field.unwrap_or(otherwise), Value::is_true)
        };
        let continues = asked("continue_final_message", body.continue_final_message, false);
        let generates = asked("add_generation_prompt", body.add_generation_prompt, !continues);
        variables.push(("documents".to_owned(), body.documents.map_or(Value::from(()), Value::from)));
        self.add_thoughts(thoughts, templates, name, &kwargs, variables);
        Ok((continues, generates))
    }

    /// Adds the variables that say whether the model thinks, and how much; what a body gives to the template by itself
    /// goes before all but Anthropic's `thinking` where that is a switch.
    fn add_thoughts(
        self,
        thoughts: Thoughts,
        templates: &ChatTemplates,
        name: &str,
        kwargs: &ObjectFields,
        variables: &mut Variables,
    ) {
        let Thoughts { mut effort, mut switches, thinks, thinking } = thoughts;
        if !self.rules.thinking_switches && thinking == Some(false) {
            effort = Some(Value::from(self.quiet_effort(templates, name, variables)));
            switches = true;
        }
        let said = effort.as_ref().map(|effort| effort.as_str() != Some("none")).or(thinks);
        if let Some(said) = said.filter(|_| switches) {
            variables.extend(self.switches(said));
        }
        variables.extend(effort.map(|effort| (EFFORT.to_owned(), effort)));
        variables.extend(kwargs.0.iter().cloned());
        if let Some(thinking) = thinking.filter(|_| self.rules.thinking_switches) {
            variables.extend(self.switches(thinking).filter(|(switch, _)| templates.asks_for(name, switch)));
        }
    }

    fn switches(self, on: bool) -> impl Iterator<Item = (String, Value)> {
        self.rules.effort_switches.iter().map(move |switch| ((*switch).to_owned(), Value::from(on)))
    }

    /// The effort of a chat that is not to think.
    fn quiet_effort(self, templates: &ChatTemplates, name: &str, variables: &Variables) -> &'static str {
        templates.quiet_effort(name, |effort| {
            let message = minijinja::context! { role => "user", content => "Hi" };
            let mut variables = variables.clone();
            variables.extend(self.switches(effort != "none"));
            variables.push((EFFORT.to_owned(), Value::from(effort)));
            variables.push(("tools".to_owned(), Value::from(())));
            variables.push(("add_generation_prompt".to_owned(), Value::from(true)));
            variables.push(("messages".to_owned(), Value::from(vec![message])));
            templates.render(name, variables, Some(EventTime(0)), self.max_bytes).ok()
        })
    }

    /// Makes an assistant's last message a user's, or takes it away where it is to be continued.
    fn end_with_user(self, messages: &mut Vec<ObjectFields>, continues: bool) -> Option<String> {
        let last = messages.last_mut()?;
        let is_assistant = last.role() == "assistant";
        let text = last.get("content").and_then(Value::as_str).map(str::to_owned).filter(|_| is_assistant)?;
        if continues {
            messages.pop();
            return Some(text);
        }
        *last = ObjectFields(vec![
            ("role".to_owned(), Value::from("user")),
            ("content".to_owned(), Value::from(text)),
        ]);
        None
    }
}

fn mark_end(messages: &mut [ObjectFields]) -> Result<(), DecodeError> {
    let content = messages
        .last_mut()
        .and_then(|message| message.0.iter_mut().find(|(name, _)| name == "content"))
        .map(|(_, content)| content);
    if let Some(content) = content
        && let Some(text) = content.as_str()
    {
        *content = Value::from(format!("{text}{CONTINUE}"));
        return Ok(());
    }
    let detail = "continue_final_message needs a final message whose content is a text";
    Err(DecodeError::new(ErrorCode::UnsupportedField, detail))
}

/// Cuts the text where the final message ends; a template that trims messages trimmed this one too.
fn cut_at_mark(mut text: String) -> Result<String, DecodeError> {
    let Some(end) = text.rfind(CONTINUE.trim_end()) else {
        let detail = "the chat template leaves out the final message, which is to be continued";
        return Err(DecodeError::new(ErrorCode::UnsupportedField, detail));
    };
    let kept = if text[end..].starts_with(CONTINUE) { end } else { text[..end].trim_end().len() };
    text.truncate(kept);
    Ok(text)
}
