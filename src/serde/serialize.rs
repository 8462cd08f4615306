//! serde's `Serializer` into a [`Writer`].

use std::fmt;

use serde_core::ser::{self, Serialize};

use crate::json::{Doc, Kind, ToJson, Writer};

use super::error::Error;
use super::map_key::KeyWriter;
use super::{DEPTH, NUMBER, RAW_VALUE};

/// Writes one value.
pub(super) struct Serializer<'w> {
    w: &'w mut Writer,
    /// Remaining levels of nesting for the value.
    levels: u32,
}

impl<'w> Serializer<'w> {
    pub(super) fn new(w: &'w mut Writer) -> Serializer<'w> {
        Serializer { w, levels: DEPTH }
    }

    /// The same place, one level deeper.
    fn deeper(self) -> Result<Serializer<'w>, Error> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Serializer { levels, ..self }),
            None => Err(Error::too_deep()),
        }
    }

    fn begin(self, end: End) -> Result<Compound<'w>, Error> {
        let Serializer { w, levels } = self.deeper()?;
        match end {
            End::Array | End::VariantArray => w.begin_array(),
            End::Object | End::VariantObject => w.begin_object(),
            // The text is not written in parts.
            End::Text => w,
        };
        Ok(Compound { w, levels, end })
    }

    /// Opens the object whose only member is the variant's content.
    fn variant(self, name: &str) -> Result<Serializer<'w>, Error> {
        let deeper = self.deeper()?;
        deeper.w.begin_object().key(name);
        Ok(deeper)
    }
}

/// Brackets that close a compound value.
#[derive(Clone, Copy)]
enum End {
    Array,
    Object,
    /// An array, and the object of its variant.
    VariantArray,
    VariantObject,
    /// None: a finished text of serde_json.
    Text,
}

/// An array or object that is being written.
pub(super) struct Compound<'w> {
    w: &'w mut Writer,
    levels: u32,
    end: End,
}

impl Compound<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(Serializer { w: &mut *self.w, levels: self.levels })
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        if matches!(self.end, End::Text) {
            return self.finished(name, value);
        }
        self.w.key(name);
        self.item(value).map_err(|error| error.within(name))
    }

    /// Writes a number or a value that serde_json passes as text.
    #[cold]
    fn finished<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        let text = super::to_json(value).map_err(Error::from)?.to_doc();
        let doc = text.root().as_str().and_then(|text| Doc::parse(text).ok());
        match doc {
            Some(doc) if name == RAW_VALUE || doc.root().kind() == Kind::Number => {
                self.w.value(doc.root());
                Ok(())
            }
            _ => Err(Error::new("type", format!("the member {name:?} is not a JSON text"))),
        }
    }

    fn close(self) {
        match self.end {
            End::Array => self.w.end_array(),
            End::Object => self.w.end_object(),
            End::VariantArray => self.w.end_array().end_object(),
            End::VariantObject => self.w.end_object().end_object(),
            End::Text => self.w,
        };
    }
}

macro_rules! written {
    ($($method:ident $write:ident $type:ty;)*) => {$(
        fn $method(self, value: $type) -> Result<(), Error> {
            self.w.$write(value.into());
            Ok(())
        }
    )*};
}

impl<'w> ser::Serializer for Serializer<'w> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'w>;
    type SerializeTuple = Compound<'w>;
    type SerializeTupleStruct = Compound<'w>;
    type SerializeTupleVariant = Compound<'w>;
    type SerializeMap = Compound<'w>;
    type SerializeStruct = Compound<'w>;
    type SerializeStructVariant = Compound<'w>;

    written! {
        serialize_bool bool bool;
        serialize_i8 i64 i8;
        serialize_i16 i64 i16;
        serialize_i32 i64 i32;
        serialize_i64 i64 i64;
        serialize_u8 u64 u8;
        serialize_u16 u64 u16;
        serialize_u32 u64 u32;
        serialize_u64 u64 u64;
        serialize_f64 f64 f64;
    }

    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        self.w.raw(&value.to_string());
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.w.raw(&value.to_string());
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        value.write_json(self.w);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        value.write_json(self.w);
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.w.string(value);
        Ok(())
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.w.string_fmt(format_args!("{value}"));
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        value.write_json(self.w);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self.deeper()?)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.w.null();
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self.deeper()?)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let Serializer { w, levels } = self.variant(variant)?;
        value.serialize(Serializer { w: &mut *w, levels }).map_err(|error| error.within(variant))?;
        w.end_object();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'w>, Error> {
        self.begin(End::Array)
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'w>, Error> {
        self.begin(End::Array)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'w>, Error> {
        self.begin(End::Array)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'w>, Error> {
        self.variant(variant)?.begin(End::VariantArray)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'w>, Error> {
        self.begin(End::Object)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Compound<'w>, Error> {
        self.begin(if matches!(name, NUMBER | RAW_VALUE) { End::Text } else { End::Object })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'w>, Error> {
        self.variant(variant)?.begin(End::VariantObject)
    }
}

macro_rules! sequences {
    ($($trait:ident $method:ident;)*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    )*};
}

sequences! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! structs {
    ($($trait:ident)*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.member(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        }
    )*};
}

structs!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        key.serialize(KeyWriter(&mut *self.w))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.item(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}
