//! Exact decimal shares, so that `ceil(H * R)` and nearest-rank quantiles never meet rounding.

use crate::units::text::TextError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Most decimal places of a share or a proportion.
const MAX_PLACES: usize = 9;

/// Most digits before them.
const MAX_DIGITS: usize = 9;

/// A share between 0 and 1, kept as the decimal fraction it was written as (`0.99` is 99/100).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// The whole.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// Nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// A share in thousandths; the whole for 1000 and above.
    pub const fn per_mille(thousandths: u16) -> Self {
        let (mut numerator, mut denominator) = (thousandths as u64, 1000);
        if numerator > denominator {
            numerator = denominator;
        }
        // Reduced as `from_str` reduces, so that equal shares are equal values.
        while denominator > 1 && numerator.is_multiple_of(10) {
            numerator /= 10;
            denominator /= 10;
        }
        Self { numerator, denominator }
    }

    /// `ceil(count * self)`, exactly.
    pub fn ceil_of(self, count: u64) -> u64 {
        let product = u128::from(count) * u128::from(self.numerator);
        product.div_ceil(u128::from(self.denominator)) as u64
    }

    /// `floor(count * self)`, exactly: `n > self * count` is the same as `n > share_of(count)`.
    pub fn share_of(self, count: u64) -> u64 {
        let product = u128::from(count) * u128::from(self.numerator);
        (product / u128::from(self.denominator)) as u64
    }

    /// The part of `count` that `whole` units leave to each of them where `shared` more have this share of one each,
    /// rounded down: `floor(count / (whole + shared * self))`, exactly.
    ///
    /// # Panics
    /// When `whole` is 0.
    pub fn unit_of(self, count: u64, whole: u64, shared: u64) -> u64 {
        let (numerator, denominator) = (u128::from(self.numerator), u128::from(self.denominator));
        let parts = u128::from(whole) * denominator + u128::from(shared) * numerator;
        (u128::from(count) * denominator / parts) as u64
    }

    /// Takes this share of `count` in whole units over many calls: what a call cannot take whole is
    /// carried, in units of one over the denominator, to the next.
    pub fn split(self, count: u64, carry: u64) -> (u64, u64) {
        let product = u128::from(count) * u128::from(self.numerator) + u128::from(carry);
        let denominator = u128::from(self.denominator);
        ((product / denominator) as u64, (product % denominator) as u64)
    }

    /// The whole this many units are this share of, rounded to the nearest unit, halves up; saturates
    /// at `u64::MAX`. The share 0 is of no whole and leaves the units as they are.
    pub fn whole_of(self, part: u64) -> u64 {
        let (numerator, denominator) = (u128::from(self.numerator), u128::from(self.denominator));
        if numerator == 0 {
            return part;
        }
        let whole = (u128::from(part) * denominator + numerator / 2) / numerator;
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// [`Ratio::whole_of`] of many units.
    pub fn wide_whole_of(self, part: u128) -> u128 {
        let (numerator, denominator) = (u128::from(self.numerator), u128::from(self.denominator));
        if numerator == 0 {
            return part;
        }
        part.saturating_mul(denominator).saturating_add(numerator / 2) / numerator
    }

    /// The smallest whole whose [`Ratio::share_of`] is at least this many units; saturates at `u64::MAX`.
    /// The share 0 is of no whole and leaves the units as they are.
    pub fn least_whole_of(self, part: u64) -> u64 {
        if self.numerator == 0 {
            return part;
        }
        let whole = (u128::from(part) * u128::from(self.denominator)).div_ceil(u128::from(self.numerator));
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// The nearest-rank position of this quantile among `count` sorted values, counted from 1;
    /// `None` when there are no values. The quantile 0 is the smallest value.
    pub fn nearest_rank(self, count: u64) -> Option<u64> {
        (count > 0).then(|| self.ceil_of(count).max(1))
    }

    /// The quantile's name in percent, exactly: `p99`, `p99.9`, `p50`.
    pub fn percentile_name(self) -> String {
        // Denominators are powers of ten up to 10^9, so a percentage has seven places at most.
        const SCALE: u64 = 1_000_000_000;
        let scaled = self.numerator * (SCALE / self.denominator);
        let (whole, rest) = (scaled / (SCALE / 100), scaled % (SCALE / 100));
        let places = format!("{rest:07}");
        match places.trim_end_matches('0') {
            "" => format!("p{whole}"),
            places => format!("p{whole}.{places}"),
        }
    }

    /// Reads what [`Ratio::percentile_name`] writes.
    ///
    /// # Errors
    /// [`TextError`] for anything else.
    pub fn from_percentile_name(name: &str) -> Result<Self, TextError> {
        let error = || not_a_share(name);
        let percent = name.strip_prefix('p').ok_or_else(error)?;
        let (whole, places) = percent.split_once('.').unwrap_or((percent, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 3 || !digits(whole) || !digits(places) {
            return Err(error());
        }
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let ratio: Self =
            format!("{}.{:02}{places}", whole / 100, whole % 100).parse().map_err(|_| error())?;
        if ratio.percentile_name() == name { Ok(ratio) } else { Err(error()) }
    }

    /// The nearest binary fraction, for display and serialisation.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = u128::from(self.numerator) * u128::from(other.denominator);
        let right = u128::from(other.numerator) * u128::from(self.denominator);
        left.cmp(&right)
    }
}

fn not_a_share(text: &str) -> TextError {
    TextError(format!("`{text:.40}` is not a decimal between 0 and 1 with at most 9 places"))
}

impl FromStr for Ratio {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || not_a_share(text);
        let (numerator, denominator) = decimal(text.trim()).ok_or_else(error)?;
        if numerator > denominator {
            return Err(error());
        }
        Ok(Self { numerator, denominator })
    }
}

/// A decimal of at most nine digits and nine places, reduced; `None` for anything else.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && places.is_empty()) || !digits(whole) || !digits(places) {
        return None;
    }
    let places = places.trim_end_matches('0');
    if places.len() > MAX_PLACES || whole.len() > MAX_DIGITS {
        return None;
    }
    let denominator = 10u64.pow(places.len() as u32);
    let parse = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u64>().ok() };
    Some((parse(whole)? * denominator + parse(places)?, denominator))
}

