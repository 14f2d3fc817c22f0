//! What one shape keeps where, and how a record of it is read.

use super::path::{self, PathValue};
use super::{FieldPath, Logged, LoggedPrompt, LoggedRequest, Places};
use crate::codec::{DecodeError, ErrorCode};
use crate::identity::{self, NamedParts};
use crate::record::answer::LoggedAnswer;
use crate::record::members::members;
use crate::record::numbers::{TokenId, count};
use crate::record::observed::ObservedRequest;
use crate::record::outcome::LoggedOutcome;
use crate::record::stated_time::StatedTime;
use crate::time::{NumberUnit, Numbers, Time, WrittenTime};
use kvset_core::request::endpoint::generates_no_text;
use kvset_core::units::names::listed;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::time::Duration;

/// Where a shape keeps what. Of several paths the first that leads somewhere holds.
pub(super) struct LogLayout {
    /// Where the prompt is.
    pub prompt: Prompt,
    /// What must be switched on so that it is there.
    pub switch_on: &'static str,
    /// Why a record is none of a request that a cache served, where the shape has such records.
    pub passed_over: fn(&[u8]) -> Result<Option<&'static str>, DecodeError>,
    /// The answer, or the object that its usage is in.
    pub response: &'static [&'static str],
    /// Whether what stands alongside the request has the names of plain rows for times.
    pub is_row: bool,
    /// When the request came.
    pub start: &'static [&'static str],
    /// When its last token was sent.
    pub end: &'static [&'static str],
    /// How long it took, with the unit where it is a number.
    pub duration: &'static [(&'static str, NumberUnit)],
    /// Names of the model, the tenant and others, with their places.
    pub names: &'static [(&'static str, &'static str)],
    /// Where the record states the prompt's tokens alongside the answer's usage.
    pub prompt_tokens: &'static [&'static str],
    /// Where the record lists the token ids of the answer apart from that.
    pub answer_ids: &'static [&'static str],
    /// What may hold the rest of a prompt and is not read.
    pub parts: &'static [&'static str],
    /// Objects with fields of the request, which say what keeps its pages apart ([`crate::identity`]).
    pub request: &'static [&'static str],
    /// What the model is called where the shape never names it.
    pub unnamed_model: Option<&'static str>,
    /// The path that was asked: not every endpoint takes prompts to answer.
    pub endpoint: &'static [&'static str],
    /// The answer's HTTP status.
    pub status: &'static [&'static str],
}

/// How a shape holds a prompt.
pub(super) enum Prompt {
    /// A body at the first of these paths that leads somewhere.
    At(&'static [&'static str]),
    /// In a way of its own.
    Own(for<'r> fn(&'r [u8], &Places) -> Result<LoggedPrompt<'r>, DecodeError>),
}

impl LogLayout {
    /// A layout that says where the prompt is, and nothing else.
    pub const fn of(prompt: Prompt, switch_on: &'static str) -> Self {
        Self {
            prompt,
            switch_on,
            passed_over: |_| Ok(None),
            response: &[],
            is_row: false,
            start: &[],
            end: &[],
            duration: &[],
            names: &[],
            prompt_tokens: &[],
            parts: &[],
            answer_ids: &[],
            request: &[],
            unnamed_model: None,
            endpoint: &[],
            status: &[],
        }
    }

