//! Numbers as people read them.

use kvset_core::ratio::Ratio;
use kvset_core::units::Bytes;

/// What stands for a number that is not known.
pub(super) const UNKNOWN: &str = "-";

/// A count with its thousands set apart (`4,836,915`).
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage with two places (`93.66 %`).
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A number with two places.
pub fn decimal(value: f64) -> String {
    format!("{value:.2}")
}

/// A size in binary units, or a dash.
pub fn bytes(size: Option<u64>) -> String {
    size.map_or_else(|| UNKNOWN.to_owned(), |size| Bytes(size).to_string())
}

/// A coverage as a percentage without needless places (`99.9 %`).
pub fn share_name(share: Ratio) -> String {
    let text = format!("{:.7}", share.as_f64() * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
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
        assert_eq!(bytes(Some(2_308_974_418_330)), "2.10 TiB");
        assert_eq!(bytes(None), "-");
    }
}
