//! OTLP's messages, as far as they tell of requests to models: open-telemetry/opentelemetry-proto, `trace.proto`,
//! `logs.proto` and `common.proto` of v1. The same types are read from protobuf and from JSON; what they leave out is
//! passed over.

use crate::record::json::{Fields, Object};
use crate::record::numbers::WholeNumber;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Debug;
use std::str::FromStr;

/// What the collector's exporters write: spans, or log records.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Exported<T: prost::Message + Default + Debug> {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<ExportedProcess<T>>,
}

/// Those of one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportedProcess<T: prost::Message + Default + Debug> {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scopes: Vec<ExportedScope<T>>,
}

/// Those of one library.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportedScope<T: prost::Message + Default + Debug> {
    #[prost(message, repeated, tag = "2")]
    pub items: Vec<T>,
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
    List(ValueList<AnyValue>),
    #[prost(message, tag = "6")]
    Object(ValueList<KeyValue>),
    #[prost(bytes, tag = "7")]
    Bytes(Vec<u8>),
}

/// Several values, or the fields of an object.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "T: Deserialize<'de>"))]
pub struct ValueList<T: prost::Message + Default + Debug> {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<T>,
}

/// JSON writes integers of 64 bits as texts, and fractions that are none; some writers do not. Null is what is not
/// there.
fn text_number<N: FromStr, E: Error>(value: &Value) -> Result<Option<N>, E> {
    let text = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        Value::Number(number) => Cow::Owned(number.to_string()),
        Value::Null => return Ok(None),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => return Err(E::custom("no number")),
    };
    let whole =
        || WholeNumber::of_text(&text).0.ok().flatten().and_then(|number| number.to_string().parse().ok());
    let number = text.parse().ok().or_else(whole);
    number.map(Some).ok_or_else(|| E::custom("no number of this field"))
}

fn number<'de, D: Deserializer<'de>, N: FromStr + Default>(deserializer: D) -> Result<N, D::Error> {
    Ok(text_number(&Value::deserialize(deserializer)?)?.unwrap_or_default())
}

/// A value of JSON is an object of one field, whose name tells the type. One of another type is broken: left out, the
/// attribute would be missing without a word.
impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Self::default();
        deserializer.deserialize_map(Object(&mut value))?;
        Ok(value)
    }
}

impl<'de> Fields<'de> for AnyValue {
    fn field<A: MapAccess<'de>>(&mut self, kind: &str, map: &mut A) -> Result<(), A::Error> {
        let read = match kind {
            "stringValue" => map.next_value::<Option<String>>()?.map(OtlpValue::Text),
            "boolValue" => map.next_value::<Option<bool>>()?.map(OtlpValue::Flag),
            "intValue" => text_number(&map.next_value()?)?.map(OtlpValue::Whole),
            "doubleValue" => text_number(&map.next_value()?)?.map(OtlpValue::Fraction),
            "arrayValue" => map.next_value::<Option<ValueList<AnyValue>>>()?.map(OtlpValue::List),
            "kvlistValue" => map.next_value::<Option<ValueList<KeyValue>>>()?.map(OtlpValue::Object),
            "bytesValue" => map.next_value::<Option<IgnoredAny>>()?.map(|_| OtlpValue::Bytes(Vec::new())),
            _ => map.next_value::<IgnoredAny>().map(|_| None)?,
        };
        self.value = read.or(self.value.take());
        Ok(())
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
