//! The fields of a row by digests of their paths, with no tree of values made of it: many times faster than a parser,
//! for all that has to be known is whether a field was seen before.

use memchr::{memchr, memchr2};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Levels that are looked into.
const MAX_DEPTH: usize = 24;
/// The longest value that is shown as itself.
const MAX_VALUE: usize = 24;
/// Texts that are JSON within one another.
const MAX_PACKED: u8 = 3;

/// Where in a row a scan is.
struct Scan<'r, 's> {
    row: &'r [u8],
    at: usize,
    /// The paths of what is open.
    open: Vec<u64>,
    /// The member whose value comes next.
    member: Option<u64>,
    packed: u8,
    see: &'s mut dyn FnMut(u64, &[u8]),
}

/// Shows the path of every value that holds no others, with the value where it is short. What is no JSON shows what
/// looks like it.
pub(super) fn scan(row: &[u8], see: &mut dyn FnMut(u64, &[u8])) {
    scan_within(row, 0, 0, see);
}

fn scan_within(row: &[u8], path: u64, packed: u8, see: &mut dyn FnMut(u64, &[u8])) {
    Scan { row, at: 0, open: vec![path], member: None, packed, see }.run();
}

impl Scan<'_, '_> {
    fn run(&mut self) {
        while let Some(byte) = self.row.get(self.at) {
            match byte {
                b'"' => self.string(),
                b'{' => self.begin(),
                b'[' => self.list(),
                b'}' | b']' => {
                    self.at += 1;
                    self.member = None;
                    if self.open.len() > 1 {
                        self.open.pop();
                    }
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                _ => self.literal(),
            }
        }
    }

    /// The path of the value at hand.
    fn path(&mut self) -> u64 {
        let around = self.open.last().copied().unwrap_or_default();
        self.member.take().unwrap_or(around)
    }

    fn begin(&mut self) {
        self.at += 1;
        let path = self.path();
        if self.open.len() > MAX_DEPTH {
            self.at = self.row.len();
        }
        self.open.push(path);
    }

    /// A list; one of numbers is passed over.
    fn list(&mut self) {
        self.begin();
        let rest = &self.row[self.at..];
        let first = rest.iter().position(|byte| !byte.is_ascii_whitespace());
        if first.is_some_and(|first| rest[first].is_ascii_digit() || rest[first] == b'-')
            && let Some(end) = memchr(b']', rest)
        {
            let path = self.path();
            (self.see)(path, b"[");
            self.at += end;
        }
    }

    /// A name, or a text.
    fn string(&mut self) {
        let row = self.row;
        let begin = self.at + 1;
        let end = end_of_string(row, begin);
        // What breaks off has no more fields.
        let Some(text) = row.get(begin..end).filter(|_| end < row.len()) else {
            self.at = row.len();
            return;
        };
        self.at = end + 1;
        let behind = row[self.at..].iter().find(|byte| !byte.is_ascii_whitespace());
        if behind == Some(&b':') {
            let around = self.open.last().copied().unwrap_or_default();
            self.member = Some(xxh3_64_with_seed(text, around));
            return;
        }
        let is_key = self.member == self.open.last().map(|around| xxh3_64_with_seed(b"key", *around));
        let path = self.path();
        if is_key && let Some(around) = self.open.last_mut() {
            // The name of an attribute, whose value stands beside it.
            *around = xxh3_64_with_seed(text, *around);
            (self.see)(*around, b"");
        } else if self.packed < MAX_PACKED && (text.starts_with(b"{\\\"") || text.starts_with(b"[{\\\"")) {
            let packed = serde_json::from_slice::<String>(&row[begin - 1..=end]).unwrap_or_default();
            scan_within(packed.as_bytes(), path, self.packed + 1, self.see);
        } else {
            (self.see)(path, if text.len() <= MAX_VALUE { text } else { b"\"" });
        }
    }

    /// A number, a truth or nothing.
    fn literal(&mut self) {
        let rest = &self.row[self.at..];
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b'"' | b':'));
        let length = end.unwrap_or(rest.len()).max(1);
        let path = self.path();
        (self.see)(path, &rest[..length.min(MAX_VALUE)]);
        self.at += length;
    }
}

