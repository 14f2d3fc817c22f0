//! Messages that a chat template leaves out, since it does not know their role.
//!
//! A template that goes through roles one by one renders nothing for any other, and says nothing. So the first time a
//! role stands at the head of a chat, or behind it, its message is changed and the chat is rendered once more: a
//! template that makes the same text of both does not render it.

use super::fields::ObjectFields;
use super::template::ChatTemplates;
use super::unrendered::shown_role;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use minijinja::Value;
use minijinja::value::ValueKind;

/// Roles that a template is known to render, at the head of a chat or behind it. One per thread.
#[derive(Default)]
pub(super) struct RenderedRoles(Vec<(&'static str, String, bool)>);

/// Most roles that are remembered; others are looked at each time.
const MOST: usize = 32;
/// What a message is changed by.
const MARK: &str = " kvset";

impl RenderedRoles {
    /// Looks for messages whose role is not known yet. `render` renders a chat as the one of these messages, whose text
    /// is `text`, was rendered.
    ///
    /// # Errors
    /// The template leaves out a message; its role is named.
    pub fn check(
        &mut self,
        templates: &ChatTemplates,
        template: &'static str,
        messages: &[ObjectFields],
        text: &str,
        mut render: impl FnMut(Vec<ObjectFields>) -> Result<String, DecodeError>,
    ) -> Result<(), DecodeError> {
        for (index, message) in messages.iter().enumerate() {
            let role = message.role();
            let is_first = index == 0;
            if self
                .0
                .iter()
                .any(|(of, seen, first)| (*of, seen.as_str(), *first) == (template, role, is_first))
            {
                continue;
            }
            let Some(marked) = marked(message) else { continue };
            let mut changed = messages.to_vec();
            changed[index] = marked;
            // What the template refuses it does not leave out.
            let is_left_out = render(changed).is_ok_and(|other| other == text);
            // The template may leave out a whole role on purpose: then it names it.
            if is_left_out && !(is_first && templates.names(template, role)) {
                let detail = format!(
                    "the model's chat template leaves out messages of the role {}, such as number {} of this chat: it does \
                     not know that role there",
                    shown_role(Some(role)),
                    index + 1
                );
                return Err(DecodeError::new(ErrorCode::UnrenderedField, detail));
            }
            if self.0.len() < MOST {
                self.0.push((template, role.to_owned(), is_first));
            }
        }
        Ok(())
    }
}

/// The message with another content; nothing where it has none to change.
fn marked(message: &ObjectFields) -> Option<ObjectFields> {
    let content = message.get("content")?;
    let other = match content.kind() {
        ValueKind::String => {
            let text = content.as_str().filter(|text| !text.trim().is_empty())?;
            Value::from(format!("{text}{MARK}"))
        }
        ValueKind::Seq => {
            let more = minijinja::context! { type => "text", text => MARK };
            let parts = content.try_iter().into_iter().flatten().chain(std::iter::once(more));
            parts.collect()
        }
        _ => return None,
    };
    let mut marked = message.clone();
    marked.set("content", other);
    Some(marked)
}
