//! serde's `Deserializer` over a cursor on a document.

use serde_core::de::{self, Visitor};
use serde_core::forward_to_deserialize_any;

use crate::json::{Kind, Value};
use crate::record::{Constraint, FromJson};

use super::access::{Elements, Members, Text, Variant};
use super::error::{Error, members, words_of};
use super::{DEPTH, RAW_VALUE};

/// Reads one value.
#[derive(Clone, Copy)]
pub(super) struct Deserializer<'d> {
    pub(super) value: Value<'d>,
    /// Remaining levels of nesting for the value.
    pub(super) levels: u32,
}

impl<'d> Deserializer<'d> {
    pub(super) fn new(value: Value<'d>) -> Deserializer<'d> {
        Deserializer { value, levels: DEPTH }
    }

    /// The same value, one level deeper.
    fn deeper(self) -> Result<Deserializer<'d>, Error> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Deserializer { levels, ..self }),
            None => Err(Error::too_deep()),
        }
    }

    fn expect(self, kind: Kind, expected: &str) -> Result<(), Error> {
        if self.value.kind() == kind {
            return Ok(());
        }
        Err(Error::unexpected("type", expected, self.value))
    }

    /// Reads a scalar by the rules of `record!`.
    fn scalar<T: FromJson>(self) -> Result<T, Error> {
        Ok(T::from_json(self.value, &Constraint::NONE)?)
    }

    fn text(self, expected: &str) -> Result<&'d str, Error> {
        self.value.as_str().ok_or_else(|| Error::unexpected("type", expected, self.value))
    }

    fn array<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.expect(Kind::Array, "an array")?;
        let mut elements = Elements::new(self.value, self.deeper()?.levels);
        let read = visitor.visit_seq(&mut elements)?;
        elements.finish()?;
        Ok(read)
    }

    fn object<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Members::new(self.value, self.deeper()?.levels))
    }

    /// A number for a visitor that takes any value.
    fn number<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        if let Some(n) = self.value.as_u64() {
            return visitor.visit_u64(n);
        }
        if let Some(n) = self.value.as_i64() {
            return visitor.visit_i64(n);
        }
        #[cfg(feature = "serde_json")]
        if super::serde_json::keeps_text(self.value) {
            return visitor.visit_map(Text::new(super::NUMBER, self.value.raw()));
        }
        match self.value.as_f64() {
            Some(n) => visitor.visit_f64(n),
            None => Err(Error::unexpected("type", "a number in the range of 64-bit floats", self.value)),
        }
    }
}

macro_rules! scalars {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.scalar::<$type>()?)
        }
    )*};
}

impl<'d> de::Deserializer<'d> for Deserializer<'d> {
    type Error = Error;

    scalars! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
    }

    fn deserialize_i128<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value.as_number().and_then(|text| text.parse().ok()) {
            Some(n) => visitor.visit_i128(n),
            None => visitor.visit_i64(self.scalar()?),
        }
    }

    fn deserialize_u128<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value.as_number().and_then(|text| text.parse().ok()) {
            Some(n) => visitor.visit_u128(n),
            None => visitor.visit_u64(self.scalar()?),
        }
    }

    fn deserialize_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value.kind() {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool => visitor.visit_bool(self.scalar()?),
            Kind::String => visitor.visit_borrowed_str(self.text("a string")?),
            Kind::Number => self.number(visitor),
            Kind::Array => self.array(visitor),
            Kind::Object => self.object(visitor),
        }
    }

    fn deserialize_char<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.text("a string of 1 character")?)
    }

    fn deserialize_str<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.text("a string")?)
    }

    fn deserialize_string<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value.as_str() {
            Some(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
            None => self.array(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self.deeper()?) }
    }

    fn deserialize_unit<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.expect(Kind::Null, "null")?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'d>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'d>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == RAW_VALUE {
            return visitor.visit_map(Text::new(RAW_VALUE, self.value.raw()));
        }
        visitor.visit_newtype_struct(self.deeper()?)
    }

    fn deserialize_seq<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.array(visitor)
    }

    fn deserialize_tuple<V: Visitor<'d>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        if self.value.kind() != Kind::Array || self.value.len() != len {
            let s = if len == 1 { "" } else { "s" };
            return Err(Error::unexpected("type", &format!("an array of {len} item{s}"), self.value));
        }
        self.array(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'d>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.expect(Kind::Object, "an object")?;
        self.object(visitor)
    }

    fn deserialize_struct<V: Visitor<'d>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.value.kind() != Kind::Object {
            let expected = format!("an object with the members {}", members(fields));
            return Err(Error::unexpected("type", &expected, self.value));
        }
        self.object(visitor)
    }

    fn deserialize_enum<V: Visitor<'d>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.value.kind() == Kind::String {
            return visitor.visit_enum(Variant { name: self.value, content: None });
        }
        let mut members = self.value.member_values();
        match (members.next(), members.next()) {
            (Some((name, value)), None) => {
                let content = Deserializer { value, levels: self.deeper()?.levels };
                visitor.visit_enum(Variant { name, content: Some(content) })
            }
            _ => {
                let expected = format!("{}, alone or as the only member of an object", words_of(variants));
                Err(Error::unexpected("type", &expected, self.value))
            }
        }
    }

    fn deserialize_identifier<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

/// The name of a variant, which serde reads as an identifier.
pub(super) struct Name<'d>(pub(super) &'d str);

impl<'d> de::Deserializer<'d> for Name<'d> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    forward_to_deserialize_any! {
        <W: Visitor<'d>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