/// How much of one thing there is for one of another, kept as the decimal it was written as (`1.5`): a share that may
/// exceed the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Proportion(Ratio);

impl Proportion {
    /// That of a share to its whole.
    pub const fn of(share: Ratio) -> Self {
        Self(share)
    }

    /// So many for one.
    pub const fn whole(count: u32) -> Self {
        Self(Ratio { numerator: count as u64, denominator: 1 })
    }

    /// The part of `count` that is this much for one of the rest: `floor(count * self / (1 + self))`, exactly.
    pub fn part_of(self, count: u64) -> u64 {
        let (numerator, denominator) = (u128::from(self.0.numerator), u128::from(self.0.denominator));
        (u128::from(count) * numerator / (denominator + numerator)) as u64
    }
}

impl FromStr for Proportion {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (numerator, denominator) = decimal(text.trim()).ok_or_else(|| {
            TextError(format!("`{text:.40}` is not a decimal from 0 on with at most 9 digits and 9 places"))
        })?;
        Ok(Self(Ratio { numerator, denominator }))
    }
}

impl fmt::Display for Proportion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Proportion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Proportion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The shortest decimal that reads back as this number.
        f64::deserialize(deserializer)?.to_string().parse().map_err(serde::de::Error::custom)
    }
}

impl TryFrom<f64> for Ratio {
    type Error = TextError;

    /// Takes the shortest decimal that reads back as this number, which is what its author wrote.
    fn try_from(value: f64) -> Result<Self, Self::Error> {
        format!("{value}").parse()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_f64(), f)
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::try_from(value).map_err(serde::de::Error::custom)
    }
}

