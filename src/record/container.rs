//! Field types that contain other types: options, arrays, maps, and any JSON value.
//!
//! Bounds on numbers and strings in a field's constraint apply to the elements.
//!
//! Invariants:
//! - Memory for elements is reserved by what the document contains, never by a number in it.
//! - `None` in a record is an absent member; in an array or map it is `null`, which the schema
//!   lists.

use std::collections::{BTreeMap, HashMap};

use crate::json::{Json, Kind, Value, Writer};

use super::FromJson;
use super::constraint::{Constraint, Size};
use super::scalar::{sized, wrong_size};
use super::violation::{Violation, unexpected};

/// An optional field. `null` is read as absent, but the schema does not offer it: several hosts
/// reject schemas with a list of types, and models send `null` without need.
impl<T: FromJson> FromJson for Option<T> {
    const OPTIONAL: bool = true;
    const NESTING: u32 = T::NESTING;

    fn schema(w: &mut Writer, constraint: &Constraint) {
        if constraint.member {
            return T::schema(w, constraint);
        }
        w.key("anyOf").begin_array().begin_object();
        T::schema(w, constraint);
        w.end_object().begin_object();
        w.key("type").string("null").end_object().end_array();
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<Option<T>, Box<Violation>> {
        if value.is_null() {
            return Ok(None);
        }
        T::from_json(value, constraint).map(Some)
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

    fn schema(w: &mut Writer, constraint: &Constraint) {
        constraint.begin(w, "array");
        w.key("items").begin_object();
        T::schema(w, &constraint.element());
        w.end_object();
        constraint.items.write(w, "minItems", "maxItems");
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<Vec<T>, Box<Violation>> {
        /// An element can take more memory as a Rust value than as two bytes of text. At most this
        /// many bytes are reserved before the elements are checked.
        const ROOM: usize = 16 * 1024;
        container(value, Kind::Array, constraint.items)?;
        let constraint = constraint.element();
        let mut items = Vec::with_capacity(value.len().min(ROOM / size_of::<T>().max(1)));
        for (i, item) in value.items().enumerate() {
            items.push(T::from_json(item, &constraint).map_err(|violation| violation.within_item(i))?);
        }
        Ok(items)
    }
}

/// An array of exactly `N` elements.
impl<T: FromJson, const N: usize> FromJson for [T; N] {
    const NESTING: u32 = T::NESTING + 1;

    fn schema(w: &mut Writer, constraint: &Constraint) {
        Vec::<T>::schema(w, &constraint.items(Size::exactly(N)));
    }

    fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<[T; N], Box<Violation>> {
        let items = Vec::<T>::from_json(value, &constraint.items(Size::exactly(N)))?;
        // The number of elements has been checked.
        items.try_into().map_err(|_| unexpected("type", "an array", value))
    }
}

macro_rules! maps {
    ($($map:ident),*) => {$(
        impl<T: FromJson> FromJson for $map<String, T> {
            const NESTING: u32 = T::NESTING + 1;

            fn schema(w: &mut Writer, constraint: &Constraint) {
                constraint.begin(w, "object");
                w.key("additionalProperties").begin_object();
                T::schema(w, &constraint.element());
                w.end_object();
                constraint.items.write(w, "minProperties", "maxProperties");
            }

            fn from_json(value: Value<'_>, constraint: &Constraint) -> Result<Self, Box<Violation>> {
                container(value, Kind::Object, constraint.items)?;
                let constraint = constraint.element();
                let mut map = $map::new();
                for (name, member) in value.members() {
                    let member =
                        T::from_json(member, &constraint).map_err(|violation| violation.within(name))?;
                    map.insert(name.to_owned(), member);
                }
                Ok(map)
            }
        }
    )*};
}

maps!(BTreeMap, HashMap);

/// Any JSON value, as text.
impl FromJson for Json {
    fn schema(w: &mut Writer, constraint: &Constraint) {
        constraint.begin(w, "");
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
