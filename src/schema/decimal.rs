//! Exact decimal numbers: comparison, divisibility, integer test.
//!
//! A [`Decimal`] views the text of a JSON number as digits times a power of ten. No operation
//! converts to binary floating point, so `0.3` is a multiple of `0.1` and integers beyond 64 bits
//! are exact.
//!
//! Invariants:
//! - No operation allocates. Each is linear in the number of digits, also for `1e1000000000`.
//! - Exponents saturate at 2^60. Two numbers with equal digits and larger exponents are equal.

use std::cmp::Ordering;

/// Sign, significant digits and exponent of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal<'a> {
    negative: bool,
    /// Digits before and after the point, without leading and trailing zeros of the whole; both
    /// empty for zero.
    whole: &'a [u8],
    fraction: &'a [u8],
    /// The power of ten of the last digit.
    exponent: i64,
}

const MAX_EXPONENT: i64 = 1 << 60;

impl<'a> Decimal<'a> {
    /// Parses the text of a JSON number.
    pub(super) fn new(text: &'a str) -> Decimal<'a> {
        Decimal::of(text.as_bytes())
    }

    /// Like [`Decimal::new`], for bytes.
    pub(super) fn of(bytes: &'a [u8]) -> Decimal<'a> {
        let (negative, bytes) = match bytes.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, bytes),
        };
        let mark = bytes.iter().position(|b| matches!(b, b'e' | b'E'));
        let (digits, power) = match mark {
            Some(at) => {
                (bytes.get(..at).unwrap_or_default(), exponent(bytes.get(at + 1..).unwrap_or_default()))
            }
            None => (bytes, 0),
        };
        let point = digits.iter().position(|b| *b == b'.').unwrap_or(digits.len());
        let mut whole = digits.get(..point).unwrap_or_default();
        let mut fraction = digits.get(point + 1..).unwrap_or_default();
        let mut exponent = power - fraction.len() as i64;
        while let Some((b'0', rest)) = whole.split_first() {
            whole = rest;
        }
        if whole.is_empty() {
            while let Some((b'0', rest)) = fraction.split_first() {
                fraction = rest;
            }
        }
        while let Some((b'0', rest)) = fraction.split_last() {
            fraction = rest;
            exponent += 1;
        }
        if fraction.is_empty() {
            while let Some((b'0', rest)) = whole.split_last() {
                whole = rest;
                exponent += 1;
            }
        }
        let mut number = Decimal { negative, whole, fraction, exponent };
        if number.is_zero() {
            number = Decimal { negative: false, exponent: 0, ..number };
        }
        number
    }

    pub(super) fn is_zero(self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    pub(super) fn is_negative(self) -> bool {
        self.negative
    }

    /// Returns `true` if the value is an integer, in any notation.
    pub(super) fn is_whole(self) -> bool {
        self.exponent >= 0
    }

    fn digits(self) -> impl Iterator<Item = u8> + 'a {
        self.whole.iter().chain(self.fraction).map(|b| b.wrapping_sub(b'0'))
    }

    fn count(self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// The value as an integer, if it is one in the range of the type.
    pub(super) fn to_i64(self) -> Option<i64> {
        if self.exponent < 0 || self.exponent > 18 {
            return None;
        }
        let mut n = 0i64;
        for digit in self.digits().chain((0..self.exponent).map(|_| 0)) {
            let digit = i64::from(digit);
            n = n.checked_mul(10)?;
            n = if self.negative { n.checked_sub(digit)? } else { n.checked_add(digit)? };
        }
        Some(n)
    }

    /// The largest integer that is not greater. Saturates beyond 64 bits.
    pub(super) fn floor(self) -> Result<i64, Ordering> {
        if let Some(n) = self.to_i64() {
            return Ok(n);
        }
        let beyond = if self.negative { Ordering::Less } else { Ordering::Greater };
        if self.exponent >= 0 || self.count() as i64 + self.exponent > 19 {
            return Err(beyond);
        }
        let whole = usize::try_from(self.count() as i64 + self.exponent).unwrap_or(0);
        let mut n = 0i64;
        for digit in self.digits().take(whole).map(i64::from) {
            let next = n.checked_mul(10);
            let next =
                next.and_then(|n| if self.negative { n.checked_sub(digit) } else { n.checked_add(digit) });
            n = next.ok_or(beyond)?;
        }
        // The number has a fraction, otherwise it would have been returned as an integer.
        if self.negative { n.checked_sub(1).ok_or(beyond) } else { Ok(n) }
    }

    /// Appends the canonical form of the number.
    pub(super) fn canonical(self, out: &mut Vec<u8>) {
        out.push(if self.negative { b'-' } else { b'+' });
        out.extend(self.whole);
        out.extend(self.fraction);
        out.push(b'e');
        out.extend(self.exponent.to_le_bytes());
    }

    /// Compares two numbers.
    pub(super) fn compare(self, other: Decimal<'_>) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_size(other),
            (true, true) => other.compare_size(self),
        }
    }

