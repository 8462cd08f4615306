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
pub(super) fn expand(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = (rest.get(..at).unwrap_or_default(), rest.get(at + 2..).unwrap_or_default());
        let Some((name, behind)) = from.split_once('}') else { break };
        expanded.push_str(before);
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        let (name, is_plain) = match (name.strip_prefix("input:"), name.strip_prefix("env:")) {
            (Some(id), _) => (&*input_variable(id), false),
            (None, Some(name)) => (name, false),
            (None, None) => (name, true),
        };
        let set = look_up(name).filter(|value| !value.is_empty() || default.is_none());
        let of_editor = || predefined(name, look_up).filter(|_| is_plain);
        match set.or_else(of_editor).or(default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None => return Err(unset(name)),
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the value that VS Code and Cursor define for a variable, if it exists without an editor.
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
    fn a_variable_of_the_environment_precedes_that_of_an_editor() {
        let look_up = |name: &str| (name == "workspaceFolder").then(|| "/chosen".to_owned());
        let chosen = format!("/chosen{}a", std::path::MAIN_SEPARATOR);
        assert_eq!(expand("${workspaceFolder}${/}a", &look_up), Ok(chosen));
        let empty = |_: &str| Some(String::new());
        assert_eq!(expand("${workspaceFolder}", &empty), Ok(String::new()));
    }
}
