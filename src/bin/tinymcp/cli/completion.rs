//! Commands `completions` and `__complete`: completion in shells.
//!
//! The script of a shell calls `tinymcp __complete WORD…` with the words up to the cursor and gets
//! candidates, one on each line. Commands and options come from the help; servers from the
//! configuration file; tools and prompts from the server, which is started for it.

use std::time::Duration;

use super::args::{Args, command_at};
use super::{HELP, connect, help_of};
use crate::escape::one_line;
use crate::{Result, out};

/// Time for the server's response. A person waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Candidates that are printed.
const MOST: usize = 1000;

const BASH: &str = r#"_tinymcp() {
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$(tinymcp __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}
complete -o default -F _tinymcp tinymcp
"#;
const ZSH: &str = r#"#compdef tinymcp
_tinymcp() {
    local -a candidates
    candidates=("${(@f)$(tinymcp __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [ -n "$candidates" ] && compadd -a candidates || _files
}
compdef _tinymcp tinymcp
"#;
const FISH: &str = r#"complete -c tinymcp -a '(tinymcp __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"#;

/// Prints the script of a shell.
pub(crate) fn script(words: &[&str]) -> Result<()> {
    let script = match words {
        ["bash"] => BASH,
        ["zsh"] => ZSH,
        ["fish"] => FISH,
        _ => return Err("expected a shell: bash, zsh or fish; see `tinymcp help completions`".to_owned()),
    };
    out(script.as_bytes())
}

/// Prints candidates for the last word.
pub(crate) fn complete(words: &[&str]) -> Result<()> {
    let Some((last, before)) = words.split_last() else { return Ok(()) };
    let mut text = String::new();
    let fitting = candidates(before, last).into_iter().map(|name| one_line(&name));
    for name in fitting.filter(|name| name.starts_with(last)).take(MOST) {
        text.push_str(&name);
        text.push('\n');
    }
    out(text.as_bytes())
}

fn candidates(before: &[&str], last: &str) -> Vec<String> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // The words of the server's command are not ours.
    if before.contains(&"--") {
        return Vec::new();
    }
    let Some(command) = command_at(before).and_then(|at| before.get(at)) else {
        return if last.starts_with('-') { options("list") } else { owned(&super::commands()) };
    };
    if last.starts_with('-') {
        return options(command);
    }
    match (before.last(), *command) {
        (Some(&"--server"), _) => return keys(before),
        (Some(&"--protocol"), _) => return owned(&["session", "stateless"]),
        _ => {}
    }
    match *command {
        "help" => owned(&super::commands()),
        "list" => owned(&["tools", "resources", "templates", "prompts"]),
        "completions" => owned(&["bash", "zsh", "fish"]),
        "explain" => tinymcp::lint::RULES.iter().map(|rule| rule.id.to_owned()).collect(),
        "complete" => owned(&["prompt", "template"]),
        "call" | "info" | "get" if before.last() == Some(command) => names(command, before, last),
        _ => Vec::new(),
    }
}

/// Returns the options that the help of a command names.
fn options(command: &str) -> Vec<String> {
    let help = match help_of(command) {
        Some(help) => help,
        None => HELP.to_owned(),
    };
    let words = help.split(|c: char| c.is_whitespace() || "[]|,;()".contains(c));
    let mut names: Vec<String> =
        words.filter(|word| word.len() > 2 && word.starts_with("--")).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the keys of the configuration file.
fn keys(before: &[&str]) -> Vec<String> {
    let given = before.iter().position(|word| *word == "--config").and_then(|at| before.get(at + 1));
    let file = given.map(Into::into).or_else(crate::discovery::find);
    let text = file.and_then(|file: std::path::PathBuf| std::fs::read_to_string(file).ok());
    let config = text.and_then(|text| tinymcp::Config::parse(&text).ok());
    config.map(|config| config.keys().map(str::to_owned).collect()).unwrap_or_default()
}

/// Returns the tools or prompts of a server, which is named by an option or before a colon.
fn names(command: &str, before: &[&str], last: &str) -> Vec<String> {
    let (mut args, mut prefix) = (Args::default(), String::new());
    let mut words = before.iter();
    while let Some(word) = words.next() {
        match *word {
            "--server" => args.server.key = words.next().map(|key| (*key).to_owned()),
            "--config" => args.server.config = words.next().map(Into::into),
            "--url" => args.server.url = words.next().map(|url| (*url).to_owned()),
            _ => {}
        }
    }
    if args.server.key.is_none() && args.server.url.is_none() {
        let Some((key, _)) = last.split_once(':') else {
            return keys(before).into_iter().map(|key| format!("{key}:")).collect();
        };
        args.server.key = Some(key.to_owned());
        prefix = format!("{key}:");
    }
    args.timeout = Some(TIMEOUT);
    let Ok(client) = connect::builder(&args).and_then(|client| connect::connect(client, &args)) else {
        return Vec::new();
    };
    let names: Vec<String> = match command {
        "get" => client.prompts().unwrap_or_default().into_iter().map(|prompt| prompt.name).collect(),
        _ => client.tools().unwrap_or_default().into_iter().map(|tool| tool.name).collect(),
    };
    names.into_iter().map(|name| format!("{prefix}{name}")).collect()
}
