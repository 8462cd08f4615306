//! Walk over the values of a document, in the order of its text.
//!
//! The open containers are a list, not calls of functions: a peer or a file chooses the nesting.

use std::iter::Take;
use std::vec::IntoIter;

use tinymcp::json::{Items, Kind, Members, Value, Writer};

/// A part of a document.
pub(crate) enum Step<'d> {
    /// Name of a member; its value follows.
    Key(&'d str),
    /// Start of an object or an array.
    Begin(Value<'d>),
    /// End of an object or an array.
    End(Value<'d>),
    /// Any other value.
    Scalar(Value<'d>),
}

impl Step<'_> {
    /// Writes the part as it is.
    pub(crate) fn write(self, w: &mut Writer) {
        match self {
            Step::Key(name) => w.key(name),
            Step::Begin(container) if container.kind() == Kind::Object => w.begin_object(),
            Step::Begin(_) => w.begin_array(),
            Step::End(container) if container.kind() == Kind::Object => w.end_object(),
            Step::End(_) => w.end_array(),
            Step::Scalar(value) => match value.as_str() {
                Some(text) => w.string(text),
                None => w.value(value),
            },
        };
    }
}

enum Open<'d> {
    Members(Members<'d>),
    Sorted(IntoIter<(&'d str, Value<'d>)>),
    Items(Take<Items<'d>>),
}

/// Iterator over the parts of a value.
pub(crate) struct Walk<'d> {
    next: Option<Value<'d>>,
    open: Vec<(Value<'d>, Open<'d>)>,
    entries: usize,
    is_sorted: bool,
}

impl<'d> Walk<'d> {
    pub(crate) fn new(value: Value<'d>) -> Walk<'d> {
        Walk { next: Some(value), open: Vec::new(), entries: usize::MAX, is_sorted: false }
    }

    /// Visits only the first entries of each array.
    pub(crate) fn entries(self, entries: usize) -> Walk<'d> {
        Walk { entries, ..self }
    }

    /// Visits members in the order of their names.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))] // For catalogs.
    pub(crate) fn sorted(self) -> Walk<'d> {
        Walk { is_sorted: true, ..self }
    }

    /// Leaves out the value of the member whose name was the last part.
    pub(crate) fn skip_value(&mut self) {
        self.next = None;
    }

    /// Number of open objects and arrays.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))] // For catalogs.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns whether the next part is a value without parts.
    pub(crate) fn is_before_scalar(&self) -> bool {
        self.next.is_some_and(|value| !matches!(value.kind(), Kind::Object | Kind::Array))
    }

    fn enter(&mut self, value: Value<'d>) -> Step<'d> {
        let open = match value.kind() {
            Kind::Object if self.is_sorted => {
                let mut members: Vec<_> = value.members().collect();
                members.sort_by_key(|(name, _)| *name);
                Open::Sorted(members.into_iter())
            }
            Kind::Object => Open::Members(value.members()),
            Kind::Array => Open::Items(value.items().take(self.entries)),
            _ => return Step::Scalar(value),
        };
        self.open.push((value, open));
        Step::Begin(value)
    }
}

impl<'d> Iterator for Walk<'d> {
    type Item = Step<'d>;

    fn next(&mut self) -> Option<Step<'d>> {
        if let Some(value) = self.next.take() {
            return Some(self.enter(value));
        }
        let (container, open) = self.open.last_mut()?;
        let member = match open {
            Open::Members(members) => members.next(),
            Open::Sorted(members) => members.next(),
            Open::Items(items) => match items.next() {
                Some(item) => return Some(self.enter(item)),
                None => None,
            },
        };
        Some(match member {
            Some((name, value)) => {
                self.next = Some(value);
                Step::Key(name)
            }
            None => {
                let container = *container;
                self.open.pop();
                Step::End(container)
            }
        })
    }
}
