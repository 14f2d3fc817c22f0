//! How fast prompts are computed.

use crate::units::text::TextError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Most points of a rate.
const MAX_POINTS: usize = 64;

/// Largest rate, in tokens per second.
const MAX_RATE: f64 = 1e9;

/// Tokens that one prefill worker computes a second: one number, or points by the context before the token.
///
/// Between two points the time a token takes is on the line between theirs, which is how attention grows; before the
/// first and behind the last it is constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrefillRate {
    /// Context in tokens, ascending, and tokens per second there. Not empty.
    points: Vec<(f64, f64)>,
    /// As it was written.
    text: String,
}

impl PrefillRate {
    /// Tokens a second without context.
    pub fn at_start(&self) -> f64 {
        self.points.first().map_or(1.0, |(_, rate)| *rate)
    }

    /// Seconds to compute the tokens of a prompt from `from` to `end`, those before being there.
    pub fn seconds(&self, from: u64, end: u64) -> f64 {
        if end <= from { 0.0 } else { self.until(end as f64) - self.until(from as f64) }
    }

    /// Seconds from the start of a prompt to this position: the integral of the time that a token takes.
    fn until(&self, end: f64) -> f64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return 0.0 };
        let mut sum = end.min(first.0) / first.1;
        for two in self.points.windows(2) {
            let ((from, slow), (to, fast)) = (two[0], two[1]);
            let reached = end.clamp(from, to);
            let (at_from, at_to) = (1.0 / slow, 1.0 / fast);
            let at_reached = at_from + (at_to - at_from) * (reached - from) / (to - from);
            sum += (reached - from) * (at_from + at_reached) / 2.0;
        }
        sum + (end - last.0).max(0.0) / last.1
    }
}

impl FromStr for PrefillRate {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let fail = |reason: &str| {
            TextError(format!(
                "`{text:.40}` is no prefill rate: {reason} (expected tokens per second such as 12000, or at several contexts \
                 such as 14000@0,9000@32768)"
            ))
        };
        let mut points = Vec::new();
        for part in text.split(',') {
            let (rate, context) = match part.split_once('@') {
                Some((rate, context)) => (rate, context),
                None if text.contains(',') => return Err(fail("each of several rates needs its context")),
                None => (part, "0"),
            };
            let rate: f64 = rate.trim().parse().map_err(|_| fail("a rate is no number"))?;
            if !(rate > 0.0 && rate <= MAX_RATE) {
                return Err(fail("a rate is more than 0 and at most 1000000000"));
            }
            let context: u32 =
                context.trim().parse().map_err(|_| fail("a context is no number of tokens"))?;
            if points.last().is_some_and(|(last, _)| f64::from(context) <= *last) {
                return Err(fail("contexts are ascending"));
            }
            points.push((f64::from(context), rate));
        }
        if points.len() > MAX_POINTS {
            return Err(fail("it has more than 64 points"));
        }
        Ok(Self { points, text: text.to_owned() })
    }
}

impl TryFrom<String> for PrefillRate {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        text.parse()
    }
}

impl From<PrefillRate> for String {
    fn from(rate: PrefillRate) -> Self {
        rate.text
    }
}

impl fmt::Display for PrefillRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> PrefillRate {
        text.parse().expect(text)
    }

    #[test]
    fn one_number_is_tokens_by_rate() {
        assert_eq!(rate("1000").seconds(500, 2500), 2.0);
        assert_eq!(rate("1000").seconds(7, 7), 0.0);
    }

    #[test]
    fn points_take_the_mean_of_both_ends_between_them() {
        let rate = rate("1000@0,500@1000");
        // 1 ms a token at the start, 2 ms at 1000 tokens of context.
        assert!((rate.seconds(0, 1000) - 1.5).abs() < 1e-12);
        assert!((rate.seconds(1000, 3000) - 4.0).abs() < 1e-12);
        assert!((rate.seconds(0, 500) - 0.625).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["", "0", "-1", "nan", "inf", "1e12", "5@", "5@x", "5,6", "5@10,6@10", "5@10,6@2", "x@1"]
        {
            assert!(text.parse::<PrefillRate>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn seconds_add_up_and_grow(
            steps in prop::collection::vec((1u32..5000, 1.0f64..1e5), 1..6), cuts in prop::array::uniform3(0u64..50_000),
        ) {
            let (mut context, mut text) = (0, Vec::new());
            for (step, rate) in &steps {
                text.push(format!("{rate}@{context}"));
                context += step;
            }
            let rate = rate(&text.join(","));
            let [mut a, mut b, mut c] = cuts;
            if a > b { std::mem::swap(&mut a, &mut b); }
            if b > c { std::mem::swap(&mut b, &mut c); }
            if a > b { std::mem::swap(&mut a, &mut b); }
            let (whole, parts) = (rate.seconds(a, c), rate.seconds(a, b) + rate.seconds(b, c));
            prop_assert!((whole - parts).abs() <= 1e-9 * whole.max(1.0));
            prop_assert!(rate.seconds(a, b) >= 0.0 && rate.seconds(a, c) + 1e-9 >= rate.seconds(b, c));
        }
    }
}