    /// Reads a record.
    pub fn read<'r>(&self, record: &'r [u8], places: &Places) -> Result<Logged<'r>, DecodeError> {
        let why = match self.other_than_a_request(record)? {
            None if self.is_row => served_no_prompt(record, places)?,
            why => why,
        };
        if let Some(why) = why {
            return Ok(Logged::PassedOver(why));
        }
        Ok(Logged::one(self.request(record, places)))
    }

    /// Why the record is none of a request that a cache served.
    pub fn other_than_a_request(&self, record: &[u8]) -> Result<Option<&'static str>, DecodeError> {
        if let Some(status) = first(record, self.status)?
            && count(&status.text).is_ok_and(|status| status >= Some(400))
        {
            return Ok(Some("the request failed"));
        }
        if let Some(endpoint) = first(record, self.endpoint)?
            && generates_no_text(&endpoint.text)
        {
            return Ok(Some("its endpoint generates no text"));
        }
        (self.passed_over)(record)
    }

    fn request<'r>(&self, record: &'r [u8], places: &Places) -> Result<LoggedRequest<'r>, DecodeError> {
        let prompt = match (&places.request, &self.prompt) {
            (Some(path), _) => LoggedPrompt::Body(found_at(path, record)?),
            (None, Prompt::At(paths)) => LoggedPrompt::Body(self.body_at(paths, record)?),
            (None, Prompt::Own(read)) => read(record, places)?,
        };
        let response = match &places.response {
            Some(path) => path.find(record)?,
            None => first(record, self.response)?.map(|found| found.text),
        };
        let mut answer =
            response.map(|response| LoggedAnswer::of_response(&response)).transpose()?.unwrap_or_default();
        first(record, self.answer_ids)?.into_iter().for_each(|ids| answer.list(&ids.text));
        let (mut start, mut end) = (time(record, self.start)?, time(record, self.end)?);
        let mut length = length(record, self.duration)?;
        if let (Some(_), LoggedPrompt::Body(request)) = (&places.request, &prompt) {
            // What the record does not say, its request may.
            answer = answer.or(LoggedAnswer::of_response(request)?);
            start = start.or(time(request.as_bytes(), self.start)?);
        }
        if self.is_row {
            let request = match &prompt {
                LoggedPrompt::Body(request) => request.as_ref(),
                LoggedPrompt::Tokens(_) | LoggedPrompt::Pages { .. } => "",
            };
            let stated = match start {
                Some(_) => own_times(record).unwrap_or_default(),
                None => stated_times(record, request)?,
            };
            (start, end, length) =
                (start.or(stated.start()), end.or(stated.end()), length.or(stated.length()));
        }
        let between = || {
            let (start, end) = (start?, end?);
            let is_length = start.clock == end.clock && start.moment <= end.moment;
            is_length.then(|| end.moment.since(start.moment))
        };
        let duration = length.or_else(between);
        Ok(LoggedRequest {
            prompt,
            arrival: start.or_else(|| Some(end?.before(duration.unwrap_or_default()))),
            observed: ObservedRequest {
                duration,
                input_tokens: match answer.prompt_tokens() {
                    None => self.stated(record)?,
                    stated => stated,
                },
                unread: self.unread(record)?,
                ..answer.observed()
            },
            names: self.names(record)?,
        })
    }

    fn body_at<'r>(&self, paths: &[&str], record: &'r [u8]) -> Result<Cow<'r, str>, DecodeError> {
        let body = first(record, paths)?.ok_or_else(|| missing(&paths.join("` nor `"), self.switch_on))?;
        let text = body.text.trim();
        if text.starts_with('{') && text.ends_with('}') {
            return Ok(body.text);
        }
        let detail =
            format!("`{}` is no JSON object: masked, cut off or of another format", paths.join("` or `"));
        Err(DecodeError::new(ErrorCode::InvalidBody, detail))
    }

    /// Prompt tokens where the answer does not state them.
    fn stated(&self, record: &[u8]) -> Result<Option<u64>, DecodeError> {
        let found = first(record, self.prompt_tokens)?.filter(says_something);
        Ok(found.and_then(|found| count(&found.text).ok().flatten()))
    }

    /// Those of the parts that a request may have alongside its prompt that this one has.
    fn unread(&self, record: &[u8]) -> Result<Vec<String>, DecodeError> {
        let mut found = Vec::new();
        for part in self.parts {
            if path::at(record, part)?.is_some_and(|found| !matches!(&*found.text, "{}" | "[]" | "")) {
                found.push((*part).to_owned());
            }
        }
        Ok(found)
    }

    fn names<'r>(&self, record: &[u8]) -> Result<Vec<(Cow<'r, str>, String)>, DecodeError> {
        let mut names: Vec<(Cow<'r, str>, String)> = Vec::new();
        for (name, path) in self.names {
            if names.iter().any(|(known, _)| known == name) {
                continue;
            }
            if let Some(found) = path::at(record, path)?.filter(says_something) {
                names.push((Cow::Borrowed(*name), found.text.into_owned()));
            }
        }
        for path in self.request {
            let Some(request) = path::at(record, path)? else { continue };
            let (mut text, mut parts) = (String::new(), NamedParts::default());
            parts.read_within(request.text.as_bytes(), &mut text);
            let name = |place: usize| Cow::Owned(identity::FIELDS[place].0.join("."));
            names.extend(parts.iter().map(|(place, value)| (name(place), text[value].to_owned())));
        }
        let endpoint = first(record, self.endpoint)?;
        let deployed = endpoint.and_then(|endpoint| deployment(&endpoint.text).map(str::to_owned));
        let model = deployed.or(self.unnamed_model.map(str::to_owned));
        names.extend(model.map(|model| (Cow::Borrowed("model"), model)));
        Ok(names)
    }
}

