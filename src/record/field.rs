//! Field table of a record: one row per field, used by code shared by all records.
//!
//! Finds the members of an object in one pass, writes the schema of an object or a choice, and
//! contains the small generic steps of the macros' output. Depends on no specific type.
//!
//! Invariants:
//! - The names in a table are distinct; the macros check it at compile time.
//! - Members are read in the order of the table, whatever their order in the document.
//! - Nothing is allocated here unless the value is invalid.

use std::cell::Cell;

use crate::json::{Doc, Kind, ToJson, Value, Writer};

use super::constraint::Constraint;
use super::violation::{Violation, missing_members, not_a_word, not_an_object, unknown_member, untagged};
use super::{FromJson, Record, constraint};

/// A row of a record's table.
#[doc(hidden)]
#[derive(Debug)]
pub struct Field {
    pub(super) name: &'static str,
    pub(super) required: bool,
    constraint: Constraint,
    schema: fn(&mut Writer, &Constraint),
    /// Writes the default.
    preset: Option<WritePreset>,
}

/// Writes a default. Returns the violation of a default that its own field would reject.
pub(super) type WritePreset = fn(&mut Writer, &Constraint) -> Option<Box<Violation>>;

/// One variant of an enum with data: an object whose first member is the tag.
#[doc(hidden)]
#[derive(Debug)]
pub struct Variant {
    pub name: &'static str,
    pub doc: &'static str,
    /// The tag, then the fields.
    pub fields: &'static [Field],
}

impl Field {
    /// The row of the tag of an enum's variants. Its value is checked before the fields are read.
    pub const fn tag(name: &'static str) -> Field {
        Field { name, required: true, constraint: Constraint::NONE, schema: |_, _| {}, preset: None }
    }

    /// The row of a field of type `T`. Panics at compile time with this message if the default is
    /// not allowed.
    pub const fn new<T: FromJson>(
        name: &'static str,
        constraint: Constraint,
        preset: Option<WritePreset>,
        needless: &str,
    ) -> Field {
        assert!(!(T::OPTIONAL && preset.is_some()), "{}", needless);
        Field { name, required: !T::OPTIONAL && preset.is_none(), constraint, schema: T::schema, preset }
    }
}

/// The members of one object, in the order of the table.
#[doc(hidden)]
#[derive(Debug)]
pub struct Members<'a, 'd> {
    fields: &'static [Field],
    found: &'a [Option<Value<'d>>],
    next: usize,
}

