//! OTLP's messages, as far as they tell of requests to models: open-telemetry/opentelemetry-proto, `trace.proto`,
//! `logs.proto` and `common.proto` of v1. The same types are read from protobuf and from JSON; what they leave out is
//! passed over.

use crate::key::Key;
use crate::record::numbers::WholeNumber;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// What the collector's exporters write of traces.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Traces {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// What the collector's exporters write of logs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Logs {
    #[prost(message, repeated, tag = "1")]
    pub resource_logs: Vec<ResourceLogs>,
}

/// Spans of one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// Spans of one library.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<TelemetrySpan>,
}

/// Log records of one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_logs: Vec<ScopeLogs>,
}

/// Log records of one library.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeLogs {
    #[prost(message, repeated, tag = "2")]
    pub log_records: Vec<LogRecord>,
}

/// What is known of a process.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
}

/// Something that took time.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TelemetrySpan {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    #[serde(skip)]
    pub trace_id: Vec<u8>,
    /// 8 bytes; of JSON the text that stands for them, which is as good to tell spans apart.
    #[prost(bytes = "vec", tag = "2")]
    #[serde(deserialize_with = "id")]
    pub span_id: Vec<u8>,
    /// The same of the span around this one; empty where there is none.
    #[prost(bytes = "vec", tag = "4")]
    #[serde(deserialize_with = "id")]
    pub parent_span_id: Vec<u8>,
    #[prost(fixed64, tag = "7")]
    #[serde(deserialize_with = "number")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(deserialize_with = "number")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "10")]
    #[serde(deserialize_with = "or_default")]
    pub dropped_attributes_count: u32,
    #[prost(message, repeated, tag = "11")]
    #[serde(deserialize_with = "or_default")]
    pub events: Vec<SpanEvent>,
    #[prost(uint32, tag = "12")]
    #[serde(deserialize_with = "or_default")]
    pub dropped_events_count: u32,
    #[prost(message, optional, tag = "15")]
    pub status: Option<SpanStatus>,
}

/// Something that happened meanwhile.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpanEvent {
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    #[serde(deserialize_with = "or_default")]
    pub dropped_attributes_count: u32,
}

/// How it ended.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpanStatus {
    /// 2 for an error.
    #[prost(int32, tag = "3")]
    #[serde(deserialize_with = "or_default")]
    pub code: i32,
}

/// A log record.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogRecord {
    #[prost(fixed64, tag = "1")]
    #[serde(deserialize_with = "number")]
    pub time_unix_nano: u64,
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    #[serde(deserialize_with = "or_default")]
    pub attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "7")]
    #[serde(deserialize_with = "or_default")]
    pub dropped_attributes_count: u32,
    #[prost(fixed64, tag = "11")]
    #[serde(deserialize_with = "number")]
    pub observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    #[serde(deserialize_with = "or_default")]
    pub event_name: String,
}

/// An attribute.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value of any type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    #[prost(oneof = "OtlpValue", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<OtlpValue>,
}

/// What it is.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum OtlpValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Flag(bool),
    #[prost(int64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Fraction(f64),
    #[prost(message, tag = "5")]
    List(ArrayValue),
    #[prost(message, tag = "6")]
    Object(KeyValueList),
    #[prost(bytes, tag = "7")]
    Bytes(Vec<u8>),
}

/// Several values.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<AnyValue>,
}

/// An object.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<KeyValue>,
}

/// JSON writes integers of 64 bits as texts, and fractions that are none; some writers do not. Null is what is not there.
struct TextNumber<N>(Option<N>);

impl<'de, N: std::str::FromStr> Deserialize<'de> for TextNumber<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum AttributeText<'a> {
            Text(#[serde(borrow)] Cow<'a, str>),
            Signed(i64),
            Unsigned(u64),
            Fraction(f64),
            Null,
        }
        let text = match AttributeText::deserialize(deserializer)? {
            AttributeText::Text(text) => text.into_owned(),
            AttributeText::Signed(number) => number.to_string(),
            AttributeText::Unsigned(number) => number.to_string(),
            AttributeText::Fraction(number) => number.to_string(),
            AttributeText::Null => return Ok(Self(None)),
        };
        let whole = || {
            WholeNumber::of_text(&text).0.ok().flatten().and_then(|number| number.to_string().parse().ok())
        };
        let number = text.parse().ok().or_else(whole);
        number.map(|number| Self(Some(number))).ok_or_else(|| D::Error::custom("no number of this field"))
    }
}