/// The deployment that a path names, as Azure's do: `/openai/deployments/NAME/chat/completions`. It is what stands
/// for the model there.
fn deployment(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/deployments/")?;
    rest.split(['/', '?']).next().filter(|name| !name.is_empty())
}

/// Gateways write a dash, or nothing, for what is not there; objects and lists are no names.
fn says_something(found: &PathValue<'_>) -> bool {
    let structured = !found.quoted && found.text.starts_with(['{', '[']);
    !structured && !matches!(found.text.as_ref(), "" | "-")
}

/// The first of these paths that leads somewhere.
pub(super) fn first<'r>(record: &'r [u8], paths: &[&str]) -> Result<Option<PathValue<'r>>, DecodeError> {
    for path in paths {
        if let Some(found) = path::at(record, path)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Why the request that lies in a record was served by no cache of pages, where it says so itself.
fn served_no_prompt(record: &[u8], places: &Places) -> Result<Option<&'static str>, DecodeError> {
    let request = places.request.as_ref().map(|path| path.find(record)).transpose()?.flatten();
    Ok(request.and_then(|request| LoggedOutcome::of_record(request.as_bytes()).passed_over(false)))
}

/// Objects of a record that say when its request came, where neither the record nor the request does. Others have times
/// of their own: when a user signed up.
const AROUND: [&str; 10] =
    listed("metadata meta eventMetadata event_metadata timing timings timestamps info trace response");

/// What a record with the names of plain rows itself states of times.
fn own_times(record: &[u8]) -> Result<StatedTime, DecodeError> {
    let record = std::str::from_utf8(record).unwrap_or_default();
    StatedTime::of_object(record)
        .map_err(|(name, fault)| DecodeError::new(ErrorCode::InvalidField, format!("`{name}` {fault}")))
}

/// The same, else what its request states, else what lies around that.
fn stated_times(record: &[u8], request: &str) -> Result<StatedTime, DecodeError> {
    let mut stated = own_times(record)?;
    if stated.arrival(None).is_none() {
        stated = stated.or(own_times(request.as_bytes())?);
    }
    if stated.arrival(None).is_none() {
        let members = std::str::from_utf8(record).ok().and_then(members).unwrap_or_default();
        let around = members.iter().filter(|(name, _)| AROUND.contains(&name.as_ref()));
        // What else is in there may mean something else by these names.
        let stating = around.filter_map(|(_, value)| StatedTime::of_object(value.get()).ok());
        stated = stating.fold(stated, StatedTime::or);
    }
    Ok(stated)
}

/// When something happened, by the first of these places that is there. A request whose time cannot be read is refused:
/// that of its record is another.
fn time(record: &[u8], places: &[&str]) -> Result<Option<Time>, DecodeError> {
    for path in places {
        if let Some(written) = written(record, path)? {
            let time = written.time(Numbers::Dates);
            let refused = |fault| DecodeError::new(ErrorCode::InvalidField, format!("`{path}` {fault}"));
            return time.map(Some).map_err(refused);
        }
    }
    Ok(None)
}