    fn compare_size(self, other: Decimal<'_>) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let first = self.exponent + self.count() as i64;
        let other_first = other.exponent + other.count() as i64;
        first.cmp(&other_first).then_with(|| self.digits().cmp(other.digits()))
    }

    /// Returns `true` if the value is an integer times `divisor`. `None` if the divisor is zero or
    /// has more digits than [`MAX_DIVISOR_DIGITS`].
    pub(super) fn is_multiple_of(self, divisor: Decimal<'_>) -> Option<bool> {
        if divisor.is_zero() || divisor.count() > MAX_DIVISOR_DIGITS {
            return None;
        }
        if self.is_zero() {
            return Some(true);
        }
        // Neither has a trailing zero, so a number with a lower last digit has a remainder.
        let shift = self.exponent - divisor.exponent;
        if shift < 0 {
            return Some(false);
        }
        let by = divisor.digits().fold(0u128, |n, digit| n * 10 + u128::from(digit));
        let mut rest = match u64::try_from(by) {
            // Uses machine words for the digits if possible.
            Ok(by) if by < u64::MAX / 16 => {
                u128::from(self.digits().fold(0u64, |n, digit| (n * 10 + u64::from(digit)) % by))
            }
            _ => self.digits().fold(0, |rest, digit| followed(rest, digit, by)),
        };
        // A divisor below 2^128 has fewer than 128 factors of two or five, so more zeros change
        // nothing.
        for _ in 0..shift.min(128) {
            if rest == 0 {
                break;
            }
            rest = followed(rest, 0, by);
        }
        Some(rest == 0)
    }
}

/// The remainder after one more digit. It is below ten times `by`: subtraction is smaller than
/// division, which takes kilobytes of code on 32-bit machines.
fn followed(rest: u128, digit: u8, by: u128) -> u128 {
    let mut rest = rest * 10 + u128::from(digit);
    while rest >= by {
        rest -= by;
    }
    rest
}

/// Largest number of digits of a divisor: ten times as much still fits in 128 bits. A message of
/// the compiler names it.
const MAX_DIVISOR_DIGITS: usize = 37;

fn exponent(text: &[u8]) -> i64 {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    let mut n = 0i64;
    for digit in digits {
        n = (n * 10 + i64::from(digit.wrapping_sub(b'0'))).min(MAX_EXPONENT / 16);
    }
    if negative { -n } else { n }
}

/// Returns `true` if a text is an integer; `1.0` and `1e2` are.
#[inline(never)]
pub(super) fn is_integer(text: &[u8]) -> bool {
    // A fraction or an exponent contains a byte that is neither digit nor sign.
    text.iter().all(|b| *b <= b'9' && *b != b'.') || Decimal::of(text).is_whole()
}

/// Returns `true` if the text is the plain form of an integer: without exponent and fraction, and
/// not `-0`.
pub(super) fn is_plain(text: &[u8]) -> bool {
    text != b"-0" && text.iter().all(|b| *b <= b'9' && *b != b'.')
}

/// Digits of a fraction that cost no steps.
const MAX_FRACTION_DIGITS: usize = 64;

