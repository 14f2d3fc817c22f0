//! The text of a config as JSON, in the form that Python writes it.

use super::error::{ModelConfigError, ModelRead};
use super::fields::describe;
use serde_json::{Map, Value};

/// Words that Python writes for numbers JSON has none for. They stand where nothing is counted.
const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// Parses a config. `NaN` and `Infinity`, which Python writes and JSON forbids, are read as texts, so that a field
/// that should hold a count names them.
pub(super) fn parse(text: &str) -> ModelRead<Map<String, Value>> {
    let parsed = serde_json::from_str(text).or_else(|error| match quoted(text) {
        Some(text) => serde_json::from_str(&text).map_err(|_| error),
        None => Err(error),
    });
    match parsed {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => Err(ModelConfigError::NotAnObject { reason: format!("it is {}", describe(&other)) }),
        Err(error) => Err(ModelConfigError::NotAnObject { reason: error.to_string() }),
    }
}

/// The text with Python's words for numbers in quotes; `None` if there are none outside of texts.
fn quoted(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + 64);
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        let (before, here) = rest.split_at(at);
        quoted.push_str(before);
        let taken = if here.starts_with('"') {
            text_length(here)
        } else if let Some(word) = NUMBERS.iter().find(|word| here.starts_with(**word)) {
            found = true;
            quoted.extend(["\"", word, "\""]);
            rest = &here[word.len()..];
            continue;
        } else {
            1
        };
        quoted.push_str(&here[..taken]);
        rest = &here[taken..];
    }
    quoted.push_str(rest);
    found.then_some(quoted)
}

/// Bytes of the JSON text that begins here, its quotes too.
fn text_length(here: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in here.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    here.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_of_python_are_read_outside_of_texts_only() {
        let text = r#"{"a": [NaN, -Infinity, Infinity], "b": "NaN \" Infinity", "c": -1, "NaN": 2}"#;
        let fields = Value::Object(parse(text).expect("read"));
        let expected =
            json!({"a": ["NaN", "-Infinity", "Infinity"], "b": "NaN \" Infinity", "c": -1, "NaN": 2});
        assert_eq!(fields, expected);
    }

    #[test]
    fn what_is_no_json_is_refused_with_the_place_in_the_text_itself() {
        for text in ["{\"a\": NaN", "{\"a\": Nan}", "[NaN]", "\"NaN\"", "{\"a\": \"open NaN"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("{\"a\": NaN,\n \"b\": ?}").expect_err("no JSON").to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