/// The first of these lengths of time that is there, where it can be read.
fn length(record: &[u8], places: &[(&str, NumberUnit)]) -> Result<Option<Duration>, DecodeError> {
    for (path, unit) in places {
        if let Some(written) = written(record, path)? {
            return Ok(written.length(*unit));
        }
    }
    Ok(None)
}

/// A time, or a length of time, at a path; those of databases lie in an object of their own.
fn written<'r>(record: &'r [u8], path: &str) -> Result<Option<WrittenTime<'r>>, DecodeError> {
    let Some(mut found) = path::at(record, path)? else { return Ok(None) };
    for name in ["$date", "$numberLong"] {
        if found.text.trim_start().starts_with('{')
            && let Some(inner) = path::at(found.text.as_bytes(), name)?
        {
            found = PathValue { text: Cow::Owned(inner.text.into_owned()), quoted: inner.quoted };
        }
    }
    Ok(Some(found).filter(says_something).map(|found| WrittenTime::of_text(found.text)))
}

/// The request at the place that the operator named; a text there that is no JSON is the prompt of a completion.
fn found_at<'r>(path: &FieldPath, record: &'r [u8]) -> Result<Cow<'r, str>, DecodeError> {
    let missing = |detail| DecodeError::new(ErrorCode::MissingField, detail);
    let found = path.at(record)?;
    let found =
        found.ok_or_else(|| missing(format!("there is no request at `{path}`, where it is looked for")))?;
    if found.quoted && matches!(found.text.trim(), "" | "-") {
        return Err(missing(format!(
            "`{path}` is empty: where a proxy put the body into a file, as nginx does with those above its \
             client_body_buffer_size, raise that; without these rows the longest prompts are missing"
        )));
    }
    Ok(if found.quoted && is_prompt(&found.text) {
        Cow::Owned(serde_json::json!({ "prompt": found.text }).to_string())
    } else {
        found.text
    })
}

/// Whether a text is a prompt as it stands: neither an object, whole or cut, nor a list.
fn is_prompt(text: &str) -> bool {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => false,
        // `[INST]` begins a prompt, too.
        Some(b'[') => serde_json::from_str::<IgnoredAny>(text).is_err(),
        _ => true,
    }
}

/// The refusal of a record that has no prompt at `path`.
pub(super) fn missing(path: &str, switch_on: &str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("there is no `{path}`: {switch_on}"))
}

/// Token ids, of one prompt or of several; nothing where the JSON is something else.
pub(crate) fn token_ids(json: &str) -> Option<Vec<Vec<u32>>> {
    let ids = |ids: Vec<TokenId>| ids.into_iter().map(|TokenId(id)| id).collect();
    let one = serde_json::from_str(json).map(|prompt| vec![ids(prompt)]);
    let several =
        |_| serde_json::from_str(json).map(|prompts: Vec<_>| prompts.into_iter().map(ids).collect());
    one.or_else(several).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_at_the_place_of_a_request_is_a_prompt() {
        let path: FieldPath = "input".parse().expect("a path");
        let found = |input: &str| {
            let record = serde_json::json!({ "input": input }).to_string();
            found_at(&path, record.as_bytes()).map(Cow::into_owned).map_err(|error| error.to_string())
        };
        for prompt in ["[INST] Hi [/INST]", "system\nBe \"brief\"."] {
            assert_eq!(found(prompt), Ok(serde_json::json!({ "prompt": prompt }).to_string()));
        }
        for body in ["{\"messages\": []}", "[1, 2]", "{\"messages\": [{\"ro"] {
            assert_eq!(found(body).as_deref(), Ok(body));
        }
        for empty in ["", "-"] {
            assert!(found(empty).expect_err("empty").contains("client_body_buffer_size"));
        }
    }

    #[test]
    fn token_ids_are_one_list_or_several() {
        assert_eq!(token_ids("[1, 2]"), Some(vec![vec![1, 2]]));
        assert_eq!(token_ids("[[1], [2]]"), Some(vec![vec![1], vec![2]]));
        assert_eq!(token_ids("[1, \"...\", 2]").or(token_ids("7")), None);
    }
}
