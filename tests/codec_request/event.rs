//! A request event as the tests know it, and as apache-avro reads and writes it.

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use kvset::codec::{Decoded, RequestEncoding, RequestMessage, encode_request, schema};
use kvset::core::request::event::CachedTokens;
use kvset::core::request::labels::{Label, Labels};
use kvset::core::units::pages::{PageIds, Scope};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::LazyLock;

fn parsed() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> =
        LazyLock::new(|| Schema::parse_str(schema::REQUEST_EVENT).expect("the schema parses"));
    &SCHEMA
}

/// An event with everything owned, and what a reader must find in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub event_time: i64,
    pub ids: Vec<u64>,
    pub output_ids: Vec<u64>,
    pub pool: Option<String>,
    pub page_size: Option<i32>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub duration_ms: Option<i64>,
    pub scope: Option<String>,
    pub request_id: Option<String>,
    pub ids_chained: bool,
    pub cached_tokens: Option<i64>,
    pub cached_tokens_left_out: bool,
    pub complete_before: Option<i64>,
    pub replica: Option<String>,
    pub tenant: Option<String>,
    pub id_scheme: Option<String>,
    pub retention_class: Option<String>,
}

impl Event {
    fn labels(&self) -> Labels<&str> {
        let named = [
            (Label::Replica, self.replica.as_deref()),
            (Label::Tenant, self.tenant.as_deref()),
            (Label::IdScheme, self.id_scheme.as_deref()),
            (Label::RetentionClass, self.retention_class.as_deref()),
        ];
        named.into_iter().filter_map(|(label, name)| Some((label, name?))).collect()
    }

    pub fn message(&self) -> RequestMessage<'_> {
        RequestMessage {
            event_time: self.event_time,
            page_ids: PageIds::from_slice(&self.ids),
            pool: self.pool.as_deref().map(Cow::Borrowed),
            page_size: self.page_size,
            output_page_ids: PageIds::from_slice(&self.output_ids),
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            duration_ms: self.duration_ms,
            scope: self.scope.as_deref().map(Cow::Borrowed),
            request_id: self.request_id.as_deref().map(Cow::Borrowed),
            ids_chained: self.ids_chained,
            cached_tokens: self.cached_tokens,
            labels: self.labels(),
            cached_tokens_left_out: self.cached_tokens_left_out,
            complete_before: self.complete_before,
        }
    }

    pub fn encode(&self, encoding: RequestEncoding) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_request(&self.message(), encoding, &mut bytes).expect("serialises");
        bytes
    }

    fn avro_value(&self, packed: bool) -> Value {
        let ids = |ids: &[u64]| match packed {
            true => Value::Union(0, Box::new(Value::Bytes(PageIds::from_slice(ids).as_packed().to_vec()))),
            false => {
                let longs = ids.iter().map(|id| Value::Long(*id as i64)).collect();
                Value::Union(1, Box::new(Value::Array(longs)))
            }
        };
        let text = |text: &Option<String>| nullable(text.clone().map(Value::String));
        let long = |number: Option<i64>| nullable(number.map(Value::Long));
        let field = |name: &str, value| (name.to_owned(), value);
        Value::Record(vec![
            field("event_time", Value::TimestampMillis(self.event_time)),
            field("page_ids", ids(&self.ids)),
            field("pool", text(&self.pool)),
            field("page_size", nullable(self.page_size.map(Value::Int))),
            field("output_page_ids", ids(&self.output_ids)),
            field("input_tokens", long(self.input_tokens)),
            field("output_tokens", long(self.output_tokens)),
            field("duration_ms", long(self.duration_ms)),
            field("scope", text(&self.scope)),
            field("request_id", text(&self.request_id)),
            field("ids_chained", Value::Boolean(self.ids_chained)),
            field("cached_tokens", long(self.cached_tokens)),
            field("cached_tokens_left_out", Value::Boolean(self.cached_tokens_left_out)),
            field("complete_before", nullable(self.complete_before.map(Value::TimestampMillis))),
            field("replica", text(&self.replica)),
            field("tenant", text(&self.tenant)),
            field("id_scheme", text(&self.id_scheme)),
            field("retention_class", text(&self.retention_class)),
        ])
    }

    /// What apache-avro reads out of a record of ours; `None` where it refuses.
    pub fn by_apache_avro(record: &[u8]) -> Option<Self> {
        let reader = GenericDatumReader::builder(parsed()).build().expect("the schema resolves");
        let mut datum = record.get(10..)?;
        let value = reader.read_value(&mut datum).ok()?;
        if !datum.is_empty() {
            return None;
        }
        let Value::Record(fields) = value else { return None };
        let mut fields = fields.into_iter().map(|(_, value)| match value {
            Value::Union(_, inner) => *inner,
            other => other,
        });
        let mut next = || fields.next().expect("a field of the schema");
        let long = |value| match value {
            Value::Long(number) | Value::TimestampMillis(number) => Some(number),
            Value::Int(number) => Some(i64::from(number)),
            _ => None,
        };
        let ids = |value| match value {
            Value::Bytes(bytes) => PageIds::from_packed(&bytes).map(|ids| ids.iter().collect()),
            Value::Array(items) => Some(items.into_iter().filter_map(long).map(|id| id as u64).collect()),
            _ => None,
        };
        let text = |value| if let Value::String(text) = value { Some(text) } else { None };
        let mut read = Self {
            event_time: long(next())?,
            ids: ids(next())?,
            pool: text(next()),
            page_size: long(next()).map(|size| size as i32),
            output_ids: ids(next())?,
            input_tokens: long(next()),
            output_tokens: long(next()),
            duration_ms: long(next()),
            scope: text(next()),
            request_id: text(next()),
            ids_chained: next() == Value::Boolean(true),
            cached_tokens: long(next()),
            cached_tokens_left_out: next() == Value::Boolean(true),
            complete_before: long(next()),
            replica: text(next()),
            tenant: text(next()),
            id_scheme: text(next()),
            retention_class: text(next()),
        };
        read.complete_before = read.complete_before();
        Some(read)
    }

    /// Nobody knows at the end of a request what arrives after it.
    fn complete_before(&self) -> Option<i64> {
        let end = self.event_time.saturating_add(self.duration_ms.unwrap_or(0));
        self.complete_before.map(|before| before.min(end))
    }

    pub fn assert_decoded(&self, decoded: &Decoded<'_>) {
        let event = decoded.event;
        assert_eq!(decoded.pool, self.pool.as_deref().unwrap_or("the key"));
        assert_eq!(event.event_time.0, self.event_time);
        assert_eq!(event.page_ids.iter().collect::<Vec<_>>(), self.ids);
        assert_eq!(event.output_page_ids.iter().collect::<Vec<_>>(), self.output_ids);
        assert_eq!(event.page_size.map(|size| size.get() as i32), self.page_size);
        assert_eq!(event.input_tokens.map(|n| n as i64), self.input_tokens);
        assert_eq!(event.output_tokens.map(|n| n as i64), self.output_tokens);
        assert_eq!(event.duration_ms.map(|n| n as i64), self.duration_ms);
        let scope = self.scope.as_ref().map_or(Scope::GLOBAL, |name| Scope::named(name.as_bytes()));
        assert_eq!(event.scope, scope);
        assert_eq!(event.ids_chained, self.ids_chained);
        assert_eq!(event.cached_tokens.stated().map(|n| n as i64), self.cached_tokens);
        assert_eq!(event.cached_tokens == CachedTokens::LeftOut, self.cached_tokens_left_out);
        assert_eq!(event.complete_before.map(|before| before.0), self.complete_before());
        assert_eq!(event.labels, self.labels());
    }
}

