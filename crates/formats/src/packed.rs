//! JSON in a text, wherever a log keeps a body: as it stands, as Python writes it, in base64, in gzip in base64, or as
//! a list of its bytes.

use crate::almost_json;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read as _;

/// How base64 begins of what begins with `{"`, `{ `, a brace and a line's end, `[{` and `["`, and of gzip.
const BASE64: [&str; 7] = ["eyJ", "eyA", "ewo", "ew0K", "W3s", "WyJ", GZIP];
const GZIP: &str = "H4sI";
/// The longest that gzip is unpacked to, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The JSON that a text is or holds; else the text as it is.
pub(crate) fn json_in(text: Cow<'_, str>) -> Cow<'_, str> {
    let start = text.trim_start();
    if BASE64.iter().any(|head| start.starts_with(head)) {
        return from_base64(start.trim_end()).map_or(text, Cow::Owned);
    }
    if !start.starts_with(['{', '[', '\u{feff}']) {
        return text;
    }
    match almost_json::as_json(text.as_bytes()).and_then(|json| String::from_utf8(json).ok()) {
        Some(json) => Cow::Owned(json),
        None => text,
    }
}

/// The text that a list of bytes is, where an object stands in it: so journald writes a text with a control character,
/// as colours are.
pub(crate) fn text_of_bytes(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| text.contains("{\""))
}

/// The same of a list as JSON.
pub(crate) fn text_of_list(json: &str) -> Option<String> {
    json.starts_with('[').then(|| serde_json::from_str(json).ok()).flatten().and_then(text_of_bytes)
}

fn from_base64(text: &str) -> Option<String> {
    let digits = text.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(digits).or_else(|_| URL_SAFE_NO_PAD.decode(digits)).ok()?;
    if !text.starts_with(GZIP) {
        return String::from_utf8(bytes).ok();
    }
    let mut unpacked = String::new();
    MultiGzDecoder::new(bytes.as_slice()).take(MAX_BYTES).read_to_string(&mut unpacked).ok()?;
    Some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    #[test]
    fn json_is_found_in_base64_and_gzip_and_texts_stay_as_they_are() {
        let json = r#"{"messages": [{"role": "user", "content": "hello"}]}"#;
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(json.as_bytes()).expect("memory");
        let packed = STANDARD.encode(packed.finish().expect("memory"));
        for text in [json.to_owned(), STANDARD.encode(json), URL_SAFE_NO_PAD.encode(json), packed] {
            assert_eq!(json_in(Cow::Owned(text)), json);
        }
        assert_eq!(text_of_bytes(json.as_bytes().to_vec()).as_deref(), Some(json));
        assert_eq!(text_of_bytes(vec![101, 102, 103]), None, "token ids");
        for text in ["hello", "eyJ is how it begins", "H4sI", ""] {
            assert_eq!(json_in(Cow::Borrowed(text)), text);
        }
    }
}
