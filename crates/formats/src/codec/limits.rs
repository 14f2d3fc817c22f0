//! The checks a request event must pass before the core sees it.

use super::message::{Decoded, RequestMessage};
use kvset_core::request::event::{CachedTokens, RequestEvent, check_cached_tokens, check_numbers};
use kvset_core::request::labels::Labels;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::pages::{PageIds, Scope};
use kvset_core::units::{EventTime, PageSize};
use std::borrow::Cow;

/// What one record may ask for. Everything beyond goes to the dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Largest record value, in bytes.
    pub max_record_bytes: usize,
    /// Most pages of one request, prompt and output together.
    pub max_pages_per_request: usize,
    /// Largest page size, in tokens.
    pub max_page_size: u32,
    /// Longest pool name, in bytes of UTF-8.
    pub max_pool_bytes: usize,
    /// Earliest accepted event time, in milliseconds.
    pub min_event_time_ms: i64,
    /// Latest accepted event time, in milliseconds: a guard against microseconds and nanoseconds.
    pub max_event_time_ms: i64,
    /// How far an event time may be ahead of its record's time stamp, in milliseconds; none for any
    /// distance. One event in the far future would close every open window of its pool.
    pub max_event_time_ahead_ms: Option<u64>,
}

impl Default for DecodeLimits {
    /// 16 MiB and 1,048,576 pages a request, 65,536 tokens per page, pool names of 256 bytes, and
    /// event times from the epoch to the year 2100, whatever the record's time stamp.
    fn default() -> Self {
        Self {
            max_record_bytes: 16 << 20,
            max_pages_per_request: 1 << 20,
            max_page_size: 1 << 16,
            max_pool_bytes: 256,
            min_event_time_ms: 0,
            max_event_time_ms: 4_102_444_800_000,
            max_event_time_ahead_ms: None,
        }
    }
}

