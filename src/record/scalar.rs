//! Booleans, numbers and strings as field types.
//!
//! Bounds are in the [`Constraint`]. Nothing is converted: `"5"` is not a number. Numbers such as
//! `1.0` and `1e2` are integers, as in JSON Schema.
//!
//! Invariant: a schema states what the reader checks. An integer type narrower than 64 bits has its
//! range in the schema.

use std::fmt;
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use crate::json::{Kind, ToJson, Value, Writer};

use super::FromJson;
use super::constraint::{Constraint, Size};
use super::violation::{Violation, push_count, push_number, unexpected};

impl FromJson for bool {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        constraint.begin(w, "boolean");
    }

    fn from_json(value: Value<'_>, _: &Constraint) -> Result<bool, Box<Violation>> {
        value.as_bool().ok_or_else(|| unexpected("type", "true or false", value))
    }
}

impl FromJson for String {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        constraint.begin(w, "string");
        constraint.length.write(w, "minLength", "maxLength");
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<String, Box<Violation>> {
        text(value, constraint.length).map(str::to_owned)
    }
}

/// A path as a string. The reader does not look at files, so a handler must confine the path.
impl FromJson for PathBuf {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        String::schema(w, constraint);
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<PathBuf, Box<Violation>> {
        text(value, constraint.length).map(PathBuf::from)
    }
}

/// A string of one character (Unicode code point).
impl FromJson for char {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        String::schema(w, &constraint.length(Size::exactly(1)));
    }

    fn from_json(value: Value<'_>, _: &Constraint) -> Result<char, Box<Violation>> {
        let text = text(value, Size::exactly(1))?;
        text.chars().next().ok_or_else(|| unexpected("type", "a string of 1 character", value))
    }
}

/// Reads a string with a number of characters (Unicode code points) in `length`.
fn text(value: Value<'_>, length: Size) -> Result<&str, Box<Violation>> {
    let Some(text) = value.as_str() else {
        let expected = sized("a string", length, "character");
        return Err(unexpected("type", &expected, value));
    };
    // A string has at least as many bytes as characters.
    if length.min == 0 && text.len() <= length.max {
        return Ok(text);
    }
    let count = text.chars().count();
    match length.complaint(count, "minLength", "maxLength") {
        None => Ok(text),
        Some(keyword) => Err(wrong_size(keyword, "a string", length, count, "character")),
    }
}

/// Violation of a size bound.
#[cold]
pub(super) fn wrong_size(
    keyword: &'static str,
    what: &str,
    size: Size,
    count: usize,
    unit: &'static str,
) -> Box<Violation> {
    let mut message = String::from("expected ");
    message.push_str(&sized(what, size, unit));
    message.push_str(", got one of ");
    push_number(&mut message, count);
    Violation::new(keyword, message)
}

/// "a string of 1 to 80 characters"; only the noun if there are no bounds.
pub(super) fn sized(what: &str, Size { min, max }: Size, unit: &str) -> String {
    let mut out = String::from(what);
    match (min, max) {
        (0, usize::MAX) => return out,
        (_, usize::MAX) => out.push_str(" of at least "),
        (0, _) if min != max => out.push_str(" of at most "),
        _ => out.push_str(" of "),
    }
    if min > 0 && min < max && max < usize::MAX {
        push_number(&mut out, min);
        out.push_str(" to ");
    }
    push_count(&mut out, if max == usize::MAX { min } else { max }, unit);
    out
}

/// The range of an integer type.
#[derive(Clone, Copy)]
struct Integers {
    min: i64,
    max: u64,
}

impl Integers {
    /// The part of the type's range that the constraint leaves, inclusive.
    fn within(self, constraint: &Constraint) -> (i128, i128) {
        let end = |bits: u64| {
            if self.min < 0 { i128::from(bits as i64) } else { i128::from(bits) }
        };
        (constraint.min.map_or(i128::from(self.min), end), constraint.max.map_or(i128::from(self.max), end))
    }

