//! Dynamo's request traces and audit records. A trace's `request_end` has the hashes of the prompt's blocks; its
//! `request_payload`, and an audit record, has the body.

use super::layout::first;
use super::layouts;
use super::{Logged, LoggedPrompt, LoggedRequest, Places};
use crate::codec::{DecodeError, ErrorCode};
use crate::record::dynamo::{OTHER_EVENT, read_record};
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::observed::ObservedRequest;
use crate::record::row::RowBatch;
use kvset_core::request::labels::Label;
use std::borrow::Cow;
use std::time::Duration;

const SWITCH_ON: &str =
    "trace requests with the hashes of their blocks (DYN_REQUEST_TRACE=1 of Dynamo's frontend)";

/// What the schema of a trace begins with.
const SCHEMA: &str = "dynamo.request.trace.";

/// Whether a record is one of a trace.
pub(super) fn is_trace(record: &[u8]) -> bool {
    let schema = first(record, &["schema", "event.schema"]);
    schema.is_ok_and(|schema| schema.is_some_and(|schema| schema.text.starts_with(SCHEMA)))
}

pub(super) fn read<'r>(record: &'r [u8], places: &Places) -> Result<Logged<'r>, DecodeError> {
    if is_trace(record)
        && let Some(path) = &places.request
        && path.find(record)?.is_none()
        && first(record, &["event_type", "event.event_type"])?
            .is_some_and(|kind| kind.text != "request_payload")
    {
        return Ok(Logged::PassedOver("an event of another kind than request_payload"));
    }
    if !is_trace(record) || places.request.is_some() {
        return layouts::DYNAMO_PAYLOAD.read(record, places);
    }
    let mut batch = RowBatch::default();
    let draft = match read_record(record, &mut batch, &IdScope::Global) {
        Ok(Some(draft)) => draft,
        Ok(None) => return Ok(Logged::PassedOver(OTHER_EVENT)),
        Err(fault) => return Ok(Logged::one(Err(refusal(fault)))),
    };
    let replica = draft.labels.get(Label::Replica);
    let named =
        [("model", draft.pool.as_ref()), ("replica", replica), ("session_id", draft.session.as_ref())];
    let names = named
        .into_iter()
        .filter_map(|(name, value)| Some((Cow::Borrowed(name), batch.text[value?.clone()].to_owned())));
    Ok(Logged::one(Ok(LoggedRequest {
        prompt: LoggedPrompt::Pages {
            ids: batch.ids[draft.ids.clone()].to_vec(),
            page_size: draft.page_size,
        },
        arrival: draft.stated(),
        observed: ObservedRequest {
            duration: draft.duration_ms.map(Duration::from_millis),
            input_tokens: draft.input_tokens,
            output_tokens: draft.output_tokens,
            cached_tokens: draft.cached_tokens,
            ..ObservedRequest::default()
        },
        names: names.collect(),
    })))
}

fn refusal(fault: RowFault) -> DecodeError {
    match fault {
        RowFault::Missing { field } => {
            DecodeError::new(ErrorCode::MissingField, format!("there is no `{field}`: {SWITCH_ON}"))
        }
        RowFault::Field { .. } | RowFault::Repeated { .. } => {
            DecodeError::new(ErrorCode::InvalidField, fault.to_string())
        }
        RowFault::Event(refused) => refused,
        other => DecodeError::new(ErrorCode::Undecodable, other.to_string()),
    }
}