impl DecodeLimits {
    /// Refuses a value without bytes, or with too many, before anything reads it. A record without a value, a
    /// tombstone, is for the caller to pass.
    ///
    /// # Errors
    /// [`ErrorCode::EmptyRecord`] or [`ErrorCode::RecordTooLarge`].
    pub fn check_size(&self, payload: &[u8]) -> Result<(), DecodeError> {
        let (bytes, limit) = (payload.len(), self.max_record_bytes);
        match bytes {
            0 => Err(DecodeError::new(ErrorCode::EmptyRecord, "the record's value is empty")),
            _ if bytes > limit => Err(DecodeError::new(
                ErrorCode::RecordTooLarge,
                format!("{bytes} bytes are more than max_record_bytes = {limit}"),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses an event time too far ahead of the time stamp its record has in the log. That is part of
    /// the log as the event is, so a record is judged alike whenever it is read; one without is let pass.
    pub fn check_ahead(&self, event_time: EventTime, timestamp_ms: Option<i64>) -> Result<(), DecodeError> {
        let (Some(limit), Some(timestamp_ms)) = (self.max_event_time_ahead_ms, timestamp_ms) else {
            return Ok(());
        };
        let ahead = i128::from(event_time.0) - i128::from(timestamp_ms);
        if ahead <= i128::from(limit) {
            return Ok(());
        }
        Err(DecodeError::new(
            ErrorCode::EventTimeAhead,
            format!(
                "event_time is {ahead} ms ahead of the record's time stamp, more than max_event_time_ahead = \
                 {limit} ms"
            ),
        ))
    }

    /// Refuses more pages than a request may have.
    ///
    /// # Errors
    /// [`ErrorCode::TooManyPages`].
    pub fn check_pages(&self, pages: usize) -> Result<(), DecodeError> {
        if pages <= self.max_pages_per_request {
            return Ok(());
        }
        let limit = self.max_pages_per_request;
        Err(DecodeError::new(
            ErrorCode::TooManyPages,
            format!("the request has more pages than max_pages_per_request = {limit}"),
        ))
    }

    /// Turns a message into what the core consumes, or says why not. `key` names the pool.
    ///
    /// # Errors
    /// The first thing that a request event must not say.
    pub fn admit<'a>(
        &self,
        key: Option<&'a [u8]>,
        message: RequestMessage<'a>,
    ) -> Result<Decoded<'a>, DecodeError> {
        self.check_pages(message.page_ids.len().saturating_add(message.output_page_ids.len()))?;
        let event_time = self.event_time(message.event_time)?;
        let duration_ms = count("duration_ms", message.duration_ms)?;
        // Nobody knows at the end of a request what arrives after it.
        let end = event_time.0.saturating_add(message.duration_ms.unwrap_or(0));
        let page_size = message.page_size.map(|tokens| self.page_size(tokens)).transpose()?;
        let event = RequestEvent {
            event_time,
            page_size,
            scope: message.scope.as_ref().map_or(Scope::GLOBAL, |name| Scope::named(name.as_bytes())),
            page_ids: message.page_ids,
            ids_chained: message.ids_chained,
            output_page_ids: message.output_page_ids,
            tokens_behind: PageIds::EMPTY,
            input_tokens: count("input_tokens", message.input_tokens)?,
            output_tokens: count("output_tokens", message.output_tokens)?,
            duration_ms,
            complete_before: message.complete_before.map(|before| EventTime(before.min(end))),
            cached_tokens: cached_tokens(&message)?,
            labels: self.labels(message.labels)?,
        };
        check_numbers(&event)
            .map_err(|outside| DecodeError::new(ErrorCode::InvalidNumber, outside.to_string()))?;
        if let Some(page_size) = page_size {
            check_page_count(&event, page_size)?;
            check_cached_tokens(&event, page_size)
                .map_err(|mismatch| invalid_cached_tokens(mismatch.to_string()))?;
        }
        Ok(Decoded { pool: self.pool(key, message.pool)?, event })
    }

    /// Labels that are as long as a pool's name at most.
    fn labels<'a>(&self, labels: Labels<&'a str>) -> Result<Labels<&'a str>, DecodeError> {
        let max = self.max_pool_bytes;
        let unfit = |name: &str| name.len() > max || name.chars().any(char::is_control);
        match labels.iter().find(|(_, name)| unfit(name)) {
            None => Ok(labels),
            Some((label, _)) => {
                let detail = format!("{} has at most {max} bytes and no control characters", label.name());
                Err(DecodeError::new(ErrorCode::InvalidField, detail))
            }
        }
    }

    fn event_time(&self, ms: i64) -> Result<EventTime, DecodeError> {
        let (from, to) = (self.min_event_time_ms, self.max_event_time_ms);
        if (from..=to).contains(&ms) {
            return Ok(EventTime(ms));
        }
        Err(DecodeError::new(
            ErrorCode::EventTimeOutOfRange,
            format!("event_time is outside {from} to {to} milliseconds since the epoch"),
        ))
    }

    fn page_size(&self, tokens: i32) -> Result<PageSize, DecodeError> {
        let max = self.max_page_size;
        let size = u32::try_from(tokens).ok().filter(|tokens| *tokens <= max).and_then(PageSize::new);
        size.ok_or_else(|| {
            DecodeError::new(ErrorCode::InvalidPageSize, format!("page_size is not within 1 to {max} tokens"))
        })
    }

