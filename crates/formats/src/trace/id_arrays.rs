//! Page ids taken out of a line before the rest of its JSON is read.
//!
//! Nearly all bytes of a line are ids in plain digits. A loop that knows nothing else takes them many times faster than
//! a parser that asks of each what kind of value it is, and leaves it a line a hundred times shorter. Whatever is not
//! as plain leaves the line to that parser alone, which then says what is wrong, and where.

use crate::codec::integers::{leading_array, rest_of_array};
use memchr::memchr2;
use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use std::fmt;
use std::ops::Range;

/// The field whose arrays are taken out.
pub(super) const FIELD: &str = "hash_ids";

/// A line without its ids, kept for its memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Shortened {
    /// The line with `[[N]]` in place of the array with number N. No line has that there itself, for an array of
    /// arrays is not taken out, nor is any of a line with such a one.
    pub json: Vec<u8>,
    /// Where the ids of each array lie in the buffer they were appended to.
    pub arrays: Vec<Range<usize>>,
}

impl Shortened {
    /// Takes the arrays of ids out of a line and appends their ids to `ids`; false where that cannot be done, and some
    /// may have been appended all the same.
    ///
    /// A line with an escape anywhere else is left alone: so a quotation mark always opens or closes a string, and the
    /// field has one spelling. What is taken out is then one value of a sound line, or the line stays as unsound as it
    /// was.
    pub fn take(&mut self, line: &[u8], ids: &mut Vec<u64>) -> bool {
        self.json.clear();
        self.arrays.clear();
        let (mut copied, mut at, mut before) = (0, 0, Array::default());
        while let Some(next) = memchr2(b'[', b'\\', &line[at..]) {
            at += next;
            if line[at] == b'\\' {
                return false;
            }
            if !names_ids(&line[copied..at]) {
                at += 1;
                continue;
            }
            let Some(array) = read_ids(line, at, &before, ids) else { return false };
            self.json.extend_from_slice(&line[copied..at]);
            self.json.extend_from_slice(format!("[[{}]]", self.arrays.len()).as_bytes());
            self.arrays.push(array.ids.clone());
            (copied, at) = (array.text.end, array.text.end);
            before = array;
        }
        self.json.extend_from_slice(&line[copied..]);
        true
    }
}

/// Whether what stands before a value says that it is the field's.
fn names_ids(before: &[u8]) -> bool {
    let name = |text: &[u8]| -> Option<bool> {
        let text = text.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        let text = text.strip_suffix(b"\"")?.strip_suffix(FIELD.as_bytes())?;
        Some(text.ends_with(b"\""))
    };
    name(before).unwrap_or(false)
}

/// An array of a line.
#[derive(Debug, Default)]
struct Array {
    /// Its text, brackets included.
    text: Range<usize>,
    /// Where its ids lie in the buffer.
    ids: Range<usize>,
}

/// Reads the array of ids that begins at `begin`; `None` where it holds anything but whole numbers below 2^64 without
/// leading zeros. A request repeats most of the one before it in its session: what has the text of the array `before`,
/// whose ids are the last in the buffer, has its ids, too; where it goes on behind all of them, they are there once.
fn read_ids(line: &[u8], begin: usize, before: &Array, ids: &mut Vec<u64>) -> Option<Array> {
    let (text_before, text) = (&line[before.text.clone()], &line[begin..]);
    let same = same_text(text_before, text);
    if same == text_before && !same.is_empty() {
        return Some(Array { text: begin..begin + same.len(), ids: before.ids.clone() });
    }
    let push = |ids: &mut Vec<u64>, id| {
        ids.push(id);
        true
    };
    let goes_on =
        !before.ids.is_empty() && same.len() + 1 == text_before.len() && text[same.len()..].starts_with(b",");
    let (first, behind) = if goes_on {
        (before.ids.start, rest_of_array(&text[same.len() + 1..], |id| push(ids, id))?)
    } else {
        // Up to a comma both hold whole numbers.
        let first = ids.len();
        let behind = match same.iter().rposition(|byte| *byte == b',') {
            None => leading_array(text, |id| push(ids, id))?,
            Some(comma) => {
                ids.extend_from_within(before.ids.start..before.ids.start + commas(&same[..=comma]));
                rest_of_array(&text[comma + 1..], |id| push(ids, id))?
            }
        };
        (first, behind)
    };
    Some(Array { text: begin..line.len() - behind.len(), ids: first..ids.len() })
}

fn commas(text: &[u8]) -> usize {
    // So many that a byte counts them: the processor adds up many bytes at once.
    let few = |text: &[u8]| text.iter().map(|byte| u8::from(*byte == b',')).sum::<u8>();
    text.chunks(128).map(|chunk| usize::from(few(chunk))).sum()
}