/// Where the string ends whose text begins there: at its quotation mark, or where no more of it is sought.
fn end_of_string(text: &[u8], begin: usize) -> usize {
    let mut end = begin;
    while let Some(next) = memchr2(b'"', b'\\', text.get(end..).unwrap_or_default()) {
        end += next;
        if text[end] == b'"' {
            break;
        }
        end += 2;
    }
    end
}

/// A digest of a value at a path.
pub(super) fn digest(path: u64, value: &[u8]) -> u64 {
    if value.is_empty() { xxh3_64(&path.to_le_bytes()) } else { xxh3_64_with_seed(value, path) }
}

/// The items of a list of objects, each by itself; nothing where a text begins with none.
pub(super) fn items(list: &[u8]) -> Option<Vec<&[u8]>> {
    let list = list.trim_ascii_start().strip_prefix(b"[")?;
    if !list.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let (mut items, mut depth, mut begin, mut at) = (Vec::new(), 0usize, 0, 0);
    while let Some(byte) = list.get(at) {
        match byte {
            b'"' => at = end_of_string(list, at + 1),
            b'{' | b'[' => {
                begin = if depth == 0 { at } else { begin };
                depth += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                items.extend((depth == 0).then(|| &list[begin..=at]));
            }
            b'}' | b']' => break,
            _ => {}
        }
        at += 1;
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn paths(row: &str) -> HashSet<u64> {
        let mut paths = HashSet::new();
        scan(row.as_bytes(), &mut |path, _| {
            paths.insert(path);
        });
        paths
    }

    #[test]
    fn a_field_has_one_path_wherever_its_row_has_it() {
        let row = paths(r#"{"a": {"b": [1, 2], "c": "x"}, "d": [{"e": null}, {"e": true}]}"#);
        assert_eq!(row.len(), 3);
        assert_eq!(row, paths(r#"{"d":[{"e":"\"}"}],"a":{"c":"y","b":[-3]}}"#));
        assert_eq!(paths(r#"{"a":{"b":1}}"#).difference(&paths(r#"{"b":{"a":1}}"#)).count(), 1);
        for broken in ["", "{", "{\"a", "{\"a\":", "}}]", "no JSON", "{\"a\\", "\"", "{\"a\":\"\\"] {
            paths(broken);
        }
    }

    #[test]
    fn attributes_and_packed_texts_have_paths_of_their_own() {
        let attribute =
            |name: &str| paths(&format!(r#"{{"attributes":[{{"key":"{name}","value":{{"s":"x"}}}}]}}"#));
        assert_eq!(attribute("a"), attribute("a"));
        assert!(attribute("a").is_disjoint(&attribute("b")));
        let packed = |json: &str| paths(&serde_json::json!({"body": json}).to_string());
        assert_eq!(packed(r#"{"a": 1}"#), packed(r#"{"a": 2}"#));
        assert!(packed(r#"{"a": 1}"#).is_disjoint(&packed(r#"{"b": 1}"#)));
    }

    #[test]
    fn values_are_shown_where_they_are_short() {
        let mut values = Vec::new();
        let row = format!(r#"{{"a": true, "b": 7, "c": "x", "d": "{}"}}"#, "y".repeat(40));
        scan(row.as_bytes(), &mut |_, value| values.push(String::from_utf8_lossy(value).into_owned()));
        assert_eq!(values, ["true", "7", "x", "\""]);
    }

    #[test]
    fn a_list_of_rows_has_each_by_itself() {
        let list = br#" [ {"a": "]}\""}, {"b": [1, {}]} , {}]"#;
        let expected = [&br#"{"a": "]}\""}"#[..], br#"{"b": [1, {}]}"#, b"{}"];
        assert_eq!(items(list).expect("a list"), expected);
        assert_eq!(items(b"[1, 2]"), None);
        assert_eq!(items(b"{}"), None);
        assert_eq!(items(b"[{\"a\": \"").expect("a list"), [&b""[..]; 0]);
    }
}
