//! Figures as people read them, in the report, on the page and on the command line.

use jiff::Timestamp;
use kvset_core::units::Bytes;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use std::borrow::Cow;

/// Times from here on are dates (2000-01-01); smaller ones count from a trace's own zero.
const FIRST_DATE_MS: i64 = 946_684_800_000;

/// What stands for a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Whether a character reorders the text around it, unseen itself.
fn reorders(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A character of a text that is not this program's own: white space as a space, and a replacement for whatever a
/// terminal would obey or what would reorder the text around it.
pub(crate) fn visible(character: char) -> char {
    match character {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control() || reorders(c) => REPLACEMENT,
        c => c,
    }
}

/// A text as it is shown where names of others may stand in it: without what would reorder it. Lines and colours stay.
pub(crate) fn in_order(text: &str) -> Cow<'_, str> {
    replaced(text, |out, _| out.push(REPLACEMENT))
}

/// JSON that says the same, with what would reorder it escaped: such characters stand in its strings alone.
pub(crate) fn json_in_order(json: &str) -> Cow<'_, str> {
    replaced(json, |out, character| out.push_str(&format!("\\u{:04x}", u32::from(character))))
}

fn replaced(text: &str, mut replace: impl FnMut(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(reorders) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if reorders(character) { replace(&mut out, character) } else { out.push(character) }
    }
    Cow::Owned(out)
}

/// A name of at most so many characters, of a longer one its beginning and its end; an empty one as `''`.
pub(crate) fn short_name(name: &str, most: usize) -> String {
    let characters: Vec<char> = name.chars().map(visible).collect();
    let Some(left_out) = characters.len().checked_sub(most).filter(|left_out| *left_out > 0) else {
        return if characters.is_empty() { "''".to_owned() } else { characters.into_iter().collect() };
    };
    let end = most.saturating_sub(1) / 2;
    let start = most.saturating_sub(1) - end;
    let (start, end) = (&characters[..start], &characters[start + left_out + 1..]);
    start.iter().chain(&['…']).chain(end).collect()
}

/// An integer with thousands separators: `4,836,915`.
pub(crate) fn integer(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

/// A count with its noun: `1 request`, `4,002 requests`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", integer(count), if count == 1 { one } else { many })
}

/// The requests that a window counts, in the middle of a sentence.
pub(crate) fn requests_of(window: Option<WindowKind>) -> String {
    match window {
        Some(WindowKind::Last { requests }) => {
            format!("the last {}", counted(u64::from(requests), "request", "requests"))
        }
        Some(WindowKind::Tumbling { size_ms } | WindowKind::Hopping { size_ms, .. }) => {
            format!("the requests of the last {}", elapsed(i64::try_from(size_ms).unwrap_or(i64::MAX)))
        }
        Some(WindowKind::All) => "all requests so far".to_owned(),
        None => "requests".to_owned(),
    }
}

/// A size as [`Bytes`] writes it: binary units, three significant digits, rounded up (`2.10 TiB`).
pub(crate) fn bytes_up(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// A round size without the digits that say nothing: `512 GiB`, `1.5 TiB`.
pub(crate) fn bytes_round(bytes: u64) -> String {
    let text = bytes_up(bytes);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Units of time, in milliseconds.
const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];

/// A time in the unit that fits: `88 min`, `3.2 h`.
pub(crate) fn lasting(ms: u64) -> String {
    match UNITS.iter().find(|(scale, _)| ms >= 2 * scale) {
        None => format!("{} ms", integer(ms)),
        Some((scale, name)) => {
            let value = ms as f64 / *scale as f64;
            let places = if value < 10.0 { 1 } else { 0 };
            format!("{value:.places$} {name}")
        }
    }
}

/// A size for a caller with its verb: bytes where a page's bytes are known, else pages.
pub(crate) fn capacity(pages: u64, page_bytes: Option<u64>) -> String {
    match page_bytes {
        Some(bytes) => bytes_up(pages.saturating_mul(bytes)),
        None => counted(pages, "page", "pages"),
    }
}

/// The ends of an interval: `26.1 to 33.0 GiB`.
pub(crate) fn between(low: u64, high: u64, page_bytes: Option<u64>) -> String {
    let (low, high) = (capacity(low, page_bytes), capacity(high, page_bytes));
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// A size with its interval: `29.2 GiB (26.1 to 33.0)`.
pub(crate) fn capacity_between(pages: u64, ends: Option<(u64, u64)>, page_bytes: Option<u64>) -> String {
    let size = capacity(pages, page_bytes);
    let Some((low, high)) = ends else { return size };
    let ends = between(low, high, page_bytes);
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match ends.rsplit_once(' ') {
        Some((numbers, own)) if unit(&size).as_deref() == Some(own) && numbers.split(' ').count() == 3 => {
            format!("{size} ({numbers})")
        }
        _ => format!("{size} ({ends})"),
    }
}

/// A size to the page and the byte: `7,956 pages, 31,296,282,624 bytes`.
pub(crate) fn exact(pages: u64, page_bytes: Option<u64>) -> String {
    let pages_text = counted(pages, "page", "pages");
    match page_bytes {
        Some(bytes) => format!("{pages_text}, {} bytes", integer(pages.saturating_mul(bytes))),
        None => pages_text,
    }
}

/// An exact share: `99.9 %`.
pub(crate) fn share(ratio: Ratio) -> String {
    percent(ratio.as_f64())
}

/// A share as configured, without trailing zeros: `10 %`.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.7}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A rate between 0 and 1 with two decimals, never rounded to none or all of it.
pub(crate) fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() => "n/a".to_owned(),
        v if v > 0.0 && v < 0.00005 => "< 0.01 %".to_owned(),
        v if (0.99995..1.0).contains(&v) => "> 99.99 %".to_owned(),
        v => format!("{:.2} %", v * 100.0),
    }
}

