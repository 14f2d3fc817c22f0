//! Arrays of integers in JSON, read at once.
//!
//! A general parser goes through a visitor for every element. This reads the shapes that ids and tokens
//! come in, and leaves everything else, errors among it, to the general parser: what it accepts, that one
//! reads as the same numbers.

/// Hands each number of a JSON array of unsigned integers to `each`, in order; whether the text is such an
/// array and `each` took them all. Where not, some may have been handed out already.
pub(crate) fn read_array(text: &[u8], each: impl FnMut(u64) -> bool) -> bool {
    let behind = leading_array(text.trim_ascii_start(), each);
    behind.is_some_and(|behind| skip_space(behind).is_empty())
}

/// The same for an array that the text begins with; what follows it.
pub(crate) fn leading_array(text: &[u8], each: impl FnMut(u64) -> bool) -> Option<&[u8]> {
    leading_elements(text, integer, each)
}

/// The same for what is left of an array behind one of its commas.
pub(crate) fn rest_of_array(text: &[u8], each: impl FnMut(u64) -> bool) -> Option<&[u8]> {
    elements(skip_space(text), integer, each)
}

/// The same for an array that the text begins with, negative integers of 64 bits as their two's complement
/// among the numbers; what follows it.
pub(crate) fn leading_signed_array(text: &[u8], each: impl FnMut(u64) -> bool) -> Option<&[u8]> {
    leading_elements(text, signed_integer, each)
}

#[inline]
fn leading_elements<'a>(
    text: &'a [u8],
    element: impl Fn(&'a [u8]) -> Option<(u64, &'a [u8])>,
    each: impl FnMut(u64) -> bool,
) -> Option<&'a [u8]> {
    let rest = skip_space(text.strip_prefix(b"[")?);
    match rest.strip_prefix(b"]") {
        Some(behind) => Some(behind),
        None => elements(rest, element, each),
    }
}

/// One element or more and the bracket behind them.
#[inline]
fn elements<'a>(
    mut text: &'a [u8],
    element: impl Fn(&'a [u8]) -> Option<(u64, &'a [u8])>,
    mut each: impl FnMut(u64) -> bool,
) -> Option<&'a [u8]> {
    loop {
        let (number, behind) = element(text)?;
        if !each(number) {
            return None;
        }
        let behind = skip_space(behind);
        match behind.split_first()? {
            (b',', behind) => text = skip_space(behind),
            (b']', behind) => return Some(behind),
            _ => return None,
        }
    }
}

/// White space as JSON knows it; mostly there is none.
pub(super) fn skip_space(mut text: &[u8]) -> &[u8] {
    while let Some((b' ' | b'\n' | b'\r' | b'\t', rest)) = text.split_first() {
        text = rest;
    }
    text
}

/// A number without fraction and exponent that fits 64 bits, with or without a minus sign.
fn signed_integer(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(text) = text.strip_prefix(b"-") else { return integer(text) };
    let (magnitude, behind) = integer(text)?;
    // A zero with a sign is a fraction to the general parser.
    (1..=1 << 63).contains(&magnitude).then(|| (magnitude.wrapping_neg(), behind))
}

/// A number without sign, fraction and exponent that fits 64 bits, and what follows it.
fn integer(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut digits) = (0u64, 0);
    loop {
        let (chunk, count) = leading_digits(&text[digits..]);
        // The third chunk is where 64 bits end.
        value = value.checked_mul(POWERS[count])?.checked_add(chunk)?;
        digits += count;
        if count < 8 {
            break;
        }
    }
    // JSON writes no leading zeros.
    let legal = digits == 1 || (digits > 1 && text[0] != b'0');
    legal.then(|| (value, &text[digits..]))
}

const POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The number that up to eight leading digits spell, and how many they are. Without branches on the count,
/// which nobody can guess.
fn leading_digits(text: &[u8]) -> (u64, usize) {
    let Some(window) = text.first_chunk::<8>() else {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let spell = |value, byte: &u8| value * 10 + u64::from(byte - b'0');
        return (text[..count].iter().fold(0, spell), count);
    };
    // The first digit is the lowest byte. A byte above 9 raises its highest bit, or the bit of one behind it.
    let bytes = u64::from_le_bytes(*window) ^ 0x3030_3030_3030_3030;
    let others = (bytes.wrapping_add(0x7676_7676_7676_7676) | bytes) & 0x8080_8080_8080_8080;
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // Zeros in front in place of what is behind the digits; then pairs, fours and all eight are joined.
    let digits = bytes << (64 - 8 * count);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    (low.wrapping_add(high) >> 32, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<Vec<u64>> {
        let mut numbers = Vec::new();
        let whole = read_array(text.as_bytes(), |number| {
            numbers.push(number);
            true
        });
        whole.then_some(numbers)
    }

    #[test]
    fn what_is_no_array_of_unsigned_integers_is_left_to_others() {
        for text in [
            "",
            "[",
            "[]x",
            "[1",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[-1]",
            "[1.0]",
            "[1e3]",
            "[01]",
            "[00]",
            "[null]",
            "[18446744073709551616]",
            "[99999999999999999999]",
            "[1]]",
            "[[1]]",
            "{}",
            "1",
            "[\"1\"]",
            "[+1]",
            "[1\u{b}]",
            "[123456789012345678901234567890]",
            "[12345678x]",
            "[1234567:]",
            "[/]",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in ["[]", " [ ] ", "[0]", "[ 1 ,\n2\t]\r\n", "[18446744073709551615]"] {
            assert_eq!(read(text), serde_json::from_str(text).ok(), "{text}");
        }
        assert!(!read_array(b"[1,2]", |number| number < 2), "refused by whoever takes them");
        for text in ["[-0]", "[-]", "[--1]", "[-01]", "[- 1]", "[-1.0]", "[-9223372036854775809]", "[1-1]"] {
            assert_eq!(leading_signed_array(text.as_bytes(), |_| true), None, "{text}");
        }
        let mut lowest = 0;
        let behind = leading_signed_array(b"[-9223372036854775808],", |number| {
            lowest = number;
            true
        });
        assert_eq!((lowest as i64, behind), (i64::MIN, Some(&b","[..])));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_general_parser(
            numbers in prop::collection::vec((any::<u64>(), 0u32..64), 0..40),
            separator in prop::sample::select(vec![",", ", ", " ,\n"]),
        ) {
            let numbers: Vec<u64> = numbers.into_iter().map(|(number, shift)| number >> shift).collect();
            let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
            prop_assert_eq!(read(&format!("[{}]", texts.join(separator))), Some(numbers));
        }

        #[test]
        fn signed_numbers_are_those_of_the_general_parser(
            numbers in prop::collection::vec((any::<i64>(), 0u32..64), 0..40),
        ) {
            let numbers: Vec<i64> = numbers.into_iter().map(|(number, shift)| number >> shift).collect();
            let mut read = Vec::new();
            let text = serde_json::to_string(&numbers).expect("memory");
            let behind = leading_signed_array(text.as_bytes(), |number| {
                read.push(number as i64);
                true
            });
            prop_assert_eq!(behind, Some(&b""[..]));
            prop_assert_eq!(read, numbers);
        }

        #[test]
        fn nothing_is_accepted_that_the_general_parser_refuses(text in r"\[?[0-9 ,.eE\-\]\[]{0,24}\]?") {
            if let Some(numbers) = read(&text) {
                prop_assert_eq!(serde_json::from_str(&text).ok(), Some(numbers), "{}", text);
            }
        }
    }
}