impl<'a, 'd> Members<'a, 'd> {
    /// Assigns the members of `value` to `found`, which has one slot per field. Rejects unknown
    /// members. An optional member counts as absent if it is `null`, because many callers send
    /// `null` for an absent member.
    pub fn find(
        value: Value<'d>,
        fields: &'static [Field],
        found: &'a mut [Option<Value<'d>>],
    ) -> Result<Members<'a, 'd>, Box<Violation>> {
        if value.kind() != Kind::Object {
            return Err(not_an_object(value, fields));
        }
        // Members are mostly in the order of the definition, so the search starts after the last
        // hit.
        let mut next = 0;
        for (name, member) in value.named() {
            let is = |field: &Field| field.name.as_bytes() == name;
            let at = match fields.get(next) {
                Some(field) if is(field) => next,
                _ => match fields.iter().position(is) {
                    Some(at) => at,
                    None => return Err(unknown_member(&String::from_utf8_lossy(name), fields)),
                },
            };
            next = at + 1;
            if let (Some(place), Some(field)) = (found.get_mut(at), fields.get(at)) {
                *place = (field.required || !member.is_null()).then_some(member);
            }
        }
        let mut rows = fields.iter().zip(found.iter());
        if rows.any(|(field, value)| field.required && value.is_none()) {
            return Err(missing_members(fields, found));
        }
        Ok(Members { fields, found, next: 0 })
    }

    /// Finds the variant that the tag of `value` names, and its members.
    pub fn of_variant(
        value: Value<'d>,
        tag: &'static str,
        variants: &'static [Variant],
        found: &'a mut [Option<Value<'d>>],
    ) -> Result<(&'static str, Members<'a, 'd>), Box<Violation>> {
        if value.kind() != Kind::Object {
            return Err(untagged(value, tag));
        }
        let Some(named) = value.get(tag) else {
            return Err(Violation::new("required", format!("missing `{tag}`")));
        };
        let Some(variant) = variants.iter().find(|variant| named.as_str() == Some(variant.name)) else {
            let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
            return Err(not_a_word(named, &names).within(tag));
        };
        let mut members = Members::find(value, variant.fields, found)?;
        // The tag itself.
        members.next = 1;
        Ok((variant.name, members))
    }

    fn next(&mut self) -> (Option<&'static Field>, Option<Value<'d>>) {
        let at = self.next;
        self.next += 1;
        (self.fields.get(at), self.found.get(at).copied().flatten())
    }

    /// Reads the next field.
    pub fn read<T: FromJson>(&mut self) -> Result<T, Box<Violation>> {
        if let Some(value) = self.read_present()? {
            return Ok(value);
        }
        // OK because `find` has checked that required members are present.
        T::absent().ok_or_else(|| missing_members(self.fields, self.found))
    }

    /// Reads the next field, which has a default.
    pub fn read_or<T: FromJson>(&mut self, preset: fn() -> T) -> Result<T, Box<Violation>> {
        Ok(self.read_present()?.unwrap_or_else(preset))
    }

    fn read_present<T: FromJson>(&mut self) -> Result<Option<T>, Box<Violation>> {
        let (Some(field), Some(value)) = self.next() else {
            return Ok(None);
        };
        match T::from_json(value, &field.constraint) {
            Ok(value) => Ok(Some(value)),
            Err(violation) => Err(violation.within(field.name)),
        }
    }
}

/// Writes the schema of a record.
#[doc(hidden)]
pub fn object_schema<T: Record>(w: &mut Writer, constraint: &Constraint) {
    write_members(w, constraint, T::DOC, T::FIELDS, None);
}

/// `tag` is the member with a fixed value, and that value.
fn write_members(
    w: &mut Writer,
    constraint: &Constraint,
    doc: &str,
    fields: &'static [Field],
    tag: Option<(&str, &str)>,
) {
    constraint.begin_with(w, "object", doc);
    if !fields.is_empty() {
        w.key("properties").begin_object();
        for field in fields {
            w.key(field.name).begin_object();
            if let Some((_, value)) = tag.filter(|(tag, _)| *tag == field.name) {
                w.key("const").string(value);
            }
            (field.schema)(w, &field.constraint);
            if let Some(preset) = field.preset {
                w.key("default");
                if let Some(violation) = preset(w, &field.constraint) {
                    let definition_error =
                        format!("the default of `{}` violates its own bounds: {violation}", field.name);
                    FLAW.set(Some(definition_error));
                }
            }
            w.end_object();
        }
        w.end_object();
    }
    // An empty list states that no member is required; without the list nothing is stated.
    if !fields.is_empty() {
        w.key("required").begin_array();
        for field in fields.iter().filter(|field| field.required) {
            w.string(field.name);
        }
        w.end_array();
    }
    w.key("additionalProperties").bool(false);
}

/// Writes the schema of an enum with data: an object that matches one of the variants.
#[doc(hidden)]
pub fn variants_schema(
    w: &mut Writer,
    constraint: &Constraint,
    doc: &str,
    tag: &str,
    variants: &'static [Variant],
) {
    constraint.begin_with(w, "object", doc);
    w.key("anyOf").begin_array();
    for variant in variants {
        w.begin_object();
        write_members(w, &Constraint::NONE, variant.doc, variant.fields, Some((tag, variant.name)));
        w.end_object();
    }
    w.end_array();
}

/// Writes the schema of a choice. Comments on single words become part of the description, since
/// `enum` has no place for them.
#[doc(hidden)]
pub fn choice_schema(w: &mut Writer, constraint: &Constraint, doc: &str, words: &[&str], docs: &[&str]) {
    let mut text = constraint.prose_or(doc);
    for (word, doc) in words.iter().zip(docs) {
        let doc = constraint::prose(doc);
        if !doc.is_empty() {
            let line = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{line}- {word}: {doc}"));
        }
    }
    constraint.head(w, "string", &text);
    w.key("enum").begin_array();
    for word in words {
        w.string(word);
    }
    w.end_array();
}