/// The heading of a column of hit rates by tokens, next to those by pages. It is shown where it says something else.
pub(crate) const BY_TOKENS: &str = "by tokens";

/// A hit rate by pages, and by tokens where that is another: `40.75 % (39.81 % by tokens)`.
pub(crate) fn hit_rate(by_pages: f64, by_tokens: Option<f64>) -> String {
    rate(by_pages) + &in_parentheses_by_tokens(by_pages, by_tokens)
}

/// What follows a sentence's rate by pages: ` (39.81 % by tokens)`; nothing where the two are the same.
pub(crate) fn in_parentheses_by_tokens(by_pages: f64, by_tokens: Option<f64>) -> String {
    other_by_tokens(by_pages, by_tokens).map_or_else(String::new, |rate| format!(" ({rate} by tokens)"))
}

fn other_by_tokens(by_pages: f64, by_tokens: Option<f64>) -> Option<String> {
    by_tokens.map(rate).filter(|by_tokens| *by_tokens != rate(by_pages))
}

/// What follows a note's rate by pages: `; 39.81 % by tokens`; nothing where the two are the same.
pub(crate) fn and_by_tokens(by_pages: f64, by_tokens: Option<f64>) -> String {
    other_by_tokens(by_pages, by_tokens).map_or_else(String::new, |rate| format!("; {rate} by tokens"))
}

/// An optional rate; a dash where there is none.
pub(crate) fn rate_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), rate)
}

/// How many times: `14.6 ×`.
pub(crate) fn factor(value: f64) -> String {
    match value {
        v if !v.is_finite() => "n/a".to_owned(),
        v if v < 100.0 => format!("{v:.1} ×"),
        v => format!("{} ×", integer(v.round() as u64)),
    }
}

/// Accelerator-hours: two places, or four of few.
pub(crate) fn hours(hours: f64) -> String {
    money(hours)
}

/// An amount of money: two places, or four of a small one.
pub(crate) fn money(amount: f64) -> String {
    if amount.abs() >= 0.1 || amount == 0.0 { format!("{amount:.2}") } else { format!("{amount:.4}") }
}

/// A price without needless places: `25,000`, `1,234.50`.
pub(crate) fn price(price: f64) -> String {
    let cents = (price * 100.0).round() as u64;
    match (integer(cents / 100), cents % 100) {
        (whole, 0) => whole,
        (whole, rest) => format!("{whole}.{rest:02}"),
    }
}

/// A short number for an axis: `0`, `250`, `1.5k`, `2M`.
pub(crate) fn short(value: f64) -> String {
    const STEPS: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match STEPS.iter().find(|(step, _)| value.abs() >= *step) {
        Some((step, suffix)) => format!("{}{suffix}", round_three(value / step)),
        None => format!("{}", round_three(value)),
    }
}

