//! Chat templates as `transformers` renders them, in the same environment: `trim_blocks`,
//! `lstrip_blocks`, loop controls, `tojson`, `raise_exception`, `strftime_now`, `generation` blocks and
//! the methods of Python's strings, lists and dicts.

use super::error::ModelError;
use super::{python, strftime};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::EventTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::collections::HashSet;
use std::io::Write;
use std::sync::OnceLock;

/// The template of chats, and the one for chats with tools where a model has two.
const DEFAULT: &str = "default";
const WITH_TOOLS: &str = "tool_use";
/// The detail of the error that `raise_exception` raises; what the template says may quote a prompt.
const RAISED: &str = "the template called raise_exception";
/// The detail of the error for a rendering that grows too large.
const TOO_LARGE: &str = "rendered text above the limit";

/// Most bytes of a rendering that only shows what a template does.
const PROBE_BYTES: usize = 1 << 20;

/// A model's chat templates.
pub(super) struct ChatTemplates {
    environment: Environment<'static>,
    facts: Vec<TemplateFacts>,
}

/// What is known of one template before it renders anything.
#[derive(Default)]
struct TemplateFacts {
    name: String,
    source: String,
    /// Whether it takes a list of text parts as a message's content.
    takes_parts: bool,
    /// The variables that it reads.
    variables: HashSet<String>,
    late_system: LateSystemProbe,
    /// The effort of a chat that is not to think, once it was requested.
    quiet_effort: OnceLock<&'static str>,
}

/// What a template makes of a system message behind a user's.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum LateSystemProbe {
    #[default]
    Rendered,
    LeftOut,
    Refused,
}

impl ChatTemplates {
    /// Compiles named templates; the one for chats is called `default`.
    pub fn compile(sources: Vec<(String, String)>, specials: &[(String, Value)]) -> Result<Self, ModelError> {
        let unusable = |name: &str, error: Error| ModelError::Template {
            name: name.to_owned(),
            reason: error.to_string(),
        };
        let mut environment = environment().map_err(|error| unusable(DEFAULT, error))?;
        let mut facts = Vec::new();
        for (name, source) in sources {
            let source = without_generation_tags(&source);
            let added = environment.add_template_owned(name.clone(), source.clone());
            added.map_err(|error| unusable(&name, error))?;
            let variables = environment.get_template(&name).map_err(|error| unusable(&name, error))?;
            let variables = variables.undeclared_variables(false);
            facts.push(TemplateFacts { name, source, variables, ..TemplateFacts::default() });
        }
        let mut this = Self { environment, facts: Vec::new() };
        for fact in &mut facts {
            fact.takes_parts = this.takes_parts(&fact.name, specials);
            fact.late_system = this.probe_late_system(&fact.name);
        }
        this.facts = facts;
        Ok(this)
    }

