//! Page ids taken out of a line before the rest of its JSON is read.
//!
//! Nearly all bytes of a line are ids in plain digits. A loop that knows nothing else takes them many times faster than
//! a parser that asks of each what kind of value it is, and leaves it a line a hundred times shorter. Whatever is not
//! as plain leaves the line to that parser alone, which then says what is wrong, and where.

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
        let (mut copied, mut at) = (0, 0);
        while let Some(next) = line[at..].iter().position(|byte| matches!(byte, b'[' | b'\\')) {
            at += next;
            if line[at] == b'\\' {
                return false;
            }
            at += 1;
            if !names_ids(&line[copied..at - 1]) {
                continue;
            }
            let begin = ids.len();
            let Some(end) = read_ids(line, at, ids) else { return false };
            self.json.extend_from_slice(&line[copied..at - 1]);
            self.json.extend_from_slice(format!("[[{}]]", self.arrays.len()).as_bytes());
            self.arrays.push(begin..ids.len());
            (copied, at) = (end, end);
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

/// Reads the ids of an array from behind its opening bracket on; returns where the array ends. `None` where it holds
/// anything but whole numbers below 2^64 without leading zeros.
fn read_ids(line: &[u8], begin: usize, ids: &mut Vec<u64>) -> Option<usize> {
    let mut at = skip_blanks(line, begin);
    if line.get(at) == Some(&b']') {
        return Some(at + 1);
    }
    loop {
        let (id, end) = read_id(line, at)?;
        ids.push(id);
        at = skip_blanks(line, end);
        match line.get(at) {
            Some(b',') => at = skip_blanks(line, at + 1),
            Some(b']') => return Some(at + 1),
            _ => return None,
        }
    }
}

#[inline]
fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Reads a whole number; returns where it ends.
#[inline]
fn read_id(line: &[u8], begin: usize) -> Option<(u64, usize)> {
    /// So many digits fit into 64 bits, whichever they are.
    const SAFE_DIGITS: usize = 19;
    let digit = |at: usize| line.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10);
    let (mut id, mut at) = (0_u64, begin);
    while let Some(next) = digit(at) {
        id = match at - begin < SAFE_DIGITS {
            true => id * 10 + u64::from(next),
            false => id.checked_mul(10)?.checked_add(u64::from(next))?,
        };
        at += 1;
    }
    let is_plain = at > begin && (line[begin] != b'0' || at == begin + 1);
    is_plain.then_some((id, at))
}

/// What stands for an array that was taken out; gives the range of its ids.
pub(super) struct Taken<'a>(pub &'a [Range<usize>]);

impl<'de> DeserializeSeed<'de> for Taken<'_> {
    type Value = Range<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Range<usize>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Taken<'_> {
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