/// What both texts begin with.
fn same_text<'a>(one: &[u8], other: &'a [u8]) -> &'a [u8] {
    let length = one.len().min(other.len());
    let (one, other) = (&one[..length], &other[..length]);
    let mut same = 0;
    // Long blocks are compared fastest.
    for block in [1 << 12, 1 << 6, 1] {
        let pairs = one[same..].chunks_exact(block).zip(other[same..].chunks_exact(block));
        same += block * pairs.take_while(|(one, other)| one == other).count();
    }
    &other[..same]
}

/// What stands for an array that was taken out; gives the range of its ids.
pub(super) struct ArrayPlaceholder<'a>(pub &'a [Range<usize>]);

impl<'de> DeserializeSeed<'de> for ArrayPlaceholder<'_> {
    type Value = Range<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Range<usize>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ArrayPlaceholder<'_> {
    type Value = Range<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array that was taken out")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Range<usize>, A::Error> {
        let number = array.next_element::<[usize; 1]>()?;
        let ids = number.and_then(|[number]| self.0.get(number));
        ids.cloned().ok_or_else(|| de::Error::custom("none was"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Session {
        requests: Vec<Request>,
    }

    #[derive(Deserialize)]
    struct Request {
        hash_ids: Vec<u64>,
    }

    /// The same with the arrays taken out.
    #[derive(Deserialize)]
    struct Shape {
        #[serde(rename = "requests")]
        _requests: Vec<ShortRequest>,
    }

    #[derive(Deserialize)]
    struct ShortRequest {
        #[serde(rename = "hash_ids")]
        _hash_ids: [[usize; 1]; 1],
    }

    fn taken(line: &str) -> Option<(String, Vec<Vec<u64>>)> {
        let (mut shortened, mut ids) = (Shortened::default(), vec![7]);
        shortened.take(line.as_bytes(), &mut ids).then(|| {
            let arrays = shortened.arrays.iter().map(|range| ids[range.clone()].to_vec()).collect();
            (String::from_utf8(shortened.json).expect("text"), arrays)
        })
    }

    #[test]
    fn arrays_of_ids_are_taken_out_and_others_stay() {
        let line = r#"{"a":[1],"hash_ids":[1,20,18446744073709551615],"b":[{"hash_ids" : [ 0 , 7 ]},{"hash_ids":[]}],"c":"hash_ids"}"#;
        let short =
            r#"{"a":[1],"hash_ids":[[0]],"b":[{"hash_ids" : [[1]]},{"hash_ids":[[2]]}],"c":"hash_ids"}"#;
        let ids = vec![vec![1, 20, u64::MAX], vec![0, 7], vec![]];
        assert_eq!(taken(line), Some((short.to_owned(), ids)));
        assert_eq!(taken(r#"{"my_hash_ids":[1]}"#), Some((r#"{"my_hash_ids":[1]}"#.to_owned(), vec![])));
    }

    proptest! {
        /// Requests of a session, of which each repeats a part of the one before it; one may be broken.
        #[test]
        fn an_array_that_begins_as_the_one_before_has_its_ids(
            requests in prop::collection::vec((any::<prop::sample::Index>(), 0usize..60, 0u32..64), 1..6),
            separator in prop::sample::select(vec![",", ", ", " ,"]),
            damage in prop::option::weighted(0.4, (any::<prop::sample::Index>(), prop::sample::select(vec![",", "0", "]", " ", "x"]))),
        ) {
            let (mut ids, mut line) = (Vec::new(), "{\"requests\":[".to_owned());
            for (number, (kept, more, shift)) in requests.into_iter().enumerate() {
                ids.truncate(kept.index(ids.len() + 1));
                ids.extend((0..more as u64).map(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift));
                let texts: Vec<String> = ids.iter().map(u64::to_string).collect();
                let comma = if number > 0 { "," } else { "" };
                line.push_str(&format!("{comma}{{\"hash_ids\":[{}]}}", texts.join(separator)));
            }
            line.push_str("]}");
            if let Some((at, text)) = damage {
                line.insert_str(at.index(line.len()), text);
            }
            let expected = serde_json::from_str::<Session>(&line);
            match (taken(&line), expected) {
                (Some((_, ids)), Ok(session)) => {
                    let expected: Vec<Vec<u64>> = session.requests.into_iter().map(|request| request.hash_ids).collect();
                    prop_assert_eq!(ids, expected, "{}", line);
                }
                (Some((json, _)), Err(_)) => prop_assert!(serde_json::from_str::<Shape>(&json).is_err(), "{}", line),
                (None, Ok(_)) => prop_assert!(false, "plain, and not taken: {}", line),
                (None, Err(_)) => {}
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_left_alone() {
        for ids in [
            "01",
            "-1",
            "1.0",
            "1e3",
            "18446744073709551616",
            "100000000000000000000",
            "[0]",
            "1,",
            ",1",
            "1 2",
            "null",
            "1",
        ] {
            let end = if ids == "1" { "" } else { "]" };
            assert_eq!(taken(&format!(r#"{{"hash_ids":[{ids}{end}"#)), None, "{ids}");
        }
        assert_eq!(taken(r#"{"a":"\n","hash_ids":[1]}"#), None, "an escape");
    }
}
