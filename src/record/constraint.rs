//! Constraints of a field: its doc comment and the bounds in brackets.
//!
//! A [`Constraint`] is constant data. It is passed to the type that reads or describes the field.
//! Three marker traits decide which bounds a type accepts, so a length on a `bool` does not
//! compile.
//!
//! Invariant: a type only receives bounds of its own kind and number type, and no range is empty.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize};
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};
use std::path::PathBuf;

use crate::json::Writer;

/// Additions of a field definition to its type. Types written by hand pass it to the type they
/// contain, or ignore it.
///
/// The [module](super) shows a type that passes it on.
#[derive(Clone, Copy, Debug)]
pub struct Constraint {
    doc: &'static str,
    /// True if the value is a member of a record, where `None` is an absent member.
    pub(super) member: bool,
    /// The bits of an `i64`, `u64` or `f64`, depending on the type.
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    /// Characters of a string.
    pub(super) length: Size,
    /// Elements of an array or members of a map.
    pub(super) items: Size,
}

impl Constraint {
    /// No constraint.
    pub const NONE: Constraint =
        Constraint { doc: "", member: false, min: None, max: None, length: Size::ANY, items: Size::ANY };

    /// The constraint of a field with this doc comment.
    #[doc(hidden)]
    pub const fn member(doc: &'static str) -> Constraint {
        Constraint { doc, member: true, ..Constraint::NONE }
    }

    #[doc(hidden)]
    pub const fn range(self, min: Option<u64>, max: Option<u64>) -> Constraint {
        Constraint { min, max, ..self }
    }

    #[doc(hidden)]
    pub const fn length(self, length: Size) -> Constraint {
        Constraint { length, ..self }
    }

    #[doc(hidden)]
    pub const fn items(self, items: Size) -> Constraint {
        Constraint { items, ..self }
    }

    /// The same constraint of an unsigned number that is not 0.
    pub(super) const fn at_least_one(&self) -> Constraint {
        match self.min {
            Some(1..) => *self,
            Some(0) | None => Constraint { min: Some(1), ..*self },
        }
    }

    /// The constraint for the elements of an array or map: bounds on numbers and strings.
    pub(super) const fn element(&self) -> Constraint {
        Constraint { doc: "", member: false, items: Size::ANY, ..*self }
    }

    /// Writes the first keywords of every schema: `type`, and `description` if the field has a doc
    /// comment.
    pub fn begin(&self, w: &mut Writer, kind: &str) {
        self.begin_with(w, kind, "");
    }

    /// Like `begin`, for a type with its own doc comment. The doc comment of the field wins.
    pub(super) fn begin_with(&self, w: &mut Writer, kind: &str, doc: &str) {
        self.head(w, kind, &self.prose_or(doc));
    }

    /// The doc comment of the field as text, otherwise `own`.
    pub(super) fn prose_or(&self, doc: &str) -> String {
        let text = prose(self.doc);
        if text.is_empty() { prose(doc) } else { text }
    }

    /// Writes the first keywords; omits an empty description.
    pub(super) fn head(&self, w: &mut Writer, kind: &str, description: &str) {
        if !kind.is_empty() {
            w.key("type").string(kind);
        }
        if !description.is_empty() {
            w.key("description").string(description);
        }
    }
}

/// An inclusive range of counts.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub(super) min: usize,
    pub(super) max: usize,
}

impl Size {
    /// Unbounded.
    pub(super) const ANY: Size = Size { min: 0, max: usize::MAX };

    /// One size only.
    pub(super) const fn exactly(size: usize) -> Size {
        Size { min: size, max: size }
    }

    /// The range between two ends, which may be open. Panics at compile time with this message if
    /// it is empty.
    pub const fn between(ends: (Option<usize>, Option<usize>), nothing: &str) -> Size {
        let size = Size {
            min: match ends.0 {
                Some(min) => min,
                None => 0,
            },
            max: match ends.1 {
                Some(max) => max,
                None => usize::MAX,
            },
        };
        assert!(size.min <= size.max, "{}", nothing);
        size
    }

    /// The keyword of the bound that `count` violates.
    pub(super) fn complaint(
        self,
        count: usize,
        min: &'static str,
        max: &'static str,
    ) -> Option<&'static str> {
        if count < self.min {
            return Some(min);
        }
        (count > self.max).then_some(max)
    }

    /// Writes the two keywords if they are not trivial.
    pub(super) fn write(self, w: &mut Writer, min: &str, max: &str) {
        if self.min > 0 {
            w.key(min).u64(self.min as u64);
        }
        if self.max < usize::MAX {
            w.key(max).u64(self.max as u64);
        }
    }
}

/// Splits a range at compile time. `N` follows from the type of the field, so the numbers need no
/// suffix.
#[doc(hidden)]
#[derive(Debug)]
pub struct Ends<N, R>(R, PhantomData<N>);

impl<N, R> Ends<N, R> {
    pub const fn new(range: R) -> Ends<N, R> {
        Ends(range, PhantomData)
    }
}

impl<N: Copy> Ends<N, RangeInclusive<N>> {
    pub const fn pair(&self) -> (Option<N>, Option<N>) {
        (Some(*self.0.start()), Some(*self.0.end()))
    }
}

impl<N: Copy> Ends<N, RangeFrom<N>> {
    pub const fn pair(&self) -> (Option<N>, Option<N>) {
        (Some(self.0.start), None)
    }
}

impl<N: Copy> Ends<N, RangeToInclusive<N>> {
    pub const fn pair(&self) -> (Option<N>, Option<N>) {
        (None, Some(self.0.end))
    }
}

