//! Commands `completions` and `__complete`: completion in shells.
//!
//! The script of a shell calls `tinymcp __complete WORD…` with the words up to the cursor and gets
//! candidates, one on each line. Commands and options come from the help; servers from the
//! configuration file; tools, prompts, resources and arguments from the server, which is started
//! for it.
//!
//! # Invariants
//! - A candidate has no character that a shell interprets, and is not an option unless the user
//!   types one, because servers and files choose names.
//! - The scripts never expand a candidate.

use std::ffi::OsString;
use std::time::Duration;

use tinymcp::lint::{PROFILES, RULES};

use super::args::{Args, command_at, implied_command, needs_value};
use super::names::Names;
use super::{commands, connect, help, lists};
use crate::{Result, out};

/// Time for the server's response. A person waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of candidates that are printed.
const MAX_CANDIDATES: usize = 1000;

// Bash splits words at `=` and expands the words of `compgen -W`, so `compgen -W` is not used.
const BASH: &str = r#"_tinymcp() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <(tinymcp __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [[ ${COMPREPLY[0]-} == *[=:] ]] && compopt -o nospace 2>/dev/null
    return 0
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}
complete -o default -F _tinymcp tinymcp
"#;
const ZSH: &str = r#"#compdef tinymcp
_tinymcp() {
    local -a candidates open
    candidates=("${(@f)$(tinymcp __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    open=(${(M)candidates:#*[=:]})
    candidates=(${candidates:#*[=:]})
    (( $#open )) && compadd -S '' -a open
    (( $#candidates )) && compadd -a candidates
    (( $#open + $#candidates )) || _files
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
    let (words, shown) = joined(words);
    let Some((last, before)) = words.split_last() else { return Ok(()) };
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let mut text = String::new();
    let found = candidates(&before, last);
    let fitting = found.iter().map(|name| name.trim_end());
    let is_meant = |name: &&str| name.starts_with(last.as_str()) && is_plain(name, last);
    for name in fitting.filter(is_meant).take(MAX_CANDIDATES) {
        text.push_str(name.get(shown..).unwrap_or_default());
        text.push('\n');
    }
    out(text.as_bytes())
}

/// Joins words that Bash split at `=`. Returns them with the start of the part of the last word
/// that Bash completes.
fn joined(words: &[&str]) -> (Vec<String>, usize) {
    let mut joined: Vec<String> = Vec::new();
    let mut shown = 0;
    for (at, word) in words.iter().enumerate() {
        let follows = at > 0 && words.get(at - 1) == Some(&"=");
        match joined.last_mut() {
            Some(open) if *word == "=" || follows => {
                open.push_str(word);
                shown = open.rfind('=').map_or(0, |at| at + 1);
            }
            _ => {
                joined.push((*word).to_owned());
                shown = 0;
            }
        }
    }
    (joined, shown)
}

/// Returns whether a candidate for this word is a name, or an argument or option with a value, that
/// no shell interprets. Zsh expands a word that begins with `=`.
fn is_plain(candidate: &str, word: &str) -> bool {
    let is_plain = |text: &str| text.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.:/-".contains(&c));
    let (name, value) = candidate.split_once('=').unwrap_or((candidate, ""));
    let is_option = candidate.starts_with('-') && !word.starts_with('-');
    !name.is_empty() && is_plain(name) && is_plain(value) && !is_option
}

fn owned<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Vec<String> {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect()
}

fn candidates(before: &[&str], last: &str) -> Vec<String> {
    // The words after `--` belong to the server's command, not to this program.
    if before.contains(&"--") {
        return Vec::new();
    }
    let mut words = before.to_vec();
    // `KEY:` in place of a command is the first operand of the implied command.
    let implied = command_at(before).and_then(|at| implied_command(before.get(at)?));
    let command = implied.or_else(|| command_at(before).map(|at| words.remove(at)));
    let last_option = words.last().copied().and_then(needs_value);
    let (open, value) = match (last_option, last.split_once('=')) {
        (Some(option), _) => {
            words.pop();
            (Some(option), None)
        }
        (None, Some((word, _))) => (needs_value(word), Some(word)),
        (None, None) => (None, None),
    };
    let command = command.unwrap_or("list");
    let flags = commands::flags(command);
    let args = Args::parse(command, words.iter().map(OsString::from).collect(), &flags);
    if let Some(option) = open {
        let values = args.map(|args| values(option, &args)).unwrap_or_default();
        let prefix = value.map(|word| format!("{word}=")).unwrap_or_default();
        return values.into_iter().map(|value| format!("{prefix}{value}")).collect();
    }
    if last.starts_with('-') {
        return help::options(command);
    }
    if command_at(before).is_none() {
        return match (args, implied_command(last)) {
            (Ok(args), Some("call")) => names("call", args, last),
            (Ok(args), _) => [owned(help::commands()), with_colon(&args)].concat(),
            (Err(_), _) => owned(help::commands()),
        };
    }
    match command {
        "help" | "man" => owned(help::commands()),
        "completions" => owned(["bash", "zsh", "fish"]),
        "explain" => owned(RULES.iter().map(|rule| rule.id)),
        "list" => owned(["tools", "resources", "templates", "prompts"]),
        "skills" => owned(["list", "get"]),
        "complete" if args.as_ref().is_ok_and(|args| args.files.is_empty()) => owned(["prompt", "template"]),
        "call" | "info" | "get" | "read" => args.map(|args| names(command, args, last)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns the values of an option.
fn values(option: &str, args: &Args) -> Vec<String> {
    match option {
        "server" => keys(args),
        "protocol" => owned(["session", "stateless"]),
        "profile" => owned(PROFILES.iter().map(|profile| profile.id)),
        "format" => owned(["github", "sarif"]),
        _ => Vec::new(),
    }
}

/// Returns the keys of the configuration file, each with the colon that precedes a name.
fn with_colon(args: &Args) -> Vec<String> {
    keys(args).into_iter().map(|key| format!("{key}:")).collect()
}

/// Returns the keys of the configuration file.
fn keys(args: &Args) -> Vec<String> {
    let file = lists::configuration(args.server.config.clone());
    file.and_then(|file| lists::keys(&file).ok()).unwrap_or_default()
}

/// Returns the names that a server offers for the next word: its key may precede the name of a
/// tool or a prompt.
fn names(command: &str, mut args: Args, last: &str) -> Vec<String> {
    let words = args.words().unwrap_or_default();
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut prefix = String::new();
    match words.first_mut() {
        Some(name) => *name = args.take_name(name),
        None if command != "read" => {
            let name = args.take_name(last);
            prefix = last.strip_suffix(name).unwrap_or_default().to_owned();
        }
        None => {}
    }
    if !args.server.is_given() {
        return with_colon(&args);
    }
    args.timeout = Some(TIMEOUT);
    let Ok(client) = connect::builder(&args).and_then(|client| connect::connect(client, &args)) else {
        return Vec::new();
    };
    let names = Names::of_command(&client, command);
    let before = [&[command], &words[..]].concat();
    names.candidates(&before, last).into_iter().map(|name| format!("{prefix}{name}")).collect()
}
