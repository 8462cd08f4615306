//! Values of the embedding program that handlers get by their type.

use std::any::{Any, TypeId};

/// Values by type. There are few, so a search is faster than a table.
#[derive(Default)]
pub(crate) struct Provided(Vec<(TypeId, Box<dyn Any + Send + Sync>)>);

impl Provided {
    /// Adds a value. Replaces an earlier value of this type.
    pub(super) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.retain(|(kind, _)| *kind != TypeId::of::<T>());
        self.0.push((TypeId::of::<T>(), Box::new(value)));
    }

    /// Returns the value of this type.
    pub(super) fn get<T: 'static>(&self) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(kind, _)| *kind == TypeId::of::<T>())?;
        value.downcast_ref()
    }
}
