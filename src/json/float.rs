//! Floating-point numbers as decimal text: written in their shortest form, and read correctly
//! rounded.
//!
//! The written format is that of `{:?}` in the standard library, whose code and tables are five
//! times as large because they also round to a precision, pad and align. Numbers with up to 15
//! digits, like most measurements, take a few multiplications. Other numbers use the exact
//! algorithm of Steele and White with big integers. Nothing is allocated.
//!
//! Reading gives the values of `str::parse` in the standard library, whose code and tables take
//! 17 kB. Numbers with up to 15 digits take one multiplication or division. Others are computed
//! with 64 bits by the method of Clinger ("How to read floating point numbers accurately", 1990);
//! only those that may lie halfway between two values are compared digit by digit.

use std::cmp::Ordering;

/// Digits without a point, most significant first, and the number of digits before the point.
struct Digits {
    digits: [u8; MAX_DIGITS],
    count: usize,
    point: i32,
}

/// Largest number of digits that distinguish an `f64` from its neighbours.
const MAX_DIGITS: usize = 17;

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
    let mut found = Digits { digits: [b'0'; MAX_DIGITS], count, point: count as i32 - places };
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
    let mut rest = BigUint::new(mantissa).shifted(shift + up);
    let mut scale = BigUint::new(1).shifted(shift + down);
    let mut below = BigUint::new(1).shifted(up);
    let mut above = BigUint::new(1).shifted(up + u32::from(edge));
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
    let mut found = Digits { digits: [b'0'; MAX_DIGITS], count: 0, point };
    loop {
        let digit = b'0' + rest.divide(&scale);
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

/// Reads a decimal number, rounded to the nearest value, a tie to the even one. `None` for other
/// texts, and beyond the range of `f64`.
pub(crate) fn read(text: &str) -> Option<f64> {
    let nearest = Decimal::parse(text)?.nearest()?;
    Some(if text.starts_with('-') { -nearest } else { nearest })
}

/// The positive number 0.DIGITS · 10^`point`.
struct Decimal<'t> {
    /// From the first digit that is not zero; may contain a point.
    digits: &'t [u8],
    point: i64,
    /// The first digits, at most [`KEPT`], and their count.
    head: u64,
    kept: i32,
    /// A digit after these is not zero.
    more: bool,
}

/// Decimal digits that always fit in a `u64`.
const KEPT: i32 = 19;
/// The powers of ten that are exact.
const TENS: [f64; 23] = {
    let mut tens = [1.0; 23];
    let mut at = 1;
    while at < tens.len() {
        tens[at] = tens[at - 1] * 10.0;
        at += 1;
    }
    tens
};
/// 10^1, 10^2, 10^4, … 10^256: the first 64 bits, rounded.
const UP: [u64; 9] = [
    0xa000_0000_0000_0000,
    0xc800_0000_0000_0000,
    0x9c40_0000_0000_0000,
    0xbebc_2000_0000_0000,
    0x8e1b_c9bf_0400_0000,
    0x9dc5_ada8_2b70_b59e,
    0xc278_1f49_ffcf_a6d5,
    0x93ba_47c9_80e9_8ce0,
    0xaa7e_ebfb_9df9_de8e,
];
/// 10^-1, 10^-2, 10^-4, … 10^-256.
const DOWN: [u64; 9] = [
    0xcccc_cccc_cccc_cccd,
    0xa3d7_0a3d_70a3_d70a,
    0xd1b7_1758_e219_652c,
    0xabcc_7711_8461_cefd,
    0xe695_94be_c44d_e15b,
    0xcfb1_1ead_4539_94ba,
    0xa87f_ea27_a539_e9a5,
    0xddd0_467c_64bc_e4a1,
    0xc031_4325_637a_193a,
];
/// Upper bound of the error of [`Decimal::scaled`]: 3 for each of at most 8 powers, and 19 for the
/// digits that were left out.
const DOUBT: u128 = 64;