    fn schema(self, w: &mut Writer, constraint: &Constraint) {
        constraint.begin(w, "integer");
        let (min, max) = self.within(constraint);
        if min > i128::from(i64::MIN) {
            write_integer(w.key("minimum"), min);
        }
        // The ends of the 64-bit types are not stated: no practical value reaches them.
        if max < i128::from(i64::MAX) || constraint.max.is_some() {
            write_integer(w.key("maximum"), max);
        }
    }

    fn read(self, value: Value<'_>, constraint: &Constraint) -> Result<i128, Box<Violation>> {
        let (min, max) = self.within(constraint);
        let number = match value.as_i64() {
            Some(number) => Some(i128::from(number)),
            None => whole(value),
        };
        match number {
            Some(number) if min <= number && number <= max => Ok(number),
            _ => Err(self.outside(value, number, constraint)),
        }
    }

    #[cold]
    fn outside(self, value: Value<'_>, number: Option<i128>, constraint: &Constraint) -> Box<Violation> {
        let (min, max) = self.within(constraint);
        let keyword = match number {
            Some(number) if number < min => "minimum",
            Some(_) => "maximum",
            None => "type",
        };
        let open = (
            constraint.min.is_none() && min == i128::from(i64::MIN),
            constraint.max.is_none() && max >= i128::from(i64::MAX),
        );
        let expected = match open {
            (true, true) if number.is_none() => String::from("an integer"),
            (false, true) if number.is_none() => format!("an integer, {} or more", Int(min)),
            (true, false) if number.is_none() => format!("an integer, {} or less", Int(max)),
            _ => format!("an integer from {} to {}", Int(min), Int(max)),
        };
        unexpected(keyword, &expected, value)
    }
}

fn write_integer(w: &mut Writer, number: i128) {
    match i64::try_from(number) {
        Ok(number) => w.i64(number),
        Err(_) => w.u64(number as u64),
    };
}

/// A signed or unsigned 64-bit number. Avoids the code for printing 128-bit numbers.
struct Int(i128);

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0) {
            Ok(number) => number.fmt(f),
            Err(_) => (self.0 as u64).fmt(f),
        }
    }
}

