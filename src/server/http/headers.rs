//! Header fields of a request that are kept for handlers.

use crate::transport::http_server::Head;

/// Fields that the program selected by [`HttpServer::pass_header`](super::HttpServer::pass_header).
#[derive(Default)]
pub(super) struct Headers(Box<[(Box<str>, Box<str>)]>);

impl Headers {
    /// Returns the fields with these names. A field that is repeated or not text counts as absent:
    /// two readers could understand it differently.
    pub(super) fn of(head: &Head<'_>, names: &[String]) -> Headers {
        let field = |name: &String| {
            let value = std::str::from_utf8(head.field(name)?).ok()?;
            let repeated = value.contains('\0');
            (!repeated).then(|| (name.as_str().into(), value.into()))
        };
        Headers(names.iter().filter_map(field).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}
