//! Chat templates as `transformers` renders them, in the same environment: `trim_blocks`,
//! `lstrip_blocks`, loop controls, `tojson`, `raise_exception`, `strftime_now`, `generation` blocks and
//! the methods of Python's strings, lists and dicts.

use super::error::{ModelError, TokenizeCode, TokenizeError};
use super::{python, strftime};
use kvset_core::units::EventTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::io::Write;

/// The template of chats, and the one for chats with tools where a model has two.
const DEFAULT: &str = "default";
const WITH_TOOLS: &str = "tool_use";
/// The detail of the error that `raise_exception` raises; what the template says may quote a prompt.
const RAISED: &str = "the template called raise_exception";
/// The detail of the error for a rendering that grows too large.
const TOO_LARGE: &str = "rendered text above the limit";

/// A model's chat templates.
pub(super) struct ChatTemplates {
    environment: Environment<'static>,
    /// Names of the templates that take a list of text parts as a message's content.
    take_parts: Vec<String>,
}

impl ChatTemplates {
    /// Compiles named templates; the one for chats is called `default`.
    pub fn compile(sources: Vec<(String, String)>, specials: &[(String, Value)]) -> Result<Self, ModelError> {
        let unusable = |name: &str, error: Error| ModelError::Template {
            name: name.to_owned(),
            reason: error.to_string(),
        };
        let mut environment = environment().map_err(|error| unusable(DEFAULT, error))?;
        let mut names = Vec::new();
        for (name, source) in sources {
            let source = without_generation_tags(&source);
            let added = environment.add_template_owned(name.clone(), source);
            added.map_err(|error| unusable(&name, error))?;
            names.push(name);
        }
        let mut this = Self { environment, take_parts: Vec::new() };
        names.retain(|name| this.takes_parts(name, specials));
        this.take_parts = names;
        Ok(this)
    }

    /// The template for a chat: one of its own for chats with tools, where the model has it.
    pub fn choose(&self, has_tools: bool) -> Result<&'static str, TokenizeError> {
        [WITH_TOOLS, DEFAULT]
            .into_iter()
            .skip(usize::from(!has_tools))
            .find(|name| self.environment.get_template(name).is_ok())
            .ok_or_else(|| {
                TokenizeError::new(TokenizeCode::NoChatTemplate, "the model has no default chat template")
            })
    }

    /// Whether the template loops over the parts of a content itself.
    pub fn takes(&self, name: &str) -> bool {
        self.take_parts.iter().any(|takes| takes == name)
    }

    /// Whether the template reads a variable of this name.
    pub fn asks_for(&self, name: &str, variable: &str) -> bool {
        let template = self.environment.get_template(name);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(variable))
    }

    /// Tries a text as one part and as a string: a template that knows parts renders both alike.
    fn takes_parts(&self, name: &str, specials: &[(String, Value)]) -> bool {
        let render = |content: Value| {
            let messages = vec![context! { role => "user", content => content }];
            let mut variables = specials.to_vec();
            variables.push(("messages".to_owned(), Value::from(messages)));
            variables.push(("tools".to_owned(), Value::from(())));
            variables.push(("documents".to_owned(), Value::from(())));
            self.render(name, variables, None, 1 << 20)
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
    ) -> Result<String, TokenizeError> {
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
            return Err(TokenizeError::new(TokenizeCode::RequestTooLarge, detail));
        }
        rendered.map_err(|error| refusal(&error))?;
        String::from_utf8(text.bytes)
            .map_err(|_| TokenizeError::new(TokenizeCode::TemplateFailed, "rendered to no UTF-8"))
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
fn refusal(error: &Error) -> TokenizeError {
    let raised = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<Error>())
        .any(|error| error.detail() == Some(RAISED));
    let (code, what) = match raised {
        true => (TokenizeCode::TemplateRefused, "the chat template refused the messages"),
        false => (TokenizeCode::TemplateFailed, "the chat template failed on the messages"),
    };
    let line = error.line().map_or_else(String::new, |line| format!(", at line {line} of the template"));
    TokenizeError::new(code, format!("{what}{line} ({:?})", error.kind()))
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

    fn render(source: &str, variables: &[(&str, Value)]) -> Result<String, TokenizeError> {
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
        assert_eq!(error.code(), TokenizeCode::TemplateRefused);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(error.detail().contains("line 2"), "{error}");
        let in_macro = "{% macro m() %}{{ raise_exception('no') }}{% endmacro %}{{ m() }}";
        assert_eq!(render(in_macro, &[]).expect_err("raised").code(), TokenizeCode::TemplateRefused);
        let error = render("{{ secret.split(1, 2, 3, 4) }}", &secret).expect_err("wrong arguments");
        assert_eq!(error.code(), TokenizeCode::TemplateFailed);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn a_rendering_without_end_is_cut_off() {
        let error = render("{% for i in range(100000) %}{{ 'x' * 100 }}{% endfor %}", &[]);
        assert_eq!(error.expect_err("too large").code(), TokenizeCode::RequestTooLarge);
    }

    #[test]
    fn the_date_is_the_requests_own() {
        let sources = vec![(DEFAULT.to_owned(), "{{ strftime_now('%d %b %Y') }}".to_owned())];
        let templates = ChatTemplates::compile(sources, &[]).expect("the template parses");
        let at = |time| templates.render(DEFAULT, Vec::new(), time, 1000);
        assert_eq!(at(Some(EventTime(86_400_000))).as_deref(), Ok("02 Jan 1970"));
        assert_eq!(at(None).expect_err("no time is known").code(), TokenizeCode::TemplateFailed);
    }
}