impl Decimal<'_> {
    fn parse(text: &str) -> Option<Decimal<'_>> {
        let text = text.strip_prefix(['-', '+']).unwrap_or(text);
        let mut found = Decimal { digits: &[], point: 0, head: 0, kept: 0, more: false };
        let (mut start, mut end) = (0, text.len());
        let (mut any, mut fraction) = (false, false);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    any = true;
                    if found.kept == 0 && byte == b'0' {
                        found.point -= i64::from(fraction);
                        continue;
                    }
                    found.point += i64::from(!fraction);
                    if found.kept == 0 {
                        start = at;
                    }
                    if found.kept < KEPT {
                        found.head = found.head * 10 + u64::from(byte - b'0');
                        found.kept += 1;
                    } else {
                        found.more |= byte != b'0';
                    }
                }
                b'.' if !fraction => fraction = true,
                b'e' | b'E' => {
                    end = at;
                    found.point += exponent(text.get(at + 1..)?)?;
                    break;
                }
                _ => return None,
            }
        }
        found.digits = text.as_bytes().get(start..end)?;
        any.then_some(found)
    }

    fn nearest(&self) -> Option<f64> {
        // The range is from 4.9e-324 to 1.8e308.
        if self.head == 0 || self.point < -330 {
            return Some(0.0);
        }
        if self.point > 310 {
            return None;
        }
        let power = self.point as i32 - self.kept;
        if let Some(ten) = TENS.get(power.unsigned_abs() as usize) {
            // Both are exact, so the result is correctly rounded.
            if !self.more && self.head <= 1 << 53 {
                let head = self.head as f64;
                return Some(if power < 0 { head / ten } else { head * ten });
            }
        }
        let (bits, exponent) = self.scaled(power);
        // The exponent of the last bit of the result; small numbers have fewer bits.
        let last = (exponent + 11).max(-1074);
        let shift = last - exponent;
        if shift > 65 {
            return Some(0.0);
        }
        let half = 1_u128 << (shift - 1);
        let mantissa = (u128::from(bits) >> shift) as u64;
        let rest = u128::from(bits) & (2 * half - 1);
        let order = match rest.abs_diff(half) <= DOUBT {
            true => self.compare(2 * mantissa + 1, last - 1),
            false => rest.cmp(&half),
        };
        let up = order == Ordering::Greater || order == Ordering::Equal && mantissa % 2 == 1;
        // A carry raises the exponent.
        let bits = (((last + 1074) as u64) << 52) + mantissa + u64::from(up);
        (bits < f64::INFINITY.to_bits()).then(|| f64::from_bits(bits))
    }

    /// The first digits times a power of ten, as 64 bits and an exponent of two.
    fn scaled(&self, power: i32) -> (u64, i32) {
        let zeros = self.head.leading_zeros();
        let (mut bits, mut exponent) = (self.head << zeros, -(zeros as i32));
        let powers = if power < 0 { &DOWN } else { &UP };
        for (at, factor) in powers.iter().enumerate() {
            let part = 1 << at;
            if power.abs() & part != 0 {
                let product = u128::from(bits) * u128::from(*factor);
                let zeros = product.leading_zeros();
                bits = (product << zeros >> 64) as u64;
                // The exponent of a factor: 63 below its logarithm, rounded down.
                exponent += 1 - zeros as i32 + ((part * power.signum() * 217_706) >> 16);
            }
        }
        (bits, exponent)
    }

    /// Compares the number with `mantissa` · 2^`power`, from which it hardly differs.
    fn compare(&self, mantissa: u64, power: i32) -> Ordering {
        let mut rest = BigUint::new(mantissa).shifted(power.max(0) as u32);
        let mut scale = BigUint::new(1).shifted((-power).max(0) as u32);
        let smaller = if self.point > 0 { &mut scale } else { &mut rest };
        for _ in 0..self.point.unsigned_abs() {
            smaller.times(10);
        }
        for digit in self.digits.iter().filter(|byte| byte.is_ascii_digit()) {
            rest.times(10);
            let other = b'0' + rest.divide(&scale);
            if *digit != other {
                return digit.cmp(&other);
            }
        }
        if rest.as_slice().is_empty() { Ordering::Equal } else { Ordering::Less }
    }
}

/// The digits after the `e`, bounded.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut exponent = 0;
    for byte in digits.bytes() {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        exponent = (exponent * 10 + digit).min(1 << 48);
    }
    let exponent = if text.starts_with('-') { -exponent } else { exponent };
    (!digits.is_empty()).then_some(exponent)
}

/// Bits of the largest integers here: those of the smallest numbers, with their neighbour distance
/// and one more digit.
const WORDS: usize = 40;

/// An integer, least significant word first; words from `len` on are zero.
#[derive(Clone, Copy)]
struct BigUint {
    words: [u32; WORDS],
    len: usize,
}

