//! Line and JSON pointer of a value in a definition file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Position of a value: displayed as `FILE:LINE: POINTER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Arc<Path>,
    /// From 1; 0 for a folder.
    pub(crate) line: usize,
    /// JSON pointer (RFC 6901); empty for the whole file.
    pub(crate) pointer: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.pointer.is_empty() {
            return Ok(());
        }
        // For people, a URI is easier to read without the escapes of a pointer.
        write!(f, ": {}", self.pointer.replace("~1", "/").replace("~0", "~"))
    }
}