/// Writes one member of a record; writes nothing for `None`.
#[doc(hidden)]
pub fn write_member<T: FromJson + ToJson>(w: &mut Writer, name: &str, value: &T) {
    if !value.is_absent() {
        w.key(name);
        value.write_json(w);
    }
}

thread_local! {
    /// The error of the last default that violated its field.
    static FLAW: Cell<Option<String>> = const { Cell::new(None) };
}

/// Writes a default and reads it back. A default that violates the bounds of its own field is a
/// mistake in the program, which [`definition_error`] reports.
#[doc(hidden)]
pub fn write_preset<T: FromJson + ToJson>(
    w: &mut Writer,
    constraint: &Constraint,
    value: &T,
) -> Option<Box<Violation>> {
    let start = w.len();
    value.write_json(w);
    let text = w.as_bytes().get(start..).unwrap_or_default();
    let doc = Doc::parse(text).ok()?;
    T::from_json(doc.root(), constraint).err()
}

/// The error in the defaults of a schema that `write` writes.
pub(super) fn definition_error(write: fn(&mut Writer, &Constraint)) -> Option<String> {
    FLAW.take();
    write(&mut Writer::new(), &Constraint::NONE);
    FLAW.take()
}

/// Types of a default: the type of the field itself, a literal for a `String`, an array for a
/// `Vec`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a default for `{T}`",
    note = "a default is a value of the field's type; a `String` also takes a literal, a `Vec` an array; an `Option` has none: its default is `None`"
)]
pub trait Preset<T> {
    fn preset(self) -> T;
}

impl<T> Preset<T> for T {
    fn preset(self) -> T {
        self
    }
}

impl Preset<String> for &str {
    fn preset(self) -> String {
        self.to_owned()
    }
}

impl<T, const N: usize> Preset<Vec<T>> for [T; N] {
    fn preset(self) -> Vec<T> {
        self.into()
    }
}

/// Converts a default to the type of the field.
#[doc(hidden)]
pub fn preset<T, P: Preset<T>>(value: P) -> T {
    value.preset()
}

/// An enum with data.
#[doc(hidden)]
pub trait Tagged {
    const VARIANTS: &'static [Variant];
}

/// The length of the longest table.
#[doc(hidden)]
pub const fn most_fields(variants: &[Variant]) -> usize {
    let mut most = 0;
    let mut rest = variants;
    while let [first, others @ ..] = rest {
        if first.fields.len() > most {
            most = first.fields.len();
        }
        rest = others;
    }
    most
}

/// The maximum of some numbers; 0 for an empty list.
#[doc(hidden)]
pub const fn largest(numbers: &[u32]) -> u32 {
    let mut largest = 0;
    let mut rest = numbers;
    while let [first, others @ ..] = rest {
        if *first > largest {
            largest = *first;
        }
        rest = others;
    }
    largest
}

/// An identifier without its raw prefix: `type` for `r#type`.
#[doc(hidden)]
pub const fn plain(identifier: &'static str) -> &'static str {
    if let [b'r', b'#', rest @ ..] = identifier.as_bytes() {
        if let Ok(rest) = std::str::from_utf8(rest) {
            return rest;
        }
    }
    identifier
}

/// Fails the compilation if a name occurs twice. Each name has the error message beside it.
#[doc(hidden)]
pub const fn distinct(names: &[(&str, &str)]) {
    let mut rest = names;
    while let [(first, _), others @ ..] = rest {
        let mut others_left = others;
        while let [(other, twice), more @ ..] = others_left {
            assert!(!same(first.as_bytes(), other.as_bytes()), "{}", *twice);
            others_left = more;
        }
        rest = others;
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let (mut a, mut b) = (a, b);
    while let ([x, more_a @ ..], [y, more_b @ ..]) = (a, b) {
        if *x != *y {
            return false;
        }
        (a, b) = (more_a, more_b);
    }
    a.is_empty() && b.is_empty()
}