    /// The template for a chat: one of its own for chats with tools, where the model has it.
    pub fn choose(&self, has_tools: bool) -> Result<&'static str, DecodeError> {
        [WITH_TOOLS, DEFAULT]
            .into_iter()
            .skip(usize::from(!has_tools))
            .find(|name| self.environment.get_template(name).is_ok())
            .ok_or_else(|| {
                DecodeError::new(ErrorCode::NoChatTemplate, "the model has no default chat template")
            })
    }

    fn facts(&self, name: &str) -> Option<&TemplateFacts> {
        self.facts.iter().find(|facts| facts.name == name)
    }

    /// Whether the template loops over the parts of a content itself.
    pub fn takes(&self, name: &str) -> bool {
        self.facts(name).is_some_and(|facts| facts.takes_parts)
    }

    /// Whether the template reads a variable of this name.
    pub fn asks_for(&self, name: &str, variable: &str) -> bool {
        self.facts(name).is_some_and(|facts| facts.variables.contains(variable))
    }

    /// Whether the template names a role.
    pub fn names(&self, name: &str, role: &str) -> bool {
        let quoted = ["'", "\""].map(|quote| format!("{quote}{role}{quote}"));
        self.facts(name).is_some_and(|facts| quoted.iter().any(|role| facts.source.contains(role)))
    }

    /// Whether the engine moves a late system message to the head of its chat.
    pub fn moves_late_system(&self, moves_unrendered: bool) -> bool {
        let refused = |facts: &TemplateFacts| facts.late_system == LateSystemProbe::Refused;
        if moves_unrendered {
            self.facts(DEFAULT).is_some_and(|facts| facts.late_system != LateSystemProbe::Rendered)
        } else {
            self.facts.iter().any(refused)
        }
    }

    /// Renders a chat of two system messages without any variable, as engines do when they start.
    fn probe_late_system(&self, name: &str) -> LateSystemProbe {
        const LATE: &str = "Later";
        let turns = [("system", "t"), ("user", "t"), ("system", LATE), ("user", "t")];
        let messages: Vec<Value> =
            turns.into_iter().map(|(role, content)| context! { role => role, content => content }).collect();
        let variables = vec![
            ("messages".to_owned(), Value::from(messages)),
            ("add_generation_prompt".to_owned(), Value::from(false)),
        ];
        match self.render(name, variables, None, PROBE_BYTES) {
            Ok(text) if text.contains(LATE) => LateSystemProbe::Rendered,
            Ok(_) => LateSystemProbe::LeftOut,
            Err(_) => LateSystemProbe::Refused,
        }
    }

    /// The effort that stands for no thoughts: `none`, or `low` where the template refuses that or makes the same of it
    /// as of an effort. `render` renders a chat of this effort.
    pub fn quiet_effort(&self, name: &str, render: impl Fn(&str) -> Option<String>) -> &'static str {
        let probe = || {
            let efforts = ["low", "medium", "high", "xhigh", "max"];
            match render("none") {
                Some(none) if efforts.into_iter().all(|effort| render(effort).as_ref() != Some(&none)) => {
                    "none"
                }
                _ => "low",
            }
        };
        self.facts(name).map_or("none", |facts| facts.quiet_effort.get_or_init(probe))
    }

    /// Tries a text as one part and as a string: a template that knows parts renders both alike.
    fn takes_parts(&self, name: &str, specials: &[(String, Value)]) -> bool {
        let render = |content: Value| {
            let messages = vec![context! { role => "user", content => content }];
            let mut variables = specials.to_vec();
            variables.push(("messages".to_owned(), Value::from(messages)));
            variables.push(("tools".to_owned(), Value::from(())));
            variables.push(("documents".to_owned(), Value::from(())));
            self.render(name, variables, None, PROBE_BYTES)
        };
        let parts = vec![context! { type => "text", text => "Probe" }];
        match (render(Value::from(parts)), render(Value::from("Probe"))) {
            (Ok(parts), Ok(string)) => parts == string,
            (Ok(_), Err(_)) => true,
            (Err(_), _) => false,
        }
    }

    /// Renders a template with these variables, later ones before earlier ones. `time` is what
    /// `strftime_now` tells; without it the template finds it undefined.
    pub fn render(
        &self,
        name: &str,
        mut variables: Vec<(String, Value)>,
        time: Option<EventTime>,
        max_bytes: usize,
    ) -> Result<String, DecodeError> {
        let template = self.environment.get_template(name).map_err(|error| refusal(&error))?;
        if let Some(time) = time {
            let now = move |format: String| {
                strftime::strftime(&format, time)
                    .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "unknown strftime directive"))
            };
            variables.push(("strftime_now".to_owned(), Value::from_function(now)));
        }
        let mut text = Limited { bytes: Vec::new(), max_bytes };
        let rendered = template.render_captured_to(Value::from_pairs(variables), &mut text);
        if text.bytes.len() > max_bytes {
            let detail = format!("the rendered prompt is larger than {max_bytes} bytes");
            return Err(DecodeError::new(ErrorCode::RequestTooLarge, detail));
        }
        rendered.map_err(|error| refusal(&error))?;
        String::from_utf8(text.bytes)
            .map_err(|_| DecodeError::new(ErrorCode::TemplateFailed, "rendered to no UTF-8"))
    }
}

