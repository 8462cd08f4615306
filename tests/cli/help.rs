//! Help, manual pages and completion of all commands, and the same texts at terminals.

use std::collections::BTreeSet;

use super::run;
use super::terminal::{Terminal, tinymcp};

/// Commands with options of their own parser, which tests beside them compare with the help.
const OTHERS: [&str; 2] = ["serve", "proxy"];

fn output(args: &[&str]) -> String {
    let (code, out, err) = run(args, "");
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    out
}

fn commands() -> Vec<String> {
    let help = output(&["help"]);
    let mut names: Vec<String> = Vec::new();
    for name in help.lines().filter_map(|line| line.strip_prefix("  tinymcp ")?.split(' ').next()) {
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
    }
    assert!(names.len() > 25, "{names:?}");
    names
}

fn options(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| c.is_whitespace() || "[]:,|".contains(c));
    words
        .filter(|word| word.len() > 2 && word.starts_with("--") && *word != "--help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_help_of_its_own() {
    for command in commands() {
        let usage = format!("  tinymcp {command} ");
        let help = output(&["help", &command]);
        for args in [&[&command, "--help"][..], &[&command, "x", "-h"]] {
            assert_eq!(output(args), help);
        }
        assert!(OTHERS.contains(&command.as_str()) || help.starts_with(&usage), "{help}");
        assert!(help.contains("Exit status") && help.contains("xample"), "{help}");
    }
    // An option of the server's own.
    assert_eq!(run(&["list", "--", "/bin/false", "--help"], "").0, 4);
    for args in [&["lst"][..], &["help", "lst"], &["lst", "--help"], &["man", "lst"]] {
        let (code, out, err) = run(args, "");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("\"lst\"; did you mean `tinymcp list`?"), "{err}");
    }
    let error = run(&["zzzzz"], "").2;
    assert!(error.contains("\"zzzzz\"; expected one of: list, info, call, "), "{error}");
    let error = run(&["tools"], "").2;
    assert!(error.contains("did you mean `tinymcp list tools`?"), "{error}");
}

#[test]
fn help_and_completion_have_the_options_that_a_command_accepts() {
    let all = options(&output(&["help"]));
    assert!(all.len() > 40, "{all:?}");
    for command in commands().iter().filter(|command| !OTHERS.contains(&command.as_str())) {
        let named = options(&output(&["help", command]));
        let accepted = all.iter().filter(|option| {
            let error = run(&[command, option], "").2;
            !error.contains(&format!("unknown option {option}; "))
        });
        if !["completions", "help"].contains(&command.as_str()) {
            assert_eq!(named, accepted.cloned().collect(), "{command}");
        }
        let completed: BTreeSet<String> = options(&output(&["__complete", command, "--"]));
        assert_eq!(completed, named, "{command}");
    }
}

#[test]
fn manual_pages_have_the_text_of_the_help() {
    let whole = output(&["man"]).replace("\\-", "-");
    assert!(whole.starts_with(".TH TINYMCP 1 \"\" \"tinymcp "), "{whole}");
    for command in commands() {
        let page = output(&["man", &command]).replace("\\-", "-");
        let title = format!(".TH TINYMCP-{} 1 ", command.to_uppercase());
        assert!(page.starts_with(&title) && page.contains("\n.SH SYNOPSIS\n"), "{page}");
        assert!(page.is_ascii() && page.matches(".RS").count() == page.matches(".RE").count(), "{page}");
        assert!(whole.contains(&format!("\\fBtinymcp {command} ")), "{command}");
        for option in options(&output(&["help", &command])) {
            assert!(page.contains(&option), "{command} {option}");
        }
    }
}

/// Terminals of other encodings show only ASCII.
#[test]
fn texts_of_the_program_are_ascii() {
    for command in commands() {
        assert!(output(&["help", &command]).is_ascii(), "{command}");
        let error = run(&[&command, "--no-such-option"], "").2;
        assert!(error.is_ascii(), "{error}");
    }
    assert!(output(&[]).is_ascii() && output(&["help"]).is_ascii());
}

/// Returns the output at a terminal.
fn at_terminal(columns: u16, args: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = tinymcp(args);
    command.env_remove("NO_COLOR").envs(environment.iter().copied());
    Terminal::with_columns(columns, command).end().1.replace("\r\n", "\n")
}

#[test]
fn help_fits_the_terminal() {
    for columns in [30, 40, 80, 120] {
        for command in commands() {
            let text = at_terminal(columns, &["help", &command], &[("LANG", "C")]);
            let is_example = |line: &str| {
                line.starts_with("      Example: ") || line.starts_with("               tinymcp")
            };
            let long = text.lines().filter(|line| line.len() > columns.into() && !is_example(line));
            // A word that does not fit is alone on its line.
            let cut: Vec<&str> = long.filter(|line| line.split_whitespace().count() > 1).collect();
            assert!(cut.is_empty(), "{columns}: {cut:?}");
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&at_terminal(columns, &["help"], &[])), words(&output(&["help"])));
    }
    assert_eq!(at_terminal(120, &["help"], &[]), output(&["help"]));
    assert_eq!(
        at_terminal(40, &["help", "explain"], &[]),
        "  tinymcp explain RULE\n      Describes a rule of schema-lint,\n      such as SCH-003, and the\n      correction.\n      \
         Example: tinymcp explain SCH-003\n\nExit status: 0 success; 1 findings or an\ninvalid value; 2 usage error or \
         unusable\ninput.\n"
    );
}

#[test]
fn colours_are_for_terminals_only_and_can_be_refused() {
    let catalog = super::folder("colours").join("tools.json");
    std::fs::write(&catalog, super::LOOSE).unwrap();
    let args = ["schema-lint", catalog.to_str().unwrap()];
    let coloured = |environment: &[(&str, &str)]| at_terminal(80, &args, environment).contains('\x1b');
    assert!(coloured(&[]) && coloured(&[("NO_COLOR", "")]));
    assert!(!coloured(&[("NO_COLOR", "1")]) && !coloured(&[("TERM", "dumb")]));
    assert!(!run(&args, "").1.contains('\x1b'));
}

#[test]
fn the_version_names_the_features() {
    let version = output(&["--version"]);
    let start = format!("tinymcp {}\nfeatures: serve, ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&start) && version.contains(", cli"), "{version}");
    assert_eq!(output(&["-V"]), version);
}