fn nullable(value: Option<Value>) -> Value {
    match value {
        None => Value::Union(0, Box::new(Value::Null)),
        Some(value) => Value::Union(1, Box::new(value)),
    }
}

/// A record by apache-avro's writer, behind the header.
pub fn by_apache_avro(event: &Event, packed: bool, block: Option<usize>) -> Vec<u8> {
    let mut record = vec![0xC3, 0x01];
    record.extend(schema::REQUEST_EVENT_V1);
    let writer =
        GenericDatumWriter::builder(parsed()).maybe_target_block_size(block).build().expect("resolves");
    writer.write_value_ref(&mut record, &event.avro_value(packed)).expect("an event of the schema");
    record
}

fn ids() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        prop::collection::vec(any::<u64>(), 0..40),
        prop::collection::vec(0u64..300, 0..40),
        prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(id, shift)| id >> shift), 0..40),
    ]
}

/// Events within the default limits. The page size is given only where the token counts fit it.
pub fn events() -> impl Strategy<Value = Event> {
    let names = || prop::option::of("[a-zé|/\"\\\\]{1,12}");
    let tokens = prop::option::of(0i64..1 << 32);
    let duration = prop::option::of(0i64..=86_400_000);
    let rest = (
        prop::option::of(1i32..65_536),
        0i64..65_536,
        tokens,
        duration,
        names(),
        names(),
        names(),
        any::<bool>(),
        (
            prop::option::of(0i64..=100),
            names(),
            names(),
            any::<bool>(),
            names(),
            names(),
            prop::option::of(any::<i64>()),
        ),
    );
    (0i64..4_102_444_800_000, ids(), ids(), rest).prop_map(|(event_time, ids, mut output_ids, rest)| {
        let (page_size, slack, output_tokens, duration_ms, pool, scope, request_id, ids_chained, beside) =
            rest;
        let (cached_percent, replica, tenant, left_out, id_scheme, retention_class, complete_before) = beside;
        let (input_tokens, output_tokens) = match page_size {
            None => (Some(slack), output_tokens),
            Some(size) => {
                let tokens = ids.len() as i64 * i64::from(size) + slack % i64::from(size);
                output_ids.truncate((output_tokens.unwrap_or(0) / i64::from(size)) as usize);
                (Some(tokens), output_tokens)
            }
        };
        let cached_tokens = cached_percent.zip(input_tokens).map(|(percent, tokens)| tokens * percent / 100);
        Event {
            event_time,
            ids,
            output_ids,
            pool,
            page_size,
            input_tokens,
            output_tokens,
            duration_ms,
            scope,
            request_id,
            ids_chained,
            cached_tokens,
            cached_tokens_left_out: left_out && cached_tokens.is_none(),
            complete_before,
            replica,
            tenant,
            id_scheme,
            retention_class,
        }
    })
}
