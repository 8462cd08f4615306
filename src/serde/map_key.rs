//! Member names as keys of typed maps: numbers, booleans and unit variants are strings in JSON.

use serde_core::de::{self, DeserializeSeed, Visitor};
use serde_core::forward_to_deserialize_any;
use serde_core::ser::{self, Impossible, Serialize};

use crate::json::{Value, Writer};

use super::deserialize::Name;
use super::error::Error;

/// Reads a member's name as a key.
pub(super) struct KeyReader<'d> {
    pub(super) name: Value<'d>,
}

impl<'d> KeyReader<'d> {
    fn text(&self) -> &'d str {
        self.name.as_str().unwrap_or_default()
    }

    fn parse<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Error> {
        let unexpected = || Error::unexpected("propertyNames", expected, self.name);
        self.text().parse().map_err(|_| unexpected())
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $expected:literal;)*) => {$(
        fn $method<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse(concat!("a member name that is ", $expected))?)
        }
    )*};
}

impl<'d> de::Deserializer<'d> for KeyReader<'d> {
    type Error = Error;

    parsed! {
        deserialize_bool visit_bool "true or false";
        deserialize_i8 visit_i8 "an integer of 8 bits";
        deserialize_i16 visit_i16 "an integer of 16 bits";
        deserialize_i32 visit_i32 "an integer of 32 bits";
        deserialize_i64 visit_i64 "an integer of 64 bits";
        deserialize_i128 visit_i128 "an integer of 128 bits";
        deserialize_u8 visit_u8 "an integer of 8 bits without sign";
        deserialize_u16 visit_u16 "an integer of 16 bits without sign";
        deserialize_u32 visit_u32 "an integer of 32 bits without sign";
        deserialize_u64 visit_u64 "an integer of 64 bits without sign";
        deserialize_u128 visit_u128 "an integer of 128 bits without sign";
        deserialize_f32 visit_f32 "a number";
        deserialize_f64 visit_f64 "a number";
    }

    fn deserialize_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.text())
    }

    fn deserialize_option<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(Name(self.text()))
    }

    fn deserialize_newtype_struct<V: Visitor<'d>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'d>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(UnitVariant(self.text()))
    }

    forward_to_deserialize_any! {
        <W: Visitor<'d>>
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// A member's name as a variant without content.
struct UnitVariant<'d>(&'d str);

impl<'d> de::EnumAccess<'d> for UnitVariant<'d> {
    type Error = Error;
    type Variant = UnitVariant<'d>;

    fn variant_seed<S: DeserializeSeed<'d>>(self, seed: S) -> Result<(S::Value, UnitVariant<'d>), Error> {
        Ok((seed.deserialize(Name(self.0))?, self))
    }
}

impl<'d> de::VariantAccess<'d> for UnitVariant<'d> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'d>>(self, _: S) -> Result<S::Value, Error> {
        Err(not_a_key())
    }

    fn tuple_variant<V: Visitor<'d>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(not_a_key())
    }

    fn struct_variant<V: Visitor<'d>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(not_a_key())
    }
}

#[cold]
fn not_a_key() -> Error {
    Error::new(
        "propertyNames",
        "a map key must be a string, a number, a boolean, a character or a unit variant",
    )
}

/// Writes a key as a member's name.
pub(super) struct KeyWriter<'w>(pub(super) &'w mut Writer);

macro_rules! displayed {
    ($($method:ident $type:ty;)*) => {$(
        fn $method(self, value: $type) -> Result<(), Error> {
            self.0.key(&value.to_string());
            Ok(())
        }
    )*};
}

impl ser::Serializer for KeyWriter<'_> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Impossible<(), Error>;
    type SerializeTuple = Impossible<(), Error>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Impossible<(), Error>;
    type SerializeStructVariant = Impossible<(), Error>;

    displayed! {
        serialize_bool bool;
        serialize_i8 i8;
        serialize_i16 i16;
        serialize_i32 i32;
        serialize_i64 i64;
        serialize_i128 i128;
        serialize_u8 u8;
        serialize_u16 u16;
        serialize_u32 u32;
        serialize_u64 u64;
        serialize_u128 u128;
        serialize_char char;
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        if !value.is_finite() {
            return Err(not_a_key());
        }
        self.0.key(&value.to_string());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        if !value.is_finite() {
            return Err(not_a_key());
        }
        self.0.key(&value.to_string());
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.0.key(value);
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), Error> {
        Err(not_a_key())
    }

    fn serialize_none(self) -> Result<(), Error> {
        Err(not_a_key())
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Err(not_a_key())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Err(not_a_key())
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        Err(not_a_key())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Err(not_a_key())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(not_a_key())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        Err(not_a_key())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(not_a_key())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        Err(not_a_key())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Error> {
        Err(not_a_key())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(not_a_key())
    }
}
