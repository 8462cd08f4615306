//! Elements of arrays, members of objects and variants of enums, as serde reads them.

use serde_core::de::{self, DeserializeSeed, Visitor};

use crate::json::{Items, MemberValues, Value};

use super::deserialize::{Deserializer, Name};
use super::error::Error;
use super::map_key::KeyReader;

/// The elements of an array.
pub(super) struct Elements<'d> {
    items: Items<'d>,
    count: usize,
    levels: u32,
}

impl<'d> Elements<'d> {
    pub(super) fn new(array: Value<'d>, levels: u32) -> Elements<'d> {
        Elements { items: array.items(), count: array.len(), levels }
    }

    /// Rejects elements that the type did not read.
    pub(super) fn finish(self) -> Result<(), Error> {
        match self.items.len() {
            0 => Ok(()),
            left => {
                let (read, count) = (self.count - left, self.count);
                let s = if read == 1 { "" } else { "s" };
                let message = format!("expected an array of {read} item{s}, got one of {count}");
                Err(Error::new("maxItems", message))
            }
        }
    }
}

impl<'d> de::SeqAccess<'d> for Elements<'d> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'d>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let index = self.count - self.items.len();
        let Some(value) = self.items.next() else { return Ok(None) };
        match seed.deserialize(Deserializer { value, levels: self.levels }) {
            Ok(element) => Ok(Some(element)),
            Err(error) => Err(error.within_item(index)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The members of an object.
pub(super) struct Members<'d> {
    members: MemberValues<'d>,
    /// The member whose name was read.
    current: Option<(Value<'d>, Value<'d>)>,
    levels: u32,
}

impl<'d> Members<'d> {
    pub(super) fn new(object: Value<'d>, levels: u32) -> Members<'d> {
        Members { members: object.member_values(), current: None, levels }
    }
}

impl<'d> de::MapAccess<'d> for Members<'d> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'d>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.current = self.members.next();
        match self.current {
            None => Ok(None),
            Some((name, _)) => seed.deserialize(KeyReader { name }).map(Some),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'d>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((name, value)) = self.current.take() else {
            // A `Deserialize` that breaks serde's order of calls.
            return Err(Error::new("type", "the type reads a value before its name"));
        };
        seed.deserialize(Deserializer { value, levels: self.levels })
            .map_err(|error| error.within(name.as_str().unwrap_or_default()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.members.len())
    }
}

/// One variant of an enum: its name, and its content if it is an object's member.
pub(super) struct Variant<'d> {
    pub(super) name: Value<'d>,
    pub(super) content: Option<Deserializer<'d>>,
}

impl<'d> Variant<'d> {
    /// Reads the content with `read`.
    fn content<T>(self, read: impl FnOnce(Deserializer<'d>) -> Result<T, Error>) -> Result<T, Error> {
        let name = self.name.as_str().unwrap_or_default();
        match self.content {
            Some(content) => read(content).map_err(|error| error.within(name)),
            None => {
                let expected = format!("an object with the member `{name}`");
                Err(Error::unexpected("type", &expected, self.name))
            }
        }
    }
}

impl<'d> de::EnumAccess<'d> for Variant<'d> {
    type Error = Error;
    type Variant = Variant<'d>;

    fn variant_seed<S: DeserializeSeed<'d>>(self, seed: S) -> Result<(S::Value, Variant<'d>), Error> {
        let variant = seed.deserialize(Name(self.name.as_str().unwrap_or_default()))?;
        Ok((variant, self))
    }
}

impl<'d> de::VariantAccess<'d> for Variant<'d> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.content {
            None => Ok(()),
            Some(_) => self.content(|content| {
                if content.value.is_null() {
                    return Ok(());
                }
                Err(Error::unexpected("type", "null", content.value))
            }),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'d>>(self, seed: S) -> Result<S::Value, Error> {
        self.content(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'d>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.content(|content| de::Deserializer::deserialize_tuple(content, len, visitor))
    }

    fn struct_variant<V: Visitor<'d>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content(|content| de::Deserializer::deserialize_struct(content, "", fields, visitor))
    }
}

/// A text in the form of a map with one member, as the types of serde_json expect it.
pub(super) struct Text<'d> {
    name: &'static str,
    text: Option<&'d str>,
}

impl<'d> Text<'d> {
    pub(super) fn new(name: &'static str, text: &'d str) -> Text<'d> {
        Text { name, text: Some(text) }
    }
}

impl<'d> de::MapAccess<'d> for Text<'d> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'d>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.text {
            Some(_) => seed.deserialize(Name(self.name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'d>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Name(self.text.take().unwrap_or_default()))
    }
}
