//! Scripts among the arguments of a command line.
//!
//! `["/bin/sh", "-c", "echo {x}"]` would run the value of `x` as code. The same holds for every
//! program that takes a script as an argument, so such a placeholder is an error.

use std::path::Path;

use super::super::words;

/// A program that takes a script as an argument.
struct Interpreter {
    /// Names without a version.
    names: &'static str,
    /// Letters of the options that take a script.
    script: &'static str,
    /// Letters of the options that take another value.
    value: &'static str,
    /// Letters of the options whose value, if any, is in the same argument.
    attached: &'static str,
    language: Language,
}

/// Language of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Shell,
    /// The first operand is the script, unless an option has one.
    Awk,
    /// As with `Awk`.
    Sed,
    Python,
    Other,
}

const INTERPRETERS: [Interpreter; 11] = [
    Interpreter {
        names: "ash bash dash ksh mksh sh yash zsh",
        script: "c",
        value: "oO",
        attached: "",
        language: Language::Shell,
    },
    Interpreter {
        names: "awk gawk mawk nawk original-awk goawk",
        script: "e",
        value: "FvfilE",
        attached: "",
        language: Language::Awk,
    },
    Interpreter { names: "sed gsed ssed", script: "e", value: "fl", attached: "i", language: Language::Sed },
    Interpreter { names: "python pypy", script: "c", value: "WX", attached: "", language: Language::Python },
    other("perl", "eE", "", "iIMmFxCD0"),
    other("ruby", "e", "rI", "iKEFWTxC0"),
    other("node nodejs", "ep", "r", ""),
    other("lua luajit", "e", "l", ""),
    other("php", "rRBE", "dcz", ""),
    other("csh fish pwsh tclsh tcsh", "c", "", ""),
    // Operands may precede the option.
    other("su runuser", "c", "sgGw", ""),
];

const fn other(
    names: &'static str,
    script: &'static str,
    value: &'static str,
    attached: &'static str,
) -> Interpreter {
    Interpreter { names, script, value, attached, language: Language::Other }
}

/// Long options that take a script.
const LONG: &str = "command eval execute expression init-command print source";

/// Long options that take another value.
const LONG_VALUES: &str = "assign field-separator file init-file line-length rcfile";

/// Programs that start the program in their arguments.
pub(crate) const WRAPPERS: &str = "busybox chroot doas env find flock ionice nice nohup nsenter setpriv \
     setsid stdbuf strace sudo time timeout toybox unshare xargs";

/// File name of a program.
pub(crate) fn name(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the first script for which `accept` holds, by its index.
pub(crate) fn find(elements: &[&str], accept: &dyn Fn(usize) -> bool) -> Option<(usize, Language)> {
    let is_wrapped = elements.first().is_some_and(|program| words::has(WRAPPERS, name(program)));
    // The interpreter may follow `env`, `busybox`, `timeout 5` and the like.
    (0..elements.len()).find_map(|at| {
        let interpreter = interpreter(elements.get(at)?)?;
        // `apt install sed` does not start sed.
        let has_operand = matches!(interpreter.language, Language::Awk | Language::Sed);
        if has_operand && at > 0 && !is_wrapped {
            return None;
        }
        let found = scripts(elements, at + 1, interpreter).into_iter().find(|at| accept(*at));
        found.map(|at| (at, interpreter.language))
    })
}

/// Returns the index of the element that is a script with placeholders.
pub(super) fn placeholder(elements: &[&str]) -> Option<(usize, Language)> {
    find(elements, &|at| elements.get(at).is_some_and(|element| has_placeholder(element)))
}

/// Returns the interpreter of this name, such as `python3.11`.
fn interpreter(program: &str) -> Option<&'static Interpreter> {
    let name = name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.iter().find(|known| words::has(known.names, name))
}

/// Returns whether a program runs scripts. `awk` and `sed` read their operands as data.
pub(crate) fn is_interpreter(program: &str) -> bool {
    interpreter(program).is_some_and(|known| !matches!(known.language, Language::Awk | Language::Sed))
}

/// Returns whether a program is a shell.
pub(crate) fn is_shell(program: &str) -> bool {
    interpreter(program).is_some_and(|known| known.language == Language::Shell)
}

/// Returns the file that a shell or Python runs, such as `tool.py` in `["python3", "tool.py"]`.
pub(crate) fn file<'e>(elements: &[&'e str]) -> Option<&'e str> {
    let is_known = |program: &&str| {
        interpreter(program).is_some_and(|known| matches!(known.language, Language::Shell | Language::Python))
    };
    let at = elements.iter().position(is_known)?;
    let is_wrapped = elements.first().is_some_and(|program| words::has(WRAPPERS, name(program)));
    let file = elements.get(at + 1)?;
    let is_file = (at == 0 || is_wrapped) && !file.is_empty() && !file.starts_with(['-', '+']);
    is_file.then_some(file)
}