/// A quantile under its name, for `#[serde(with = "percentile")]`.
pub mod percentile {
    use super::Ratio;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the name.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(ratio: &Ratio, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&ratio.percentile_name())
    }

    /// Reads the name.
    ///
    /// # Errors
    /// A text that is no name of a quantile.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ratio, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ratio::from_percentile_name(&name).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(text: &str) -> Ratio {
        text.parse().expect("a valid share")
    }

    #[test]
    fn proportions_may_exceed_the_whole() {
        let of = |text: &str| text.parse::<Proportion>().expect("a proportion");
        assert_eq!((of("0.9").part_of(48_000), of("2.5").part_of(7), of("1").part_of(9)), (22_736, 5, 4));
        assert_eq!((of("1.0"), of("0.9")), (Proportion::whole(1), Proportion::of(ratio("0.9"))));
        for text in ["0", "0.9", "2.5", "1000"] {
            let json = serde_json::to_string(&of(text)).expect("a number");
            assert_eq!(
                (of(text).to_string(), serde_json::from_str(&json).ok()),
                (text.to_owned(), Some(of(text)))
            );
        }
        for text in ["", "-1", "1e3", "1.0000000001", "1234567890"] {
            assert!(text.parse::<Proportion>().is_err(), "{text}");
        }
    }

    #[test]
    fn quantiles_have_names_in_percent_that_read_back() {
        for (share, name) in [
            ("0.5", "p50"),
            ("0.99", "p99"),
            ("0.999", "p99.9"),
            ("0.9999", "p99.99"),
            ("1", "p100"),
            ("0", "p0"),
            ("0.05", "p5"),
            ("0.123456789", "p12.3456789"),
        ] {
            assert_eq!(ratio(share).percentile_name(), name);
            assert_eq!(Ratio::from_percentile_name(name), Ok(ratio(share)), "{name}");
        }
        for name in ["", "p", "99", "p99.", "p099", "p99.90", "p101", "p-1", "p1e1", "p 99", "p100.1"] {
            assert!(Ratio::from_percentile_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_least_whole_is_enough_and_one_less_is_not() {
        for thousandths in [1, 10, 333, 875, 999, 1000] {
            let share = Ratio::per_mille(thousandths);
            for part in (1..2000).chain([1 << 40]) {
                let whole = share.least_whole_of(part);
                assert!(share.share_of(whole) >= part && share.share_of(whole - 1) < part);
            }
        }
        assert_eq!(
            (Ratio::ZERO.least_whole_of(7), Ratio::per_mille(1).least_whole_of(u64::MAX)),
            (7, u64::MAX)
        );
    }

    #[test]
    fn ceil_is_exact_where_binary_fractions_are_not() {
        assert_eq!(ratio("0.99").ceil_of(100), 99, "100 * 0.99 is 99.00000000000001 in f64 on some paths");
        assert_eq!(ratio("0.07").ceil_of(100), 7, "100 * 0.07 is 7.000000000000001 in f64");
        assert_eq!(ratio("0.29").ceil_of(100), 29);
        assert_eq!(ratio("1.0").ceil_of(7), 7);
        assert_eq!(ratio("0").ceil_of(7), 0);
        assert_eq!(ratio("0.5").ceil_of(0), 0);
        assert_eq!(
            [ratio("0.29").share_of(100), ratio("0.5").share_of(3), Ratio::ONE.share_of(7)],
            [29, 1, 7]
        );
        assert_eq!(ratio("0.999").ceil_of(u64::MAX), 18428297329635842064);
    }

    #[test]
    fn splitting_many_small_counts_loses_nothing() {
        let (mut taken, mut carry) = (0, 0);
        for _ in 0..1000 {
            let (whole, rest) = ratio("0.03").split(7, carry);
            (taken, carry) = (taken + whole, rest);
        }
        assert_eq!((taken, carry), (210, 0));
        assert_eq!(ratio("0.03").share_of(7000), 210);
    }

    #[test]
    fn a_share_finds_its_whole_again() {
        assert_eq!(ratio("0.03").whole_of(210), 7000);
        assert_eq!([3, 5].map(|part| ratio("0.4").whole_of(part)), [8, 13], "7.5 and 12.5 round up");
        assert_eq!(Ratio::ONE.whole_of(u64::MAX), u64::MAX);
        assert_eq!(ratio("0.5").whole_of(u64::MAX), u64::MAX, "saturates");
        assert_eq!(ratio("0").whole_of(9), 9);
    }

    #[test]
    fn thousandths_equal_what_they_are_written_as() {
        for (thousandths, text) in [(0, "0"), (5, "0.005"), (500, "0.5"), (990, "0.99"), (999, "0.999")] {
            assert_eq!(Ratio::per_mille(thousandths), ratio(text));
        }
        assert_eq!([1000, 2000].map(Ratio::per_mille), [Ratio::ONE; 2]);
    }

    #[test]
    fn nearest_rank_counts_from_one() {
        assert_eq!(ratio("0.5").nearest_rank(4), Some(2));
        assert_eq!(ratio("0.5").nearest_rank(5), Some(3));
        assert_eq!(ratio("0").nearest_rank(5), Some(1));
        assert_eq!(ratio("0.999").nearest_rank(3993), Some(3990));
        assert_eq!(ratio("0.9").nearest_rank(0), None);
    }

    #[test]
    fn refuses_what_is_not_a_share() {
        for text in ["", ".", "1.1", "-0.5", "nan", "1e-3", "0.1234567891", "99999999999"] {
            assert!(text.parse::<Ratio>().is_err(), "{text} should be refused");
        }
    }

    #[test]
    fn a_float_keeps_the_decimal_it_was_written_as() {
        assert_eq!(Ratio::try_from(0.99), Ok(ratio("0.99")));
        assert_eq!(Ratio::try_from(1.0), Ok(Ratio::ONE));
        assert_eq!(ratio("0.990"), ratio("0.99"));
        assert!(ratio("0.99") < ratio("0.999"));
    }
}
