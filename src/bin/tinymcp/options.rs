//! Values of options, and errors about them, for the commands that parse their own options.

use std::ffi::OsString;

use lexopt::ValueExt;

use crate::Result;
use crate::serve::nearest;

/// Returns the value of the option that was parsed last.
pub(crate) fn value(parser: &mut lexopt::Parser) -> Result<OsString> {
    parser.value().map_err(|e| e.to_string())
}

/// Returns the value of the option that was parsed last, which must be UTF-8.
pub(crate) fn text(parser: &mut lexopt::Parser) -> Result<String> {
    parser.value().and_then(|value| value.string()).map_err(|e| e.to_string())
}

/// Sets an option that may be given once.
pub(crate) fn once<T>(name: &str, field: &mut Option<T>, value: T) -> Result<()> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("--{name} must be given at most once")),
    }
}

/// Returns the error for an option that a command does not have. `names` are the known ones, with a
/// space between two of them.
pub(crate) fn unknown(option: &str, command: &str, names: &str) -> String {
    let cure = match nearest(option.trim_start_matches('-'), &mut names.split(' ')) {
        Some(name) => format!("did you mean --{name}?"),
        None => format!("see `tinymcp help {command}`"),
    };
    format!("unknown option {option}; {cure}")
}
