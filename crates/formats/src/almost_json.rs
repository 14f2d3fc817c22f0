//! What is JSON but for the habits of who wrote it: with `NaN`, `Infinity` and `-Infinity` as Python's `json` writes
//! them; with `True`, `False` and `None`, as who puts double quotes into a printed dict makes it; with the half of a
//! character, as JavaScript and Python write a text that was cut within one (`\ud83d` alone); behind a byte order
//! mark in the middle of a file, as joined files have it; with numbers as MongoDB's extended JSON has them
//! (`{"$numberInt": "5"}`); with NUL bytes around it, as a disk that lost its power leaves them; with the comma behind
//! it that it had in a list, or behind its own last item; with the separator in front of it that JSON text sequences
//! have.
//!
//! Rows with such a thing fail to parse; only then are they looked through, so that sound rows cost nothing.

use memchr::memmem;

const NAN: &[u8] = b"NaN";
const INFINITY: &[u8] = b"Infinity";
const TRUE: &[u8] = b"True";
const FALSE: &[u8] = b"False";
const NONE: &[u8] = b"None";
/// What every half of a character written as an escape has.
const HALVES: [&[u8]; 2] = [b"\\ud", b"\\uD"];
/// How MongoDB's numbers begin.
const MONGO: &[u8] = b"\"$number";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What stands for a half of a character.
const REPLACED: &[u8] = b"\\ufffd";