/// A buffer that takes a little more than `max_bytes` and then fails.
struct Limited {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() > self.max_bytes {
            return Err(std::io::Error::other(TOO_LARGE));
        }
        let room = self.max_bytes + 1 - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The environment that chat templates are written for.
fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax);
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(|out, state, value| {
        if value.is_number() && !value.is_integer() {
            return out.write_str(&python::number(value)).map_err(Error::from);
        }
        minijinja::escape_formatter(out, state, value)
    });
    environment.add_filter("tojson", python::tojson);
    environment.add_function("raise_exception", |_: Rest<Value>, _: Kwargs| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, RAISED))
    });
    Ok(environment)
}

/// What went wrong in a template, without its words, which may hold the prompt's.
fn refusal(error: &Error) -> DecodeError {
    let raised = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<Error>())
        .any(|error| error.detail() == Some(RAISED));
    let (code, what) = match raised {
        true => (ErrorCode::TemplateRefused, "the chat template refused the messages"),
        false => (ErrorCode::TemplateFailed, "the chat template failed on the messages"),
    };
    let line = error.line().map_or_else(String::new, |line| format!(", at line {line} of the template"));
    DecodeError::new(code, format!("{what}{line} ({:?})", error.kind()))
}

/// The source with `{% generation %}` blocks, which mark what the model wrote and render as their
/// content, turned into blocks of the same scope.
fn without_generation_tags(source: &str) -> String {
    let mut rest = source;
    let mut text = String::with_capacity(source.len());
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        text.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let name = tag[..end].trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        let replacement = match name {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => continue,
        };
        text.push_str(&tag[..end].replacen(name, replacement, 1));
        rest = &tag[end..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, variables: &[(&str, Value)]) -> Result<String, DecodeError> {
        let sources = vec![(DEFAULT.to_owned(), source.to_owned())];
        let templates = ChatTemplates::compile(sources, &[]).expect("the template parses");
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        templates.render(DEFAULT, variables, None, 1000)
    }

    #[test]
    fn generation_tags_keep_their_content_and_their_white_space_control() {
        let source =
            "a {%- generation -%} b {% endgeneration %}\nc {% generation%}d{%endgeneration +%}\n{{ 'x' }}";
        assert_eq!(render(source, &[]).as_deref(), Ok("ab c d\nx"));
        for source in ["{% raw %}{% generation", "{%", "a{% set x = 'generation' %}b"] {
            assert_eq!(without_generation_tags(source), source);
        }
    }

    #[test]
    fn what_a_template_raises_is_not_quoted() {
        let secret = [("secret", Value::from("hunter2"))];
        let error = render("\n{{ raise_exception('Bad: ' + secret) }}", &secret).expect_err("raised");
        assert_eq!(error.code(), ErrorCode::TemplateRefused);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(error.detail().contains("line 2"), "{error}");
        let in_macro = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}";
        assert_eq!(render(in_macro, &[]).expect_err("raised").code(), ErrorCode::TemplateRefused);
        let error = render("{{ secret.split(1, 2, 3, 4) }}", &secret).expect_err("wrong arguments");
        assert_eq!(error.code(), ErrorCode::TemplateFailed);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn a_rendering_without_end_is_cut_off() {
        let error = render("{% for i in range(100000) %}{{ 'x' * 100 }}{% endfor %}", &[]);
        assert_eq!(error.expect_err("too large").code(), ErrorCode::RequestTooLarge);
    }

    #[test]
    fn the_date_is_the_requests_own() {
        let sources = vec![(DEFAULT.to_owned(), "{{ strftime_now('%d %b %Y') }}".to_owned())];
        let templates = ChatTemplates::compile(sources, &[]).expect("the template parses");
        let at = |time| templates.render(DEFAULT, Vec::new(), time, 1000);
        assert_eq!(at(Some(EventTime(86_400_000))).as_deref(), Ok("02 Jan 1970"));
        assert_eq!(at(None).expect_err("no time is known").code(), ErrorCode::TemplateFailed);
    }
}