    /// The pool that a record's key names, whatever its value says; `None` where it can name none.
    pub fn pool_of_key<'a>(&self, key: Option<&'a [u8]>) -> Option<&'a str> {
        let name = std::str::from_utf8(key?).ok()?;
        Some(name).filter(|name| !name.is_empty() && self.is_name(name))
    }

    fn is_name(&self, pool: &str) -> bool {
        pool.len() <= self.max_pool_bytes && !pool.chars().any(char::is_control)
    }

    /// The pool from the key, which decides, or else from the value.
    fn pool<'a>(
        &self,
        key: Option<&'a [u8]>,
        value: Option<Cow<'a, str>>,
    ) -> Result<Cow<'a, str>, DecodeError> {
        let key = key.filter(|key| !key.is_empty());
        let key = key.map(std::str::from_utf8).transpose().map_err(|_| {
            DecodeError::new(ErrorCode::InvalidPool, "the record key, which names the pool, is not UTF-8")
        })?;
        let value = value.filter(|name| !name.is_empty());
        let pool = match (key, value) {
            (None, None) => {
                let detail = "neither the record key nor the field pool names one";
                return Err(DecodeError::new(ErrorCode::MissingPool, detail));
            }
            (Some(key), Some(value)) if key != value => {
                let detail = "the record key and the field pool differ";
                return Err(DecodeError::new(ErrorCode::PoolConflict, detail));
            }
            (Some(key), _) => Cow::Borrowed(key),
            (None, Some(value)) => value,
        };
        if !self.is_name(&pool) {
            let max = self.max_pool_bytes;
            let detail = format!("a pool's name has at most {max} bytes and no control characters");
            return Err(DecodeError::new(ErrorCode::InvalidPool, detail));
        }
        Ok(pool)
    }
}

/// A count as a message has it, which is none below zero.
///
/// # Errors
/// [`ErrorCode::InvalidNumber`].
pub fn count(field: &'static str, value: Option<i64>) -> Result<Option<u64>, DecodeError> {
    value
        .map(u64::try_from)
        .transpose()
        .map_err(|_| DecodeError::new(ErrorCode::InvalidNumber, format!("{field} is negative")))
}

/// The cached tokens; no more than the prompt's where those are stated.
fn cached_tokens(message: &RequestMessage<'_>) -> Result<CachedTokens, DecodeError> {
    let Some(cached) = message.cached_tokens else {
        return Ok(CachedTokens::of_usage(None, message.cached_tokens_left_out));
    };
    if message.cached_tokens_left_out {
        return Err(invalid_cached_tokens("cached_tokens is there and cached_tokens_left_out"));
    }
    if message.input_tokens.is_some_and(|prompt| cached > prompt) {
        return Err(invalid_cached_tokens("cached_tokens are more than input_tokens"));
    }
    u64::try_from(cached)
        .map(CachedTokens::Stated)
        .map_err(|_| invalid_cached_tokens("cached_tokens is negative"))
}

pub(super) fn invalid_cached_tokens(detail: impl Into<Cow<'static, str>>) -> DecodeError {
    DecodeError::new(ErrorCode::InvalidCachedTokens, detail)
}

/// Checks the numbers of page ids against the numbers of tokens, as far as both are known: the
/// prompt's pages are its tokens divided by the page size, rounded down or up; the output's are at
/// most what it began to fill.
///
/// The decoder applies this where the event says its page size; a pool applies it with its
/// configured one.
pub fn check_page_count(event: &RequestEvent<'_>, page_size: PageSize) -> Result<(), DecodeError> {
    let Some(input) = event.input_tokens else { return Ok(()) };
    let size = u64::from(page_size.get());
    let (full, pages) = (input / size, event.prompt_pages());
    if pages != full && pages != input.div_ceil(size) {
        return Err(DecodeError::new(
            ErrorCode::PageCountMismatch,
            format!("{pages} page_ids do not fit {input} input_tokens at {size} tokens per page"),
        ));
    }
    let Some(output) = event.output_tokens else { return Ok(()) };
    let most = input.saturating_add(output).div_ceil(size) - full;
    let output_pages = event.output_page_ids.len() as u64;
    if output_pages > most {
        return Err(DecodeError::new(
            ErrorCode::PageCountMismatch,
            format!("{output_pages} output_page_ids are more than the {most} pages that the output touched"),
        ));
    }
    Ok(())
}
