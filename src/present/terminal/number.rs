//! Numbers as people read them: the report's words, with what tables need alongside them.

use crate::present::words;
use kvset_core::units::Bytes;
use kvset_core::units::ratio::Ratio;

/// What stands for a number that is not known.
pub(super) const UNKNOWN: &str = "-";

/// A count with its thousands set apart (`4,836,915`).
pub fn thousands(count: u64) -> String {
    words::integer(count)
}

/// A rate between 0 and 1 as a percentage with two places (`93.66 %`).
pub fn percent(share: f64) -> String {
    words::rate(share)
}

/// A factor with two places.
pub fn decimal(value: f64) -> String {
    format!("{value:.2}")
}

/// A size in binary units, or a dash.
pub fn bytes(size: Option<u64>) -> String {
    size.map_or_else(|| UNKNOWN.to_owned(), |size| Bytes(size).to_string())
}

/// A coverage as a percentage without needless places (`99.9 %`).
pub fn share_name(share: Ratio) -> String {
    words::share(share)
}

/// A capacity in bytes where a page's bytes are known, else in pages (`29.2 GiB`, `7,956 pages`).
pub fn capacity(pages: u64, page_bytes: Option<u64>) -> String {
    words::capacity(pages, page_bytes)
}

/// A number as text; `beyond` past the bound, a dash where there is none.
pub fn known<T>(value: Option<T>, text: impl Fn(T) -> String, beyond_bound: bool) -> String {
    value.map_or_else(|| if beyond_bound { "beyond" } else { "-" }.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart_from_the_right() {
        let pairs = [(0, "0"), (999, "999"), (1000, "1,000"), (4_836_915, "4,836,915")];
        for (count, text) in pairs {
            assert_eq!(thousands(count), text);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn shares_and_sizes_are_rounded_for_the_eye() {
        assert_eq!(percent(0.936633), "93.66 %");
        assert_eq!(bytes(Some(2_308_974_418_329)), "2.10 TiB");
        assert_eq!(bytes(None), "-");
    }
}