/// Converts a number to an integer, whatever its notation. Exact within 64 bits; beyond, the next
/// integer outside. `None` if it is not an integer.
fn whole(value: Value<'_>) -> Option<i128> {
    let text = value.as_number()?;
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent),
        None => (text, "0"),
    };
    let (units, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut digits = units.bytes().chain(fraction.bytes());
    // Trailing zeros only shift the decimal point.
    let zeros = digits.clone().rev().take_while(|b| *b == b'0').count();
    let significant = units.len() + fraction.len() - zeros;
    if significant == 0 {
        return Some(0);
    }
    // An exponent that does not fit shifts the decimal point out of range.
    let exponent =
        exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 });
    let shift = exponent + zeros as i64 - fraction.len() as i64;
    if shift < 0 {
        return None;
    }
    let mut number: u64 = 0;
    let mut push = |digit: u8| {
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        Some(())
    };
    let fits = digits
        .by_ref()
        .take(significant)
        .try_for_each(|b| push(b - b'0'))
        .and_then(|()| (0..shift).try_for_each(|_| push(0)))
        .is_some();
    let number = if fits { i128::from(number) } else { i128::from(u64::MAX) + 1 };
    Some(if negative { -number } else { number })
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromJson for $type {
            fn schema(w: &mut Writer, constraint: &Constraint) {
                Integers { min: <$type>::MIN as i64, max: <$type>::MAX as u64 }.schema(w, constraint);
            }

            fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<$type, Box<Violation>> {
                let range = Integers { min: <$type>::MIN as i64, max: <$type>::MAX as u64 };
                // OK because the value lies within the range of the type.
                range.read(value, constraint).map(|number| number as $type)
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

macro_rules! integers_without_zero {
    ($($type:ty => $number:ty),*) => {$(
        impl FromJson for $type {
            fn schema(w: &mut Writer, constraint: &Constraint) {
                <$number>::schema(w, &constraint.at_least_one());
            }

            fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<$type, Box<Violation>> {
                let number = <$number>::from_json(value, &constraint.at_least_one())?;
                <$type>::new(number).ok_or_else(|| unexpected("minimum", "an integer, 1 or more", value))
            }
        }

        impl ToJson for $type {
            fn write_json(&self, w: &mut Writer) {
                self.get().write_json(w);
            }
        }
    )*};
}

integers_without_zero!(NonZeroU8 => u8, NonZeroU16 => u16, NonZeroU32 => u32, NonZeroU64 => u64, NonZeroUsize => usize);

impl FromJson for f64 {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        constraint.begin(w, "number");
        for (keyword, bits) in [("minimum", constraint.min), ("maximum", constraint.max)] {
            if let Some(bits) = bits {
                w.key(keyword).f64(f64::from_bits(bits));
            }
        }
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<f64, Box<Violation>> {
        number(value, constraint, f64::MAX)
    }
}

impl FromJson for f32 {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        f64::schema(w, constraint);
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<f32, Box<Violation>> {
        number(value, constraint, f64::from(f32::MAX)).map(|number| number as f32)
    }
}

/// Reads a number within the constraint and within a type that ends at `most`.
fn number(value: Value<'_>, constraint: &Constraint, most: f64) -> Result<f64, Box<Violation>> {
    let (min, max) =
        (constraint.min.map_or(-most, f64::from_bits), constraint.max.map_or(most, f64::from_bits));
    match value.as_f64() {
        Some(number) if min <= number && number <= max => Ok(number),
        number => Err(no_number(value, number, constraint, most)),
    }
}

#[cold]
fn no_number(value: Value<'_>, number: Option<f64>, constraint: &Constraint, most: f64) -> Box<Violation> {
    let (min, max) = (constraint.min.map(f64::from_bits), constraint.max.map(f64::from_bits));
    let keyword = match number {
        _ if value.kind() != Kind::Number => "type",
        Some(number) if number < min.unwrap_or(-most) => "minimum",
        None if value.raw().starts_with('-') => "minimum",
        _ => "maximum",
    };
    let expected = match (min, max) {
        (Some(min), Some(max)) => format!("a number from {min:?} to {max:?}"),
        (Some(min), None) => format!("a number, {min:?} or more"),
        (None, Some(max)) => format!("a number, {max:?} or less"),
        (None, None) if keyword == "type" => String::from("a number"),
        (None, None) => format!("a number from -{most:?} to {most:?}"),
    };
    unexpected(keyword, &expected, value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::whole;
    use crate::json::Doc;

    #[test]
    fn whole_numbers_are_read_exactly_however_they_are_written() {
        let beyond = i128::from(u64::MAX) + 1;
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e-7", Some(0)),
            ("0e999999999999999999999", Some(0)),
            ("1.0", Some(1)),
            ("-1.50e1", Some(-15)),
            ("1e2", Some(100)),
            ("100e-2", Some(1)),
            ("100e-3", None),
            ("0.5", None),
            ("1.5", None),
            ("10.01e1", None),
            ("10.01E2", Some(1001)),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("18446744073709551615", Some(i128::from(u64::MAX))),
            ("1844674407370955161.5e1", Some(i128::from(u64::MAX))),
            ("18446744073709551616", Some(beyond)),
            ("-1e400", Some(-beyond)),
            ("1e-400", None),
            ("1e999999999999999999999", Some(beyond)),
            ("1e-999999999999999999999", None),
            ("\"1\"", None),
            ("null", None),
        ] {
            let doc = Doc::parse(text.as_bytes()).unwrap();
            assert_eq!(whole(doc.root()), expected, "{text}");
        }
    }
}
