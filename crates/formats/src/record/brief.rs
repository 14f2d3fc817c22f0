//! A record without its long lists of numbers: nearly all bytes of one that lists pages or tokens, and no word is
//! among them.

use memchr::memchr;

/// The shortest list that is left out, in bytes.
const LONG: usize = 256;

/// The record, or in `buffer` what is left of it. What is left is for looking for words, and may be no JSON.
pub(crate) fn without_numbers<'a>(record: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = memchr(b'[', &record[at..]) {
        at += next + 1;
        let numbers = numbers(&record[at..]);
        if numbers >= LONG {
            buffer.extend_from_slice(&record[copied..at]);
            copied = at + numbers;
        }
        at += numbers;
    }
    if copied == 0 {
        return record;
    }
    buffer.extend_from_slice(&record[copied..]);
    buffer
}

/// Bytes up to the end of the list that begins there, if it begins with a number and holds no text.
fn numbers(rest: &[u8]) -> usize {
    let first = rest.iter().find(|byte| !byte.is_ascii_whitespace());
    if !first.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-') {
        return 0;
    }
    memchr(b']', rest).filter(|end| memchr(b'"', &rest[..*end]).is_none()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(record: &str) -> String {
        String::from_utf8_lossy(without_numbers(record.as_bytes(), &mut Vec::new())).into_owned()
    }

    #[test]
    fn long_lists_of_numbers_are_left_out_and_no_word() {
        let ids = (1..200).map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
        let record = format!(r#"{{"a": [{ids}], "request_id": "x", "b": [[ -{ids} ], [1]], "c": [1, 2]}}"#);
        assert_eq!(brief(&record), r#"{"a": [], "request_id": "x", "b": [[], [1]], "c": [1, 2]}"#);
        let text = format!(r#"{{"prompt": "see [1, {}", "rid": 7, "d": [3]}}"#, "and so on ".repeat(60));
        assert_eq!(brief(&text), text);
        assert_eq!((brief("[1"), brief("["), brief("")), ("[1".to_owned(), "[".to_owned(), String::new()));
    }
}
