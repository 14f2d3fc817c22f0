//! JSON as Python's `json` writes it: with `NaN`, `Infinity` and `-Infinity`, which JSON does not have; and as who puts double
//! quotes into a printed dict makes it: with `True`, `False` and `None`.
//!
//! Rows with such a word fail to parse; only then are they looked through, so that sound rows cost nothing.

use memchr::memmem;

const NAN: &[u8] = b"NaN";
const INFINITY: &[u8] = b"Infinity";
const TRUE: &[u8] = b"True";
const FALSE: &[u8] = b"False";
const NONE: &[u8] = b"None";

/// The text with `NaN` and `None` as null, truth values as JSON's and infinities as texts, where it has any outside of its strings. So a field that nobody
/// needs says nothing, one that must not be missing is missing, and a count that is infinite is refused as a text.
pub fn as_json(text: &[u8]) -> Option<Vec<u8>> {
    [NAN, INFINITY, TRUE, FALSE, NONE].into_iter().find(|word| memmem::find(text, word).is_some())?;
    let (mut json, mut is_quoted, mut at, mut copied) = (Vec::new(), false, 0, 0);
    while let Some(byte) = text.get(at) {
        let rest = &text[at..];
        let (length, instead): (_, &[u8]) = match byte {
            b'"' => {
                is_quoted = !is_quoted;
                (1, &[])
            }
            b'\\' => (2, &[]),
            _ if is_quoted => (1, &[]),
            b'N' if rest.starts_with(NAN) => (NAN.len(), b"null"),
            b'N' if rest.starts_with(NONE) => (NONE.len(), b"null"),
            b'T' if rest.starts_with(TRUE) => (TRUE.len(), b"true"),
            b'F' if rest.starts_with(FALSE) => (FALSE.len(), b"false"),
            b'I' if rest.starts_with(INFINITY) => (INFINITY.len(), b"\"Infinity\""),
            b'-' if rest[1..].starts_with(INFINITY) => (1 + INFINITY.len(), b"\"-Infinity\""),
            _ => (1, &[]),
        };
        if !instead.is_empty() {
            json.extend_from_slice(&text[copied..at]);
            json.extend_from_slice(instead);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return None;
    }
    json.extend_from_slice(&text[copied..]);
    Some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        as_json(text.as_bytes()).map(|json| String::from_utf8(json).expect("text"))
    }

    #[test]
    fn words_are_replaced_outside_of_strings_only() {
        let text = r#"{"a":NaN,"b":[-Infinity, Infinity],"c":"NaN \" Infinity None","d":[True,False,None]}"#;
        let json =
            r#"{"a":null,"b":["-Infinity", "Infinity"],"c":"NaN \" Infinity None","d":[true,false,null]}"#;
        assert_eq!(read(text).as_deref(), Some(json));
        for other in [r#"{"a":"NaN"}"#, "{}", r#"{"Infinity":1}"#, "\"NaN", "\\"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