fn round_three(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A moment of event time: a date in UTC, or for a trace with its own zero the time since it.
pub(crate) fn moment(ms: i64) -> String {
    match date(ms) {
        Some(_) => format!("{} UTC", clock(ms)),
        None => elapsed(ms),
    }
}

/// A [`moment`] where a heading says that times are UTC.
pub(crate) fn clock(ms: i64) -> String {
    match date(ms) {
        Some(date) => format!("{} {}", &date[..10], &date[11..19]),
        None => elapsed(ms),
    }
}

/// The date and time of day of a moment (`2026-11-21T05:22:27Z`); `None` before the year 2000.
pub(crate) fn date(ms: i64) -> Option<String> {
    let moment = Timestamp::from_second(ms.div_euclid(1000)).unwrap_or(Timestamp::MAX);
    (ms >= FIRST_DATE_MS).then(|| format!("{moment:.0}"))
}

/// A length of time in its two largest units: `2 d 3 h`, `1.5 s`.
pub(crate) fn elapsed(ms: i64) -> String {
    let sign = if ms < 0 { "−" } else { "" };
    let ms = ms.unsigned_abs();
    if ms == 0 {
        return "0 s".to_owned();
    }
    if ms < 60_000 {
        return format!("{sign}{} s", ms as f64 / 1000.0);
    }
    let first = UNITS.iter().position(|(unit, _)| ms >= *unit).unwrap_or(UNITS.len() - 1);
    let mut left = ms;
    let mut parts = Vec::new();
    for (unit, name) in &UNITS[first..(first + 2).min(UNITS.len())] {
        if left / unit > 0 {
            parts.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    format!("{sign}{}", parts.join(" "))
}

/// A text with its first letter large.
pub(crate) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + characters.as_str()
}

/// A list in a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_neither_reorder_a_text_nor_are_lost_from_json() {
        let marks = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";
        assert!(marks.chars().all(|mark| visible(mark) == REPLACEMENT));
        assert_eq!(in_order("a\u{202e}b\n\x1b[1m"), "a\u{fffd}b\n\x1b[1m", "lines and colours stay");
        let json = serde_json::to_string(marks).expect("JSON");
        let escaped = json_in_order(&json);
        assert!(escaped.is_ascii(), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), marks);
        assert!(matches!(in_order("שלום, мир"), Cow::Borrowed(_)), "letters of any script are fine");
    }
    use proptest::prelude::*;

    #[test]
    fn round_sizes_lose_the_digits_that_say_nothing() {
        let texts = [0, 1 << 10, 3 << 29, 20 << 30, 1 << 40].map(bytes_round);
        assert_eq!(texts, ["0 B", "1 KiB", "1.5 GiB", "20 GiB", "1 TiB"]);
    }

    #[test]
    fn shares_and_rates_keep_their_edges() {
        let share_of = |text: &str| share(text.parse().expect("a share"));
        assert_eq!([share_of("0.999"), share_of("0.07"), share_of("1")], ["99.9 %", "7 %", "100 %"]);
        assert_eq!(share_of("0.99999"), "99.999 %");
        assert_eq!(
            [rate(0.0), rate(0.00001), rate(0.99999), rate(1.0)],
            ["0.00 %", "< 0.01 %", "> 99.99 %", "100.00 %"]
        );
        assert_eq!(rate(f64::NAN), "n/a");
    }

    #[test]
    fn prices_have_no_needless_places() {
        assert_eq!([price(25_000.0), price(0.999), price(1234.5)], ["25,000", "1", "1,234.50"]);
    }

    #[test]
    fn counts_dates_and_times_read_well() {
        assert_eq!(
            [integer(0), integer(999), integer(1000), integer(4_836_915)],
            ["0", "999", "1,000", "4,836,915"]
        );
        assert_eq!([counted(1, "page", "pages"), counted(0, "page", "pages")], ["1 page", "0 pages"]);
        assert_eq!(moment(1_763_702_547_000), "2025-11-21 05:22:27 UTC");
        assert_eq!([moment(0), moment(1500), moment(-90_000)], ["0 s", "1.5 s", "−1 min 30 s"]);
        assert_eq!(moment(i64::MAX), "9999-12-30 22:00:00 UTC");
        assert_eq!(elapsed(183_600_000), "2 d 3 h");
        assert_eq!([short(0.0), short(1500.0), short(2e6), short(0.25)], ["0", "1.5k", "2M", "0.25"]);
    }

    proptest! {
        #[test]
        fn a_printed_size_covers_its_bytes(bytes in any::<u64>()) {
            let text = bytes_up(bytes);
            let (number, unit) = text.split_once(' ').expect("number and unit");
            let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
            let power = units.iter().position(|name| *name == unit).expect("a unit");
            let printed = number.parse::<f64>().expect("a number") * 1024f64.powi(power as i32);
            prop_assert!(printed >= bytes as f64 * (1.0 - 1e-9), "{text} is less than {bytes}");
            prop_assert!(printed <= bytes as f64 * 1.011 + 1.0, "{text} is far more than {bytes}");
        }
    }

    #[test]
    fn long_names_with_different_ends_look_different() {
        let long = |end| short_name(&format!("organisation-of-the-customer-{end}"), 24);
        assert_ne!(long(1), long(2));
        assert_eq!(long(1).chars().count(), 24);
        assert_eq!(short_name("exactly", 7), "exactly");
        assert_eq!(short_name("", 7), "''");
        assert_eq!(short_name("two", 1), "…");
    }
}