fn number<'de, D: Deserializer<'de>, N: std::str::FromStr + Default>(deserializer: D) -> Result<N, D::Error> {
    Ok(TextNumber::deserialize(deserializer)?.0.unwrap_or_default())
}

/// A value of JSON is an object of one field, whose name tells the type. One of another type is broken: left out, the
/// attribute would be missing without a word.
impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OneOf)
    }
}

struct OneOf;

impl<'de> Visitor<'de> for OneOf {
    type Value = AnyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a value's type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AnyValue, A::Error> {
        let mut value = None;
        while let Some(Key(kind)) = map.next_key()? {
            let read = match &*kind {
                "stringValue" => map.next_value::<Option<String>>()?.map(OtlpValue::Text),
                "boolValue" => map.next_value::<Option<bool>>()?.map(OtlpValue::Flag),
                "intValue" => map.next_value::<TextNumber<i64>>()?.0.map(OtlpValue::Whole),
                "doubleValue" => map.next_value::<TextNumber<f64>>()?.0.map(OtlpValue::Fraction),
                "arrayValue" => map.next_value::<Option<ArrayValue>>()?.map(OtlpValue::List),
                "kvlistValue" => map.next_value::<Option<KeyValueList>>()?.map(OtlpValue::Object),
                "bytesValue" => map.next_value::<Option<IgnoredAny>>()?.map(|_| OtlpValue::Bytes(Vec::new())),
                _ => map.next_value::<IgnoredAny>().map(|_| None)?,
            };
            value = read.or(value);
        }
        Ok(AnyValue { value })
    }
}

/// In JSON, null stands for a field that is not there.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl AnyValue {
    /// The text, where it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Some(OtlpValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The value as templates take it: a text, a number or a flag.
    pub fn scalar(&self) -> Option<String> {
        match &self.value {
            Some(OtlpValue::Text(text)) => Some(text.clone()),
            Some(OtlpValue::Flag(flag)) => Some(flag.to_string()),
            Some(OtlpValue::Whole(number)) => Some(number.to_string()),
            Some(OtlpValue::Fraction(number)) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The value as JSON, its fields in their order; a text that holds a list or an object is taken for it.
    pub fn json(&self) -> String {
        match &self.value {
            Some(OtlpValue::Text(text)) if text.trim_start().starts_with(['[', '{']) => text.clone(),
            _ => {
                let mut out = String::new();
                self.write(&mut out);
                out
            }
        }
    }

    fn write(&self, out: &mut String) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match &self.value {
            Some(OtlpValue::Text(text)) => *out += &quoted(text),
            Some(OtlpValue::Flag(flag)) => *out += &flag.to_string(),
            Some(OtlpValue::Whole(number)) => *out += &number.to_string(),
            Some(OtlpValue::Fraction(number)) => *out += &serde_json::Value::from(*number).to_string(),
            Some(OtlpValue::List(array)) => list(out, "[]", &array.values, |out, value| value.write(out)),
            Some(OtlpValue::Object(object)) => list(out, "{}", &object.values, |out, field| {
                *out += &quoted(&field.key);
                out.push(':');
                match &field.value {
                    Some(value) => value.write(out),
                    None => *out += "null",
                }
            }),
            Some(OtlpValue::Bytes(_)) | None => *out += "null",
        }
    }
}

fn list<T>(out: &mut String, brackets: &str, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    let (open, close) = brackets.split_at(1);
    *out += open;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    *out += close;
}

/// An id of a span, as it is written.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text: Option<Cow<'de, str>> = Option::deserialize(deserializer)?;
    Ok(text.unwrap_or_default().as_bytes().to_vec())
}