/// Fails the compilation, because this function runs at compile time only.
#[allow(clippy::panic, reason = "runs at compile time only")]
const fn exclusive() -> ! {
    panic!("bounds have an inclusive end: write `[0..=8]`, not `[0..9]`")
}

impl<N: Copy> Ends<N, Range<N>> {
    pub const fn pair(&self) -> (Option<N>, Option<N>) {
        exclusive()
    }
}

impl<N: Copy> Ends<N, RangeTo<N>> {
    pub const fn pair(&self) -> (Option<N>, Option<N>) {
        exclusive()
    }
}

/// Types with a numeric range `[0..=27]`: numbers and containers of numbers.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a range of numbers cannot bound `{Self}`",
    note = "`[0..=9]` is for numbers, `[len 0..=9]` for strings, `[items 0..=9]` for arrays and maps"
)]
pub trait Ranged {
    /// The number type of the ends of the range.
    type Number: Copy;
    /// True if the number type is floating-point.
    const FLOAT: bool = false;
}

/// Types with a length `[len 0..=80]`: strings and containers of strings.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a length cannot bound `{Self}`",
    note = "`[0..=9]` is for numbers, `[len 0..=9]` for strings, `[items 0..=9]` for arrays and maps"
)]
pub trait Measured {}

/// Types with a number of items `[items 0..=8]`: arrays and maps.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a number of items cannot bound `{Self}`",
    note = "`[0..=9]` is for numbers, `[len 0..=9]` for strings, `[items 0..=9]` for arrays and maps"
)]
pub trait Counted {}

/// Returns `true` if the numbers of a field are floating-point. A function, so that the compiler
/// points at the type if it has no numbers.
#[doc(hidden)]
pub const fn is_float<T: Ranged>() -> bool {
    T::FLOAT
}

/// The bounds of a string.
#[doc(hidden)]
pub const fn length<T: Measured>(ends: (Option<usize>, Option<usize>), nothing: &str) -> Size {
    Size::between(ends, nothing)
}

/// The bounds of an array or map.
#[doc(hidden)]
pub const fn items<T: Counted>(ends: (Option<usize>, Option<usize>), nothing: &str) -> Size {
    Size::between(ends, nothing)
}

macro_rules! ranged {
    ($($number:ty),*) => {$(
        impl Ranged for $number {
            type Number = $number;
        }
    )*};
}

ranged!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

macro_rules! ranged_without_zero {
    ($($type:ty => $number:ty),*) => {$(
        impl Ranged for $type {
            type Number = $number;
        }
    )*};
}

ranged_without_zero!(NonZeroU8 => u8, NonZeroU16 => u16, NonZeroU32 => u32, NonZeroU64 => u64, NonZeroUsize => usize);

impl Ranged for f64 {
    type Number = f64;
    const FLOAT: bool = true;
}

impl Ranged for f32 {
    type Number = f64;
    const FLOAT: bool = true;
}

impl Measured for String {}

impl Measured for PathBuf {}

impl<T: Ranged> Ranged for Option<T> {
    type Number = T::Number;
    const FLOAT: bool = T::FLOAT;
}

impl<T: Measured> Measured for Option<T> {}

impl<T: Counted> Counted for Option<T> {}

impl<T: Ranged> Ranged for Vec<T> {
    type Number = T::Number;
    const FLOAT: bool = T::FLOAT;
}

impl<T: Measured> Measured for Vec<T> {}

impl<T> Counted for Vec<T> {}

impl<T: Ranged> Ranged for BTreeMap<String, T> {
    type Number = T::Number;
    const FLOAT: bool = T::FLOAT;
}

impl<T: Measured> Measured for BTreeMap<String, T> {}

impl<T> Counted for BTreeMap<String, T> {}

impl<T: Ranged> Ranged for HashMap<String, T> {
    type Number = T::Number;
    const FLOAT: bool = T::FLOAT;
}

impl<T: Measured> Measured for HashMap<String, T> {}

impl<T> Counted for HashMap<String, T> {}

impl<T: Ranged, const N: usize> Ranged for [T; N] {
    type Number = T::Number;
    const FLOAT: bool = T::FLOAT;
}

impl<T: Measured, const N: usize> Measured for [T; N] {}

/// Converts a doc comment to text. Removes the space after the slashes and joins the lines of a
/// paragraph. An empty line and a line that starts a list item, a heading, a table row, a quotation
/// or an indented block keep their line break.
pub(super) fn prose(doc: &str) -> String {
    let mut text = String::new();
    let mut blank = false;
    for line in doc.lines() {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        if line.is_empty() {
            blank = true;
            continue;
        }
        if !text.is_empty() {
            let own_line = line.starts_with(['-', '*', '#', '|', '>', ' ']);
            text.push_str(match (blank, own_line) {
                (true, _) => "\n\n",
                (false, true) => "\n",
                (false, false) => " ",
            });
        }
        blank = false;
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn doc_comments_become_paragraphs() {
        for (doc, expected) in [
            ("", ""),
            ("\n", ""),
            (" Switches a pin.\n", "Switches a pin."),
            (" One\n two  \n three\n", "One two three"),
            ("\n\n One\n\n\n two\n\n", "One\n\ntwo"),
            (" Any of:\n - a\n   more\n - b\n", "Any of:\n- a\n  more\n- b"),
            ("no space\n", "no space"),
        ] {
            assert_eq!(prose(doc), expected, "{doc:?}");
        }
    }
}
