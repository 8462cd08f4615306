//! Checks of shell scripts that get values as `$1`, `$2`, `$@`.
//!
//! The script is split into commands and words, with the places where a parameter is used. That is
//! enough to find a missing quote, or a value that a program reads as an option. It is not a
//! complete parser.

use super::super::read::script;
use super::super::words::has;
use super::arguments::{EXPRESSIONS, command, is_protected};

mod words;

use words::{Command, Word};

/// A value after the script in the command line.
pub(super) struct Parameter {
    /// Name of the argument; `None` for a fixed text.
    pub(super) name: Option<String>,
    /// One parameter for each item.
    pub(super) is_list: bool,
    /// A number, a boolean or a text that the author chose.
    pub(super) is_plain: bool,
    /// Advice on how to exclude values that begin with a dash, if such values are accepted.
    pub(super) exclusion: Option<String>,
    /// Like `exclusion`, for programs of [`EXPRESSIONS`], for which operators must be excluded,
    /// too.
    pub(super) exclusion_in_expression: Option<String>,
}

/// Reserved words and builtins that may precede a command.
const PREFIXES: &str = "if then elif else while until do ! { exec command time builtin (";

/// Commands that only print, compare or store their arguments.
const HARMLESS: &str = "echo test [ [[ : true case for return exit shift set";

/// Warns of faults of a script that gets these values; the first is `$0`.
pub(super) fn check(text: &str, values: &[Parameter], warn: &mut dyn FnMut(String)) {
    if let Some(name) = values.first().and_then(|value| value.name.as_ref()) {
        warn(format!("{{{name}}} becomes $0 of the script: put \"sh\" before it, so that it is $1"));
        return;
    }
    let commands = words::parse(text);
    let is_command = |name: &str| commands.iter().any(|c| program(c).0 == name);
    if is_command("eval") {
        warn("eval in the script runs its arguments as code: write the commands without it".to_owned());
    }
    // `shift` and `set` change the value of $1.
    let moves = is_command("shift") || is_command("set");
    let values = values.get(1..).unwrap_or_default();
    let used = commands.iter().flat_map(|c| &c.words).flat_map(|word| &word.uses);
    let last = used.filter_map(|one| one.name.parse::<u32>().ok()).max().unwrap_or(0);
    let is_fixed = !moves && values.iter().all(|value| !value.is_list);
    if is_fixed && last as usize > values.len() {
        warn(format!(
            "${last} of the script has no value: {} after \"sh\" in the command line",
            super::counted(values.len(), "value")
        ));
    }
    for (at, value) in values.iter().enumerate() {
        let Some(name) = &value.name else { continue };
        let names = names(&commands, at + 1, moves || value.is_list);
        let usage = Usage { commands: &commands, names: &names, value, name };
        usage.check(warn);
    }
}