impl BigUint {
    fn new(n: u64) -> BigUint {
        let mut big = BigUint { words: [0; WORDS], len: 0 };
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

    fn shifted(mut self, bits: u32) -> BigUint {
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

    fn plus(&self, other: &BigUint) -> BigUint {
        let mut sum = BigUint { words: [0; WORDS], len: 0 };
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
    fn minus(&mut self, other: &BigUint) {
        let mut borrow = false;
        for (word, other) in self.words.iter_mut().zip(&other.words).take(self.len) {
            let (less, first) = word.overflowing_sub(*other);
            let (less, second) = less.overflowing_sub(borrow.into());
            *word = less;
            borrow = first || second;
        }
        self.trim();
    }

    /// Leaves the remainder and returns the quotient, which is small.
    fn divide(&mut self, other: &BigUint) -> u8 {
        let mut quotient = 0;
        while self.compare(other) != Ordering::Less {
            self.minus(other);
            quotient += 1;
        }
        quotient
    }

    fn compare(&self, other: &BigUint) -> Ordering {
        let (a, b) = (self.as_slice(), other.as_slice());
        a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{read, write};

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

    /// Compares with the standard library, the text as it is and with more digits.
    fn check_text(text: &str) {
        for text in [text.to_owned(), format!("-{text}"), text.replacen('e', "000001e", 1)] {
            let theirs = text.parse::<f64>().ok().filter(|n| n.is_finite());
            assert_eq!(read(&text).map(f64::to_bits), theirs.map(f64::to_bits), "{text}");
        }
    }

    /// The decimal text of `odd` · 2^`power`.
    fn halfway(odd: u64, power: i32) -> String {
        let by = if power < 0 { 5 } else { 2 };
        let mut digits: Vec<u8> = odd.to_string().bytes().rev().map(|digit| digit - b'0').collect();
        for _ in 0..power.unsigned_abs() {
            let mut carry = 0;
            for digit in &mut digits {
                let product = *digit * by + carry;
                (*digit, carry) = (product % 10, product / 10);
            }
            if carry > 0 {
                digits.push(carry);
            }
        }
        let digits: String = digits.iter().rev().map(|digit| char::from(digit + b'0')).collect();
        format!("{digits}.e{}", power.min(0))
    }

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them() {
        for text in
            ["0", "0e9", "0.000", "1", "10", "9007199254740993", "18446744073709551616", "1e22", "1e23"]
        {
            check_text(text);
        }
        for text in ["1.7976931348623158e308", "1.7976931348623159e308", "1e309", "1e99999999999999999999"] {
            check_text(text);
        }
        for text in
            ["5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400", "1e-99999999999"]
        {
            check_text(text);
        }
        // Long before the exponent is applied.
        check_text(&format!("0.{}7e1001", "0".repeat(1000)));
        check_text(&format!("7{}.5e-1000", "0".repeat(1000)));
        check_text(&"9".repeat(5000));
        check_text(&format!("0.{}", "9".repeat(5000)));
        let mut seed = 7_u64;
        for _ in 0..3_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let n = f64::from_bits(seed ^ seed >> 29);
            if n.is_finite() {
                check_text(&format!("{n:e}"));
                check_text(&format!("{n:.24e}"));
            }
            check_text(&format!("{}e{}", seed >> (seed % 64), (seed >> 32) as i32 % 345));
        }
    }

    #[test]
    fn ties_are_rounded_to_even() {
        let mut seed = 5_u64;
        for power in (-1075..=970).step_by(41) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let top = if power == -1075 { seed >> (11 + seed % 53) } else { 1 << 52 | seed >> 12 };
            for mantissa in [top, top ^ 1, 1 << 52, (1 << 53) - 1] {
                let text = halfway(2 * mantissa + 1, power);
                check_text(&text);
                // A little below: the last digit is 5 or, of an integer, odd or at least 2.
                let (digits, exponent) = text.split_once('.').unwrap();
                let (rest, last) = digits.split_at(digits.len() - 1);
                let below = last.as_bytes()[0].saturating_sub(1).max(b'0');
                check_text(&format!("{rest}{}.999{exponent}", char::from(below)));
            }
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "", "-", ".", "e1", "1e", "1e+", "1.2.3", "1-2", "--1", "+-1", "inf", "NaN", "1_0", "1 ",
            "1e1.0", "1e2e3",
        ] {
            assert_eq!(read(text), None, "{text}");
            assert!(!text.parse().is_ok_and(f64::is_finite), "{text}");
        }
        for text in ["+1.5", "01.5", ".5", "1.", "-.5e+1", "1.e-1"] {
            check_text(text.trim_start_matches('-'));
            assert_eq!(read(text), text.parse().ok(), "{text}");
        }
    }
}
