//! Shortest decimal form of floating-point numbers.
//!
//! The format is that of `{:?}` in the standard library, whose code and tables are five times as
//! large because they also round to a precision, pad and align. Numbers with up to 15 digits, like
//! most measurements, take a few multiplications. Other numbers use the exact algorithm of Steele
//! and White with big integers. Nothing is allocated.

use std::cmp::Ordering;

/// Digits without a point, most significant first, and the number of digits before the point.
struct Digits {
    digits: [u8; MOST],
    count: usize,
    point: i32,
}

/// Largest number of digits that distinguish an `f64` from its neighbours.
const MOST: usize = 17;

impl Digits {
    fn push(&mut self, digit: u8) {
        if let Some(place) = self.digits.get_mut(self.count) {
            *place = digit;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[u8] {
        self.digits.get(..self.count).unwrap_or_default()
    }
}

/// Appends a finite number.
pub(super) fn write(out: &mut Vec<u8>, n: f64) {
    if n.is_sign_negative() {
        out.push(b'-');
    }
    let n = n.abs();
    if n == 0.0 {
        out.extend_from_slice(b"0.0");
        return;
    }
    let found = few_digits(n).unwrap_or_else(|| exact(n));
    let (digits, point) = (found.as_slice(), found.point);
    let count = digits.len() as i32;
    if !(1e-4..1e16).contains(&n) {
        let (first, rest) = digits.split_at(1);
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        out.push(b'e');
        if point < 1 {
            out.push(b'-');
        }
        super::writer::decimal(out, point.abs_diff(1).into());
        return;
    }
    for place in point.min(1) - 1..count.max(point + 1) {
        if place == point {
            out.push(b'.');
        }
        let digit = usize::try_from(place).ok().and_then(|place| digits.get(place));
        out.push(digit.copied().unwrap_or(b'0'));
    }
}

/// The digits of a number of ordinary size with at most 15 digits: two such numbers never share an
/// `f64`.
fn few_digits(n: f64) -> Option<Digits> {
    if !(1e-4..1e15).contains(&n) {
        return None;
    }
    let mut power = 1.0;
    for places in 0..16 {
        // Both are exact up to 2^53 and 10^22, so the quotient is correctly rounded.
        let whole = (n * power).round();
        if whole >= 1e15 {
            return None;
        }
        if whole / power == n {
            return Some(of_whole(whole as u64, places));
        }
        power *= 10.0;
    }
    None
}

/// The digits of an integer with at most 15 digits, `places` of them after the point.
fn of_whole(mut whole: u64, places: i32) -> Digits {
    let count = whole.max(1).ilog10() as usize + 1;
    let mut found = Digits { digits: [b'0'; MOST], count, point: count as i32 - places };
    for digit in found.digits.iter_mut().take(count).rev() {
        *digit = b'0' + (whole % 10) as u8;
        whole /= 10;
    }
    while found.count > 1 && found.as_slice().ends_with(b"0") {
        found.count -= 1;
    }
    found
}

/// The shortest digits of any positive number that no neighbour is closer to.
fn exact(n: f64) -> Digits {
    let bits = n.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let (mantissa, power) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    // The lower neighbour is half as far away at a change of the exponent.
    let edge = fraction == 0 && exponent > 1;
    let shift = 1 + u32::from(edge);
    let (up, down) = (power.max(0) as u32, (-power).max(0) as u32);
    let mut rest = Big::new(mantissa).shifted(shift + up);
    let mut scale = Big::new(1).shifted(shift + down);
    let mut below = Big::new(1).shifted(up);
    let mut above = Big::new(1).shifted(up + u32::from(edge));
    let inclusive = mantissa % 2 == 0;
    let past = |order: Ordering| order == Ordering::Greater || inclusive && order == Ordering::Equal;

    // At most one too low.
    let magnitude = f64::from(64 - mantissa.leading_zeros() as i32 + power - 1);
    let mut point = (magnitude * std::f64::consts::LOG10_2 - 1e-9).ceil() as i32;
    for _ in 0..point.max(0) {
        scale.times(10);
    }
    for _ in 0..(-point).max(0) {
        for big in [&mut rest, &mut below, &mut above] {
            big.times(10);
        }
    }
    if past(rest.plus(&above).compare(&scale)) {
        point += 1;
    } else {
        for big in [&mut rest, &mut below, &mut above] {
            big.times(10);
        }
    }
    let mut found = Digits { digits: [b'0'; MOST], count: 0, point };
    loop {
        let mut digit = b'0';
        while rest.compare(&scale) != Ordering::Less {
            rest.minus(&scale);
            digit += 1;
        }
        let low = past(below.compare(&rest));
        let high = past(rest.plus(&above).compare(&scale));
        if low || high {
            let nearer = rest.plus(&rest).compare(&scale) != Ordering::Less;
            found.push(digit + u8::from(high && (!low || nearer)));
            return found;
        }
        found.push(digit);
        for big in [&mut rest, &mut below, &mut above] {
            big.times(10);
        }
    }
}

/// Bits of the largest integers here: those of the smallest numbers, with their neighbour distance
/// and one more digit.
const WORDS: usize = 40;

/// An integer, least significant word first; words from `len` on are zero.
#[derive(Clone, Copy)]
struct Big {
    words: [u32; WORDS],
    len: usize,
}

impl Big {
    fn new(n: u64) -> Big {
        let mut big = Big { words: [0; WORDS], len: 0 };
        big.push(n as u32);
        big.push((n >> 32) as u32);
        big.trim();
        big
    }

    fn as_slice(&self) -> &[u32] {
        self.words.get(..self.len).unwrap_or_default()
    }

    fn push(&mut self, word: u32) {
        if let Some(place) = self.words.get_mut(self.len) {
            *place = word;
            self.len += 1;
        }
    }

    fn trim(&mut self) {
        while self.as_slice().last() == Some(&0) {
            self.len -= 1;
        }
    }

    fn shifted(mut self, bits: u32) -> Big {
        self.times(1 << (bits % 32));
        let whole = (bits / 32) as usize;
        self.words.rotate_right(whole);
        self.len += whole;
        self
    }

    fn times(&mut self, by: u32) {
        let mut carry = 0;
        for word in self.words.iter_mut().take(self.len) {
            let product = u64::from(*word) * u64::from(by) + carry;
            *word = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.push(carry as u32);
        }
    }

    fn plus(&self, other: &Big) -> Big {
        let mut sum = Big { words: [0; WORDS], len: 0 };
        let mut carry = 0;
        for (a, b) in self.words.iter().zip(&other.words).take(self.len.max(other.len)) {
            let total = u64::from(*a) + u64::from(*b) + carry;
            sum.push(total as u32);
            carry = total >> 32;
        }
        if carry > 0 {
            sum.push(carry as u32);
        }
        sum
    }

    /// Subtracts a number that is not larger.
    fn minus(&mut self, other: &Big) {
        let mut borrow = false;
        for (word, other) in self.words.iter_mut().zip(&other.words).take(self.len) {
            let (less, first) = word.overflowing_sub(*other);
            let (less, second) = less.overflowing_sub(borrow.into());
            *word = less;
            borrow = first || second;
        }
        self.trim();
    }

    fn compare(&self, other: &Big) -> Ordering {
        let (a, b) = (self.as_slice(), other.as_slice());
        a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::write;

    fn check(n: f64) {
        if !n.is_finite() {
            return;
        }
        let mut out = Vec::new();
        write(&mut out, n);
        assert_eq!(String::from_utf8_lossy(&out), format!("{n:?}"), "{:x}", n.to_bits());
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for n in [0.0, -0.0, 1.0, 0.1, 0.3, 1e15, 1e16, 1e17, 9.999e15, 1e-4, 9.9e-5, 1e22, 1e23, 5e-324] {
            check(n);
            check(-n);
        }
        for n in [
            f64::MAX,
            f64::MIN_POSITIVE,
            f64::EPSILON,
            0.1 + 0.2,
            123_456_789.125,
            2.225_073_858_507_201e-308,
        ] {
            check(n);
        }
        for power in (0..2047_u64).step_by(7) {
            for fraction in [0, 1, (1 << 52) - 1] {
                check(f64::from_bits(power << 52 | fraction));
            }
        }
        for power in -330..310 {
            for n in [1, 2, 5, 9, 123, 99_999] {
                check(format!("{n}e{power}").parse().unwrap_or_default());
            }
        }
        let mut seed = 7_u64;
        for _ in 0..5_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            check(f64::from_bits(seed ^ seed >> 29));
            check((seed >> 40) as f64 / 1000.0);
            check((seed >> 20) as f64 / 1e9);
            check((seed >> 11) as f64);
        }
    }
}
