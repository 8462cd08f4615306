//! What holds other types as a field type: options, arrays, maps, and any JSON value.
//!
//! It reads and describes them; the bounds on numbers and texts in a field's rule go on to the
//! elements.
//!
//! Invariants: room for elements is asked for by what the document holds, never by a number in it;
//! `None` in a record is absence, inside an array or map it is `null`, and the schema says so.

use std::collections::BTreeMap;

use crate::json::{Json, Kind, Value, Writer};

use super::FromJson;
use super::constraint::{Constraint, Size};
use super::scalar::{sized, wrong_size};
use super::violation::{Violation, unexpected};

/// A field that may be left out. `null` is read as absent too, but the schema does not offer it:
/// several hosts refuse schemas with a list of types, and models send `null` without being asked.
impl<T: FromJson> FromJson for Option<T> {
    const OPTIONAL: bool = true;
    const NESTING: u32 = T::NESTING;

    fn schema(w: &mut Writer, rule: &Constraint) {
        if rule.member {
            return T::schema(w, rule);
        }
        w.key("anyOf").begin_array().begin_object();
        T::schema(w, rule);
        w.end_object().begin_object();
        w.key("type").string("null").end_object().end_array();
    }

    fn from_json(value: Value<'_>, rule: &Constraint) -> Result<Option<T>, Box<Violation>> {
        if value.is_null() {
            return Ok(None);
        }
        T::from_json(value, rule).map(Some)
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    const NESTING: u32 = T::NESTING + 1;

    fn schema(w: &mut Writer, rule: &Constraint) {
        rule.begin(w, "array");
        w.key("items").begin_object();
        T::schema(w, &rule.element());
        w.end_object();
        rule.items.write(w, "minItems", "maxItems");
    }

    fn from_json(value: Value<'_>, rule: &Constraint) -> Result<Vec<T>, Box<Violation>> {
        /// An element takes more room as a Rust value than as two bytes of text; no more than this
        /// many bytes are asked for before the elements have proved to be what they should be.
        const ROOM: usize = 16 * 1024;
        container(value, Kind::Array, rule.items)?;
        let rule = rule.element();
        let mut items = Vec::with_capacity(value.len().min(ROOM / size_of::<T>().max(1)));
        for (i, item) in value.items().enumerate() {
            items.push(T::from_json(item, &rule).map_err(|violation| violation.within_item(i))?);
        }
        Ok(items)
    }
}

impl<T: FromJson> FromJson for BTreeMap<String, T> {
    const NESTING: u32 = T::NESTING + 1;

    fn schema(w: &mut Writer, rule: &Constraint) {
        rule.begin(w, "object");
        w.key("additionalProperties").begin_object();
        T::schema(w, &rule.element());
        w.end_object();
        rule.items.write(w, "minProperties", "maxProperties");
    }

    fn from_json(value: Value<'_>, rule: &Constraint) -> Result<Self, Box<Violation>> {
        container(value, Kind::Object, rule.items)?;
        let rule = rule.element();
        let mut map = BTreeMap::new();
        for (name, member) in value.members() {
            let member = T::from_json(member, &rule).map_err(|violation| violation.within(name))?;
            map.insert(name.to_owned(), member);
        }
        Ok(map)
    }
}

/// Any JSON value, kept as its text.
impl FromJson for Json {
    fn schema(w: &mut Writer, rule: &Constraint) {
        rule.begin(w, "");
    }

    fn from_json(value: Value<'_>, _: &Constraint) -> Result<Json, Box<Violation>> {
        Ok(value.to_json())
    }
}

/// Checks kind and size of an array or a map.
fn container(value: Value<'_>, kind: Kind, size: Size) -> Result<(), Box<Violation>> {
    let array = kind == Kind::Array;
    let (what, unit) = if array { ("an array", "item") } else { ("an object", "member") };
    if value.kind() != kind {
        let expected = sized(what, size, unit);
        return Err(unexpected("type", &expected, value));
    }
    let (min, max) = if array { ("minItems", "maxItems") } else { ("minProperties", "maxProperties") };
    match size.complaint(value.len(), min, max) {
        None => Ok(()),
        Some(keyword) => Err(wrong_size(keyword, what, size, value.len(), unit)),
    }
}