/// Returns the indices of the scripts among the arguments of an interpreter.
fn scripts(elements: &[&str], start: usize, interpreter: &Interpreter) -> Vec<usize> {
    let mut found = Vec::new();
    // An option that names a file with a script replaces the operand, too.
    let mut has_file = false;
    let has_operand = matches!(interpreter.language, Language::Awk | Language::Sed);
    let mut at = start;
    while let Some(option) = elements.get(at) {
        let letters = option.strip_prefix(['-', '+']).filter(|letters| !letters.starts_with('-'));
        if let Some(letters) = letters {
            let cluster = cluster(letters, interpreter);
            has_file |= has_operand && cluster.letter == 'f';
            if cluster.is_script {
                let attached = !cluster.rest.is_empty() && interpreter.language != Language::Shell;
                found.push(if attached || has_placeholder(option) { at } else { at + 1 });
                at += usize::from(!attached);
                if interpreter.language == Language::Shell {
                    return found;
                }
            } else if cluster.takes_next {
                at += 1;
            }
        } else if *option == "--" {
            at += 1;
            break;
        } else if let Some(long) = option.strip_prefix("--") {
            let attached = long.split_once('=').map(|(name, _)| name);
            let name = attached.unwrap_or(long);
            let is_script = words::has(LONG, name);
            has_file |= name == "file";
            if is_script {
                found.push(if attached.is_some() { at } else { at + 1 });
            }
            let takes_next = is_script || words::has(LONG_VALUES, name);
            at += usize::from(takes_next && attached.is_none());
        } else if !words::has(interpreter.names, "su") {
            break;
        }
        at += 1;
    }
    if has_operand && found.is_empty() && !has_file {
        found.push(at);
    }
    found
}

/// Letters of single-letter options in one argument.
struct Cluster<'e> {
    /// The last option, which takes a value or is the last letter.
    letter: char,
    is_script: bool,
    takes_next: bool,
    /// Text after that letter.
    rest: &'e str,
}

fn cluster<'e>(letters: &'e str, interpreter: &Interpreter) -> Cluster<'e> {
    let mut last = Cluster { letter: '-', is_script: false, takes_next: false, rest: "" };
    for (at, letter) in letters.char_indices() {
        let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
        last = Cluster { letter, rest, ..last };
        if interpreter.script.contains(letter) {
            return Cluster { is_script: true, ..last };
        }
        if interpreter.value.contains(letter) {
            return Cluster { takes_next: rest.is_empty(), ..last };
        }
        if interpreter.attached.contains(letter) || !letter.is_ascii_alphanumeric() {
            break;
        }
    }
    last
}

/// Returns whether a template has a placeholder.
pub(super) fn has_placeholder(text: &str) -> bool {
    text.replace("{{", "").contains('{')
}

/// Returns the problem of a placeholder inside a script, with a correction.
pub(super) fn problem(language: Language) -> &'static str {
    match language {
        Language::Awk => {
            "placeholder inside a program of awk: its value would run as code; pass it as a variable, for \
             example [\"awk\", \"-v\", \"word={x}\", \"$1 == word\"]"
        }
        Language::Sed => {
            "placeholder inside a script of sed: its value would run as code; write the script without \
             placeholders, or use awk with \"-v\", \"word={x}\""
        }
        _ => {
            "placeholder inside a script: its value would run as code; pass it as an argument, for \
             example [\"/bin/sh\", \"-c\", \"echo \\\"$1\\\"\", \"sh\", \"{x}\"]"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_with_placeholders_are_found() {
        for (elements, expected) in [
            (&["/bin/sh", "-c", "echo {x}"][..], Some(2)),
            (&["/bin/sh", "-c", "echo \"$1\"", "sh", "{x}"], None),
            (&["/bin/sh", "-ec", "{x}"], Some(2)),
            (&["bash", "--norc", "-o", "pipefail", "-c", "a | {x}"], Some(5)),
            (&["/usr/bin/env", "bash", "-lc", "{x}"], Some(3)),
            (&["busybox", "sh", "-c", "{x}"], Some(3)),
            (&["timeout", "5", "sh", "-c", "{?x}"], Some(4)),
            (&["python3.11", "-c", "print({x})"], Some(2)),
            (&["python3", "-c", "print({{}})", "{x}"], None),
            (&["perl", "-ne", "print {x}"], Some(2)),
            (&["node", "--eval", "{x}"], Some(2)),
            (&["python3", "-cprint({x})"], Some(1)),
            (&["/bin/sh", "script.sh", "-c", "{x}"], None),
            (&["/usr/bin/soil", "-c", "{x}"], None),
            (&["bash", "-euo", "pipefail", "-c", "{x}"], Some(4)),
            (&["su", "-", "pi", "-c", "{x}"], Some(4)),
            (&["perl", "-i", "-e", "1", "-e", "{x}"], Some(5)),
            (&["ruby", "-rset", "-e", "{x}"], Some(3)),
            (&["awk", "/{x}/"], Some(1)),
            (&["awk", "-v", "w={x}", "$1 == w", "{x}"], None),
            (&["awk", "-f", "prog.awk", "{x}"], None),
            (&["gawk", "--source={x}"], Some(1)),
            (&["gawk", "-F:", "--", "{x}"], Some(3)),
            (&["busybox", "awk", "{x}"], Some(2)),
            (&["sed", "-n", "{x}p"], Some(2)),
            (&["sed", "-ne", "s/{x}//"], Some(2)),
            (&["sed", "-es/{x}//"], Some(1)),
            (&["sed", "-n", "-e", "p", "-i.bak", "--expression", "{x}"], Some(6)),
            (&["sed", "-E", "-l", "5", "--", "{x}", "y"], Some(5)),
            (&["sed", "-n", "$p", "{x}"], None),
            (&["apt", "install", "sed", "{x}"], None),
            (&["sh"], None),
            (&["sh", "-c"], None),
        ] {
            assert_eq!(placeholder(elements).map(|(at, _)| at), expected, "{elements:?}");
        }
    }
}
