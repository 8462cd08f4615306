//! Variables in the texts of a configuration, and files of variables.

use std::fs::File;
use std::io::Read;

/// Size limit of a file of variables in bytes.
const MAX_ENV_FILE: u64 = 1 << 20;

/// Reads lines `NAME=VALUE`. `export` before the name and quotes around the value are optional.
/// Skips empty lines and lines that begin with `#`.
pub(super) fn env_file(path: &str) -> Result<Vec<(String, String)>, String> {
    let refusal = |why: &dyn std::fmt::Display| format!("`envFile` {path}: {why}");
    let mut text = String::new();
    // Checked before opening: opening a FIFO would wait for its other end.
    if !std::fs::metadata(path).map_err(|error| refusal(&error))?.is_file() {
        return Err(refusal(&"not a regular file"));
    }
    let file = File::open(path).map_err(|error| refusal(&error))?;
    file.take(MAX_ENV_FILE + 1).read_to_string(&mut text).map_err(|error| refusal(&error))?;
    if text.len() as u64 > MAX_ENV_FILE {
        return Err(refusal(&"longer than 1 MiB"));
    }
    let mut variables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.strip_prefix("export ").unwrap_or(line).split_once('=');
        let Some((name, value)) = pair.filter(|(name, _)| !name.trim().is_empty()) else {
            return Err(refusal(&format_args!("line {}: expected NAME=VALUE", at + 1)));
        };
        let value = value.trim();
        let unquoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = unquoted('"').or_else(|| unquoted('\'')).unwrap_or(value);
        variables.push((name.trim().to_owned(), value.to_owned()));
    }
    Ok(variables)
}

/// Returns the name of the variable for an input that VS Code requests from the user.
fn input_variable(id: &str) -> String {
    let upper = id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("TINYMCP_INPUT_{}", upper.collect::<String>())
}

/// Replaces `${NAME}`, `${env:NAME}`, `${NAME:-default}`, `${input:id}` and the names of editors.
/// Leaves other expansions of a shell as they are, and `$${` becomes `${`.
pub(super) fn expand(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = (rest.get(..at).unwrap_or_default(), rest.get(at + 2..).unwrap_or_default());
        let Some((name, behind)) = from.split_once('}') else { break };
        let escaped = before.strip_suffix('$');
        expanded.push_str(escaped.unwrap_or(before));
        let value = match escaped {
            Some(_) => None,
            None => value_of(name, look_up)?,
        };
        match value {
            Some(value) => {
                expanded.push_str(&value);
                rest = behind;
            }
            None => {
                expanded.push_str("${");
                rest = from;
            }
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the value of the text between `${` and `}`, or `None` if it is not a variable of ours.
fn value_of(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let (name, default) = match text.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (text, None),
    };
    let (variable, is_plain) = match (name.strip_prefix("input:"), name.strip_prefix("env:")) {
        (Some(id), _) => (&*input_variable(id), false),
        (None, Some(name)) => (name, false),
        (None, None) => (name, true),
    };
    if default.is_some_and(|default| default.contains("${")) && (!is_plain || is_variable(name)) {
        return Err(format!("the default of ${{{name}}} must not contain a variable"));
    }
    let set = look_up(variable).filter(|value| !value.is_empty() || default.is_none());
    let of_editor = || predefined(variable, look_up).filter(|_| is_plain);
    if let Some(value) = set.or_else(of_editor) {
        return Ok(Some(value));
    }
    match default {
        _ if is_plain && !is_variable(name) => Ok(None),
        Some(default) => Ok(Some(default.to_owned())),
        None => Err(unset(variable)),
    }
}

/// Returns whether this is the name of a variable of the environment or of an editor, such as
/// `HOME` or `command:pick`. Shells have other names and operators: `${1}`, `${#X}`, `${X%/}`,
/// `${X:+Y}`, `${X:0:2}`.
fn is_variable(name: &str) -> bool {
    let (first, of_editor) = name.split_once(':').unwrap_or((name, "a"));
    let begins_with_letter = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins_with_letter(first)
        && begins_with_letter(of_editor)
        && first.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the value that VS Code and Cursor define for a variable, if it exists without an
/// editor.
fn predefined(name: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let folder = std::env::current_dir;
    match name {
        "workspaceFolder" | "workspaceRoot" | "cwd" => folder().ok()?.into_os_string().into_string().ok(),
        "workspaceFolderBasename" => {
            Some(folder().ok()?.file_name().unwrap_or_default().to_str()?.to_owned())
        }
        "userHome" => look_up("HOME").or_else(|| look_up("USERPROFILE")),
        "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR_STR.to_owned()),
        _ => None,
    }
}

/// Returns the error for a variable without a value.
fn unset(name: &str) -> String {
    match name.split_once(':') {
        None => format!("environment variable {name} is not set"),
        Some(_) => format!("only an editor has a value for ${{{name}}}: write the value in its place"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansions_of_a_shell_stay_as_they_are() {
        let look_up = |name: &str| match name {
            "N" | "ProgramFiles(x86)" => Some("value".to_owned()),
            _ => None,
        };
        for text in [
            "${_R%/}",
            "${N%%.*}",
            "${#X}",
            "${N:+z}",
            "${N:=z}",
            "${N:?unset}",
            "${N:0:3}",
            "${N-default}",
            "${1:-a}",
            "${@}",
            "${A[0]}",
            "${!N}",
            "${}",
            "${N",
            "$N",
            "$(x)",
        ] {
            assert_eq!(expand(text, &look_up).as_deref(), Ok(text));
        }
        for (text, expanded) in [
            ("${_R%/}/${N}", "${_R%/}/value"),
            ("${X%${N}}", "${X%value}"),
            ("$${N}", "${N}"),
            ("a$${X:-y}${N}", "a${X:-y}value"),
            ("${ProgramFiles(x86)}", "value"),
            ("${X:-y z}", "y z"),
            ("${X:-}", ""),
            ("${env:a-b:-c}", "c"),
        ] {
            assert_eq!(expand(text, &look_up).as_deref(), Ok(expanded), "{text}");
        }
        for (text, error) in [
            ("${X}", "environment variable X is not set"),
            ("${config:x.y}", "only an editor has a value for ${config:x.y}: write the value in its place"),
            ("${X:-${N}}", "the default of ${X} must not contain a variable"),
        ] {
            assert_eq!(expand(text, &look_up), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_variable_of_the_environment_precedes_that_of_an_editor() {
        let look_up = |name: &str| (name == "workspaceFolder").then(|| "/chosen".to_owned());
        let chosen = format!("/chosen{}a", std::path::MAIN_SEPARATOR);
        assert_eq!(expand("${workspaceFolder}${/}a", &look_up), Ok(chosen));
        let empty = |_: &str| Some(String::new());
        assert_eq!(expand("${workspaceFolder}", &empty), Ok(String::new()));
    }
}
