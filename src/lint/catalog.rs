//! Tool catalogs for the lint: JSON texts and tool descriptors of this library.
//!
//! A catalog text is the result of `tools/list`, a JSON-RPC response with such a result, or an
//! array of tools. Any other text is an error.
//!
//! Invariant: every tool of a snapshot is an object with a name.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Doc, Json, Kind, ParseError, ParseLimits, Value};

/// A catalog of tools as JSON.
///
/// ```
/// use tinymcp::lint::{self, Snapshot};
///
/// // The result of `tools/list`, a response with one, or the list alone.
/// let catalog = Snapshot::parse(r#"[{"name": "erase", "inputSchema": {"type": "object"}}]"#)?;
/// for finding in lint::check(&catalog).findings {
///     println!("{finding}");
/// }
/// # Ok::<(), lint::SnapshotError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    doc: Doc,
    /// Pointer to the array of tools.
    path: &'static str,
}

/// Error of [`Snapshot::parse`]. See [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The text is not JSON.
    Json(ParseError),
    /// The JSON has another shape, described here.
    Shape(String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Json(e) => write!(f, "{e}"),
            SnapshotError::Shape(what) => write!(
                f,
                "{what}; expected a tools/list result ({{\"tools\": […]}}), a JSON-RPC response with one, or an array of tools"
            ),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// Largest catalog. 64 MiB: a thousand times a large one.
const BYTES: usize = 64 << 20;

impl Snapshot {
    /// Parses a catalog.
    ///
    /// # Errors
    /// The text is not JSON, or has no list of tools.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Snapshot, SnapshotError> {
        let mut doc = Doc::default();
        let limits = ParseLimits { bytes: BYTES, nodes: 1 << 24, ..ParseLimits::default() };
        doc.parse_again(text.as_ref(), &limits).map_err(SnapshotError::Json)?;
        let path = find(doc.root())?;
        let snapshot = Snapshot { doc, path };
        for (i, tool) in snapshot.tools().enumerate() {
            if tool.get("name").and_then(Value::as_str).is_none() {
                return Err(SnapshotError::Shape(format!(
                    "{}/{i} is not a tool: it has no name",
                    snapshot.path
                )));
            }
        }
        Ok(snapshot)
    }

    /// The catalog of an array of tools that this program has written.
    pub(crate) fn of_array(tools: &Json) -> Snapshot {
        Snapshot { doc: tools.to_doc(), path: "" }
    }

    /// The tools, in the order of the text.
    pub fn tools(&self) -> impl Iterator<Item = Value<'_>> {
        self.doc.root().pointer(self.path).map(Value::items).into_iter().flatten()
    }

    /// The text of the catalog.
    pub fn text(&self) -> &str {
        self.doc.text()
    }

    /// Returns `true` if `nextCursor` announces more tools.
    pub fn is_partial(&self) -> bool {
        let cursor = |path| self.doc.root().pointer(path).is_some_and(|c| !c.is_null());
        cursor("/nextCursor") || cursor("/result/nextCursor")
    }
}

fn find(root: Value<'_>) -> Result<&'static str, SnapshotError> {
    let shape = |what: &str| Err(SnapshotError::Shape(what.to_owned()));
    match root.kind() {
        Kind::Array => Ok(""),
        Kind::Object => {
            for path in ["/tools", "/result/tools"] {
                match root.pointer(path).map(Value::kind) {
                    Some(Kind::Array) => return Ok(path),
                    Some(_) => return shape("the member tools is not an array"),
                    None => {}
                }
            }
            if root.get("error").is_some() {
                return shape("the JSON-RPC response is an error");
            }
            shape("the object has no member tools")
        }
        _ => shape("the text is neither an object nor an array"),
    }
}

/// A catalog that can be checked.
///
/// [`check`](super::check) and [`check_with`](super::check_with) accept it: a [`Snapshot`], one
/// [`Tool`](crate::Tool), or several, such as those of `Client::tools`.
///
/// ```
/// use tinymcp::{Tool, json, lint};
///
/// let schema = json!({"type": "object", "additionalProperties": false});
/// let tools = [Tool::new("erase").description("Erases all pins").input_schema(schema)];
/// assert_eq!(lint::check(&tools).criticals, 0);
/// ```
pub trait Tools {
    /// The catalog as JSON.
    fn snapshot(&self) -> Cow<'_, Snapshot>;
}

impl Tools for Snapshot {
    fn snapshot(&self) -> Cow<'_, Snapshot> {
        Cow::Borrowed(self)
    }
}