/// The integers below and above a number, equal for an integer. `None` for an exponent, for more
/// than 18 digits before the point, and for a long fraction.
#[inline(never)]
pub(super) fn around(text: &[u8]) -> Option<(i64, i64)> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut n = 0i64;
    let mut more = 0;
    for (i, b) in digits.iter().enumerate() {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            let fraction = digits.get(i + 1..).filter(|f| *b == b'.' && f.len() <= MAX_FRACTION_DIGITS)?;
            if !fraction.iter().all(u8::is_ascii_digit) {
                return None;
            }
            more = 1;
            break;
        }
        if i == 18 {
            return None;
        }
        n = n * 10 + i64::from(digit);
    }
    Some(if negative { (-n - more, -n) } else { (n, n + more) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn comparison_is_exact() {
        for (a, b, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("0", "-0.0e5", Ordering::Equal),
            ("1e2", "100", Ordering::Equal),
            ("0.1", "0.10", Ordering::Equal),
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            ("-9007199254740993", "-9007199254740992", Ordering::Less),
            ("18446744073709551616", "18446744073709551615", Ordering::Greater),
            ("1e1000000000", "9e999999999", Ordering::Greater),
            ("1e-1000000000", "0", Ordering::Greater),
            ("-1e-10", "1e-20", Ordering::Less),
            ("0.00012", "0.000123", Ordering::Less),
            ("120", "13", Ordering::Greater),
        ] {
            assert_eq!(Decimal::new(a).compare(Decimal::new(b)), expected, "{a} {b}");
            assert_eq!(Decimal::new(b).compare(Decimal::new(a)), expected.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn divisibility_is_exact() {
        for (a, b, expected) in [
            ("0.3", "0.1", true),
            ("4.35", "0.01", true),
            ("0.00751", "0.0001", false),
            ("1e308", "0.123456789", false),
            ("1e308", "0.5", true),
            ("9007199254740993", "3", true),
            ("123456789012345678901234567890", "7", true),
            ("20", "10", true),
            ("5", "10", false),
            ("0", "3.5", true),
            ("-7.5", "2.5", true),
            ("1e1000000000", "1024", true),
            ("1e1000000000", "3", false),
            ("3", "1e-1000000000", true),
            ("1e40", "1234567890123456789012345678901234567", false),
            ("2469135780246913578024691357802469134", "1234567890123456789012345678901234567", true),
        ] {
            assert_eq!(Decimal::new(a).is_multiple_of(Decimal::new(b)), Some(expected), "{a} {b}");
        }
        assert_eq!(Decimal::new("1").is_multiple_of(Decimal::new(&"7".repeat(38))), None);
    }

    #[test]
    fn floors_are_exact() {
        for (text, expected) in [
            ("1.5", Ok(1)),
            ("-1.5", Ok(-2)),
            ("0.001", Ok(0)),
            ("-1e-99", Ok(-1)),
            ("9223372036854775807.5", Ok(i64::MAX)),
            ("9223372036854775808", Err(Ordering::Greater)),
            ("-9223372036854775808.5", Err(Ordering::Less)),
            ("1e400", Err(Ordering::Greater)),
        ] {
            assert_eq!(Decimal::new(text).floor(), expected, "{text}");
        }
    }

    #[test]
    fn integers_around_a_number_hold_it() {
        for (text, expected) in [
            ("0", Some((0, 0))),
            ("-0", Some((0, 0))),
            ("17", Some((17, 17))),
            ("-17", Some((-17, -17))),
            ("2.5", Some((2, 3))),
            ("2.0", Some((2, 3))),
            ("-2.5", Some((-3, -2))),
            ("-0.1", Some((-1, 0))),
            ("999999999999999999.9", Some((999_999_999_999_999_999, 1_000_000_000_000_000_000))),
            ("1000000000000000000", None),
            ("1e2", None),
            ("1.5e3", None),
        ] {
            assert_eq!(around(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn integers_are_recognized_by_value() {
        for (text, whole, as_i64) in [
            ("1.0", true, Some(1)),
            ("-12e1", true, Some(-120)),
            ("1.5", false, None),
            ("15e-1", false, None),
            ("150e-1", true, Some(15)),
            ("-9223372036854775808", true, Some(i64::MIN)),
            ("9223372036854775808", true, None),
            ("1e400", true, None),
            ("0.0e-7", true, Some(0)),
        ] {
            assert_eq!(is_integer(text.as_bytes()), whole, "{text}");
            assert_eq!(Decimal::new(text).to_i64(), as_i64, "{text}");
        }
    }
}