/// The text with `NaN` and `None` as null, truth values as JSON's, infinities as texts and halves of characters as
/// U+FFFD, without what stands around it, where there is any of these. So a field that nobody needs says nothing, one
/// that must not be missing is missing, and a count that is infinite is refused as a text.
pub fn as_json(text: &[u8]) -> Option<Vec<u8>> {
    let bare = without_edges(text);
    if let Some(at) = last_comma(bare) {
        let whole = [&bare[..at], &bare[at + 1..]].concat();
        return Some(as_json(&whole).unwrap_or(whole));
    }
    let words = [NAN, INFINITY, TRUE, FALSE, NONE, MONGO].into_iter().chain(HALVES);
    if words.into_iter().all(|word| memmem::find(bare, word).is_none()) {
        return (bare.len() < text.len()).then(|| bare.to_vec());
    }
    let (mut json, mut is_quoted, mut at, mut copied) = (Vec::new(), false, 0, 0);
    while let Some(byte) = bare.get(at) {
        let rest = &bare[at..];
        let (length, instead): (_, &[u8]) = match byte {
            b'"' => {
                is_quoted = !is_quoted;
                (1, &[])
            }
            b'\\' => escape(rest),
            _ if is_quoted => (1, &[]),
            b'{' => match mongo_number(rest) {
                Some((length, number)) => (length, number),
                None => (1, &[]),
            },
            b'N' if rest.starts_with(NAN) => (NAN.len(), b"null"),
            b'N' if rest.starts_with(NONE) => (NONE.len(), b"null"),
            b'T' if rest.starts_with(TRUE) => (TRUE.len(), b"true"),
            b'F' if rest.starts_with(FALSE) => (FALSE.len(), b"false"),
            b'I' if rest.starts_with(INFINITY) => (INFINITY.len(), b"\"Infinity\""),
            b'-' if rest[1..].starts_with(INFINITY) => (1 + INFINITY.len(), b"\"-Infinity\""),
            _ => (1, &[]),
        };
        if !instead.is_empty() {
            json.extend_from_slice(&bare[copied..at]);
            json.extend_from_slice(instead);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 && bare.len() == text.len() {
        return None;
    }
    json.extend_from_slice(&bare[copied..]);
    Some(json)
}

/// How long a number of MongoDB's is, and the number.
fn mongo_number(rest: &[u8]) -> Option<(usize, &[u8])> {
    let after = |text: &'_ [u8], byte| text.trim_ascii_start().strip_prefix(&[byte]).map(|rest| rest.len());
    let from = |left: usize| &rest[rest.len() - left..];
    let name = from(after(rest, b'{')?).trim_ascii_start().strip_prefix(MONGO)?;
    let name_end = name.iter().position(|byte| *byte == b'"')?;
    let value = from(after(from(after(&name[name_end + 1..], b':')?), b'"')?);
    let digits = value.iter().position(|byte| *byte == b'"')?;
    let is_number = value[..digits].iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    let left = after(&value[digits + 1..], b'}')?;
    (is_number && digits > 0).then(|| (rest.len() - left, &value[..digits]))
}

/// Where the comma is that stands in front of the bracket which ends a list or an object, as those leave it who write an
/// item a line.
fn last_comma(text: &[u8]) -> Option<usize> {
    let inner =
        text.trim_ascii_end().strip_suffix(b"]").or_else(|| text.trim_ascii_end().strip_suffix(b"}"))?;
    without_comma(inner.trim_ascii_end()).map(<[u8]>::len)
}

/// The text without the one comma behind it: between two of them something was lost.
fn without_comma(text: &[u8]) -> Option<&[u8]> {
    text.strip_suffix(b",").filter(|rest| !rest.trim_ascii_end().ends_with(b","))
}

fn without_edges(text: &[u8]) -> &[u8] {
    let mut bare = text;
    loop {
        let is_of_edge = |byte: &&u8| matches!(byte, 0 | 0x1e);
        let start = match bare.first().filter(is_of_edge) {
            Some(_) => &bare[1..],
            None => bare.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bare),
        };
        let inner = start.strip_suffix(&[0]).or_else(|| without_comma(start)).unwrap_or(start);
        if inner.len() == bare.len() {
            break;
        }
        bare = inner;
    }
    // A schema's frame begins with NUL, too, and no JSON follows right behind.
    if matches!(bare.trim_ascii_start().first(), Some(b'{' | b'[')) { bare } else { text }
}

/// How long an escape is, and what stands for it where it is the half of a character.
fn escape(rest: &[u8]) -> (usize, &'static [u8]) {
    /// Bytes of `\u` and its four digits.
    const ONE: usize = 6;
    match (unit(rest), rest.get(ONE..).and_then(unit)) {
        (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (2 * ONE, &[]),
        (Some(0xd800..0xe000), _) => (ONE, REPLACED),
        _ => (2, &[]),
    }
}

/// The unit of UTF-16 that an escape writes.
fn unit(rest: &[u8]) -> Option<u16> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
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
        assert_eq!(read("\u{feff}{}\0\0").as_deref(), Some("{}"), "a mark in front and NULs behind");
        assert_eq!(read("\u{1e}{\"a\":1}").as_deref(), Some("{\"a\":1}"), "a text sequence");
        assert_eq!(read("{\"a\":1},").as_deref(), Some("{\"a\":1}"), "an item of a list");
        assert_eq!(read("\0\0\0\0\u{5}{}\0"), None, "a schema's frame");
        assert_eq!(
            read("[{\"a\":NaN} ,  ]").as_deref(),
            Some("[{\"a\":null}   ]"),
            "a list with a last comma"
        );
        for lost in ["{\"a\":1},,", "[{\"a\":1}, ,]", "{\"a\":[1,,]}"] {
            assert_eq!(read(lost), None, "an item was lost");
        }
        let mongo = r#"{"a":[{"$numberInt":"5"}, { "$numberLong" : "-7" }],"b":{"$numberInt":5}}"#;
        assert_eq!(read(mongo).as_deref(), Some(r#"{"a":[5, -7],"b":{"$numberInt":5}}"#));
        let halves = r#"{"a":"x\ud83d","b":"\ud83d\ude00 \uDE00 \\ud83d"}"#;
        let whole = r#"{"a":"x\ufffd","b":"\ud83d\ude00 \ufffd \\ud83d"}"#;
        assert_eq!(read(halves).as_deref(), Some(whole));
        for other in [r#"{"a":"NaN"}"#, r#"{"a":"\ud83d\ude00"}"#, "{}", r#"{"Infinity":1}"#, "\"NaN", "\\"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