/// Returns the names of the parameters and variables that hold this value.
fn names(commands: &[Command], number: usize, is_any: bool) -> Vec<String> {
    let mut names = vec!["@".to_owned()];
    if is_any {
        names.extend((number..10.max(number + 1)).map(|number| number.to_string()));
        names.extend((1..number).map(|number| number.to_string()));
    } else {
        names.push(number.to_string());
    }
    // Each round follows one more assignment of the value.
    for _ in 0..8 {
        let before = names.len();
        for command in commands {
            let (name, words) = program(command);
            let mut found: Vec<&str> = Vec::new();
            if name == "for" && words.iter().any(|word| word.uses(&names).next().is_some()) {
                found.extend(words.get(1).map(|word| word.text.as_str()));
            }
            let assigned = command.words.iter().filter(|word| word.uses(&names).next().is_some());
            found.extend(assigned.filter_map(Word::variable));
            for name in found {
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
        if names.len() == before {
            break;
        }
    }
    names
}

/// Returns name and words of the program of a command, without reserved words and assignments.
fn program(command: &Command) -> (&str, &[Word]) {
    let is_prefix =
        |word: &&Word| word.variable().is_some() || word.uses.is_empty() && has(PREFIXES, &word.text);
    let start = command.words.iter().take_while(is_prefix).count();
    let words = command.words.get(start..).unwrap_or_default();
    let name = words.first().filter(|word| !word.is_expanded).map_or("", |word| script::name(&word.text));
    (name, words)
}

/// Uses of one value.
struct Usage<'u> {
    commands: &'u [Command],
    names: &'u [String],
    value: &'u Parameter,
    name: &'u str,
}

impl Usage<'_> {
    /// Reports the first fault of each kind.
    fn check(&self, warn: &mut dyn FnMut(String)) {
        let name = self.name;
        let find = |fault: &dyn Fn(&Command) -> Option<String>| self.commands.iter().find_map(fault);
        if !self.value.is_plain {
            if let Some(program) = find(&|command| self.code(command)) {
                warn(format!(
                    "the value of {{{name}}} is a part of the code that {program} in the script runs"
                ));
            }
            if let Some(parameter) = find(&|command| self.unquoted(command)) {
                warn(format!(
                    "${parameter} of the script has the value of {{{name}}} and is not in double quotes, so it \
                     becomes several arguments: write \"${parameter}\""
                ));
            }
        }
        let read = self.commands.iter().find_map(|command| {
            let (parameter, program) = self.option(command)?;
            let (may, fixed, exclusion) = match has(EXPRESSIONS, &program) {
                true => ("be `!` or begin", "", self.value.exclusion_in_expression.as_ref()?),
                false => ("begin", "-- \"$1\" or ", self.value.exclusion.as_ref()?),
            };
            Some(format!(
                "\"${parameter}\" of the script has the value of {{{name}}}, which may {may} with `-` and be read as \
                 an option by {program}: write {}./\"${parameter}\", or {exclusion}",
                fixed.replace('1', &parameter)
            ))
        });
        read.into_iter().for_each(warn);
    }

    /// Returns the program of a command that runs the value as code.
    fn code(&self, outer: &Command) -> Option<String> {
        let (name, words) = program(outer);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let has_use = |at: usize| words.get(at).is_some_and(|word| word.uses(self.names).next().is_some());
        let program = texts.get(command(&texts)).map_or("", |program| script::name(program));
        if program == "ssh" && (1..words.len()).any(has_use) {
            return Some("a shell on another machine".to_owned());
        }
        let (at, _) = script::find(&texts, &has_use)?;
        let interpreter = texts.iter().take(at).find(|text| script::find(&[text, "-c"], &|_| true).is_some());
        Some(interpreter.map_or(name, |program| script::name(program)).to_owned())
    }

    /// Returns a parameter that is not in double quotes.
    fn unquoted(&self, command: &Command) -> Option<String> {
        let (name, words) = program(command);
        // The shell does not split these.
        let words = if matches!(name, "case" | "[[") { &[] } else { words };
        let words = words.iter().filter(|word| word.variable().is_none());
        words.flat_map(|word| word.uses(self.names)).find(|one| !one.is_quoted).map(|one| one.name.clone())
    }

    /// Returns a parameter that a program may read as an option, and the program.
    fn option(&self, outer: &Command) -> Option<(String, String)> {
        let (name, words) = program(outer);
        if has(HARMLESS, name) {
            return None;
        }
        let texts: Vec<&str> =
            words.iter().map(|word| if word.is_expanded { "" } else { word.text.as_str() }).collect();
        let start = command(&texts);
        for (at, word) in words.iter().enumerate() {
            let leading = word.uses(self.names).find(|one| one.is_leading);
            let before = texts.get(start..at).unwrap_or_default();
            let is_format = name == "printf" && at > 1;
            if let Some(one) = leading.filter(|_| !word.is_redirect && !is_format && !is_protected(before)) {
                let program = before.first().map_or("a program", |program| script::name(program));
                return Some((one.name.clone(), program.to_owned()));
            }
        }
        None
    }
}
