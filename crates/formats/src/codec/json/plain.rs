//! A request event as most producers write it, its ids read at once.
//!
//! A general parser goes through a visitor for every id. This goes through the members of the object and reads
//! arrays of ids itself, the other values with the general parser. Whatever is not plain, errors among it, is left to
//! that: what is accepted here, that reads the same.

use super::super::avro::IdBuffers;
use super::super::integers::{leading_signed_array, skip_space};
use super::super::json_number::ValueSource;
use super::super::limits::DecodeLimits;
use super::{ReadFields, read_base64};
use serde::Deserialize;

/// Reads one object; nothing if it is not plain.
pub(super) fn read<'a>(
    text: &'a str,
    limits: &DecodeLimits,
    buffers: &mut IdBuffers,
) -> Option<ReadFields<'a>> {
    buffers.prompt.clear();
    buffers.output.clear();
    let mut rest = skip_space(text.as_bytes()).strip_prefix(b"{")?;
    let mut found = ReadFields::default();
    loop {
        let (name, behind) = plain_string(skip_space(rest))?;
        rest = skip_space(skip_space(behind).strip_prefix(b":")?);
        found.take(name, &mut PlainValues { rest: &mut rest, limits, buffers }).ok()?;
        rest = skip_space(rest);
        match rest.split_first()? {
            (b',', behind) => rest = behind,
            (b'}', behind) => return skip_space(behind).is_empty().then_some(found),
            _ => return None,
        }
    }
}

/// A string without escapes that the text begins with, and what follows it.
fn plain_string(text: &[u8]) -> Option<(&str, &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
    let behind = text[end..].strip_prefix(b"\"")?;
    Some((std::str::from_utf8(&text[..end]).ok()?, behind))
}

/// Takes the values that a text begins with off it.
struct PlainValues<'r, 'a> {
    rest: &'r mut &'a [u8],
    limits: &'r DecodeLimits,
    buffers: &'r mut IdBuffers,
}

impl<'a> ValueSource<'a> for PlainValues<'_, 'a> {
    type Error = NotPlain;

    fn next<T: Deserialize<'a>>(&mut self) -> Result<T, NotPlain> {
        let mut values = serde_json::Deserializer::from_slice(self.rest).into_iter();
        let value = values.next().and_then(Result::ok).ok_or(NotPlain)?;
        *self.rest = &self.rest[values.byte_offset()..];
        Ok(value)
    }

    /// Ids are an array, or packed.
    fn ids(&mut self, field: &'static str) -> Result<bool, NotPlain> {
        if self.rest.starts_with(b"\"") {
            let packed = self.next::<&str>()?;
            return read_base64(field, packed, self.limits, self.buffers.of(field))
                .map_or(Err(NotPlain), |()| Ok(true));
        }
        let (limits, buffer) = (self.limits, self.buffers.of(field));
        let behind = leading_signed_array(self.rest, |id| {
            buffer.push(id);
            limits.check_pages(buffer.len()).is_ok()
        });
        *self.rest = behind.ok_or(NotPlain)?;
        Ok(true)
    }

    fn twice() -> NotPlain {
        NotPlain
    }
}

/// The general parser is to say what is wrong.
struct NotPlain;

#[cfg(test)]
mod tests {
    use super::super::read_object;
    use super::*;
    use proptest::prelude::*;

    /// Names and values, right and wrong.
    const NAMES: [&str; 9] = [
        r#""page_ids""#,
        r#""output_page_ids""#,
        r#""event_time""#,
        r#""pool""#,
        r#""page_size""#,
        r#""other""#,
        r#""page\u005fids""#,
        "\"a\tb\"",
        r#""pool"#,
    ];
    const VALUES: [&str; 24] = [
        "[1,2,18446744073709551615]",
        "[ -1 ,\n0 ]",
        "[]",
        "[1,,2]",
        "[1.5]",
        "[-0]",
        "[18446744073709551616]",
        "[01]",
        "[[1]]",
        "[1,2,3,4,5,6,7,8,9]",
        r#""AQAAAAAAAAACAAAAAAAAAA==""#,
        r#""AQAAAAAAAAA\u003d""#,
        r#""AQAAAAA=""#,
        "null",
        "12",
        "-7",
        "1.0",
        "1e400",
        r#""text""#,
        r#""\ud83d\ude00 \n""#,
        r#""\ud83d""#,
        r#"{"page_ids":[1],"deep":[{}]}"#,
        "nul",
        "",
    ];

    /// Mostly a member that is plain.
    fn member() -> impl Strategy<Value = (&'static str, &'static str)> {
        let any_number = || prop::sample::select(vec!["12", "-7", "1.0", "1e400", "null"]);
        let any_text = || prop::sample::select(vec![r#""text""#, r#""\ud83d\ude00 \n""#, "null"]);
        prop_oneof![
            (Just(NAMES[0]), prop::sample::select(&VALUES[..3])),
            (Just(NAMES[1]), prop::sample::select(&VALUES[..3])),
            (Just(NAMES[2]), any_number()),
            (Just(NAMES[3]), any_text()),
            (Just(NAMES[5]), any_text()),
            (prop::sample::select(&NAMES[..]), prop::sample::select(&VALUES[..])),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn what_is_accepted_the_general_parser_reads_the_same(
            members in prop::collection::vec(member(), 0..5),
            marks in prop::collection::vec(prop::sample::select(vec!["", " ", "\n", ",", "}", ":", "x"]), 12),
            wrong in prop::bool::weighted(0.2),
        ) {
            // Mostly a whole object, now and then with something wrong between its parts.
            let mut marks = marks.into_iter().map(|mark| if wrong || mark.trim().is_empty() { mark } else { "" });
            let mut mark = || marks.next().unwrap_or_default();
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{}{name}{}:{value}", mark(), mark()))
                .collect();
            let text = format!("{}{{{}{}}}{}", mark(), members.join(","), mark(), mark());
            let limits = DecodeLimits { max_pages_per_request: 8, ..DecodeLimits::default() };
            let (mut plain, mut general) = (IdBuffers::default(), IdBuffers::default());
            if let Some(found) = read(&text, &limits, &mut plain) {
                let expected = read_object(&text, &limits, &mut general);
                prop_assert_eq!(Ok(found), expected, "{}", text);
                prop_assert_eq!((&plain.prompt, &plain.output), (&general.prompt, &general.output), "{}", text);
            }
        }
    }

    #[test]
    fn what_producers_write_is_plain() {
        let (limits, mut buffers) = (DecodeLimits::default(), IdBuffers::default());
        for ids in ["[11,22]", "[ 11, 22 ]", r#""CwAAAAAAAAAWAAAAAAAAAA==""#] {
            let text =
                format!(r#"{{"event_time": 7, "page_ids":{ids}, "x": {{"y": [null]}}, "pool": "a\u0062"}} "#);
            let found = read(&text, &limits, &mut buffers).expect("plain");
            assert_eq!(
                (buffers.prompt.as_slice(), found.message.pool.as_deref()),
                (&[11, 22][..], Some("ab"))
            );
        }
    }
}
