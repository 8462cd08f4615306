//! Words of a command line, split as a POSIX shell does, without a shell.

use crate::Result;
use crate::escape::one_line;

/// Rules for the characters outside of single quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Those of `sh`: everything that needs more than quotes is an error.
    Shell,
    /// Those of Python's `shlex.split`: only quotes and the backslash are special.
    Shlex,
}

/// Splits a text into words. Quotes and backslashes have their meaning and are removed.
///
/// # Errors
/// There is no word, a quote is not closed, or a shell would do more than split the text.
pub(crate) fn split(text: &str, dialect: Dialect) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    let is_shell = dialect == Dialect::Shell;
    while let Some(c) = chars.next() {
        match c {
            // A shell ends the command at the end of a line.
            '\n' if is_shell
                && !(words.is_empty() && word.is_none())
                && chars.any(|c| !c.is_whitespace()) =>
            {
                return Err(unsupported_syntax("the end of a line"));
            }
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a single quote is not closed".to_owned()),
                    }
                }
            }
            '"' => double_quoted(&mut chars, dialect, word.get_or_insert_default())?,
            '\\' => match chars.next() {
                // A shell continues the line.
                Some('\n') if is_shell => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("nothing follows the last backslash".to_owned()),
            },
            '$' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[' if is_shell => {
                return Err(unsupported_syntax(&format!("{c:?}")));
            }
            '~' | '#' if is_shell && word.is_none() => {
                return Err(unsupported_syntax(&format!("{c:?} at the beginning of a word")));
            }
            c => word.get_or_insert_default().push(c),
        }
        // A variable of the command precedes the program.
        if is_shell && c == '=' && words.is_empty() && word.as_deref().is_some_and(is_assignment) {
            return Err(unsupported_syntax("the variable before the program"));
        }
    }
    words.extend(word);
    if words.is_empty() { Err("expected a command".to_owned()) } else { Ok(words) }
}

/// Quotes a word for a shell if needed. Control characters are replaced.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", one_line(word).replace('\'', r"'\''"))
}

/// Reads up to the closing double quote.
fn double_quoted(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    dialect: Dialect,
    word: &mut String,
) -> Result<()> {
    let is_shell = dialect == Dialect::Shell;
    loop {
        match chars.next() {
            Some('"') => return Ok(()),
            Some('\\') => match chars.peek().copied() {
                Some('\n') if is_shell => _ = chars.next(),
                Some(c) if matches!(c, '"' | '\\') || is_shell && matches!(c, '$' | '`') => {
                    word.push(c);
                    chars.next();
                }
                _ => word.push('\\'),
            },
            Some(c @ ('$' | '`')) if is_shell => return Err(unsupported_syntax(&format!("{c:?}"))),
            Some(c) => word.push(c),
            None => return Err("a double quote is not closed".to_owned()),
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.trim_end_matches('=');
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unsupported_syntax(what: &str) -> String {
    format!(
        "{what} has a meaning for a shell only, and no shell runs the command; put it into single quotes if it \
         is part of an argument, or start a shell: -- sh -c 'COMMAND'"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn words_are_split_at_blanks_and_quotes_are_removed() {
        for (text, words) in [
            ("npx -y @scope/server /data", &["npx", "-y", "@scope/server", "/data"][..]),
            ("  a \t b\n", &["a", "b"]),
            ("'a b' \"c d\" e\\ f", &["a b", "c d", "e f"]),
            ("a'b'\"c\"\\d", &["abcd"]),
            ("a '' \"\"", &["a", "", ""]),
            ("'$x | `y`' \"\\$x \\\"q\\\" \\\\ \\n\"", &["$x | `y`", "$x \"q\" \\ \\n"]),
            ("a \\\nb", &["a", "b"]),
            ("env A=1 b --c=d x#y z~ é", &["env", "A=1", "b", "--c=d", "x#y", "z~", "é"]),
            ("./a=b", &["./a=b"]),
        ] {
            assert_eq!(split(text, Dialect::Shell).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn a_command_that_needs_a_shell_is_an_error() {
        for (text, part) in [
            ("a $B", "'$' has a meaning for a shell only"),
            ("a \"$B\"", "'$' has"),
            ("a `b`", "'`' has"),
            ("a | b", "'|' has"),
            ("a&", "'&' has"),
            ("a ; b", "';' has"),
            ("a >b", "'>' has"),
            ("a <b", "'<' has"),
            ("(a)", "'(' has"),
            ("a *.txt", "'*' has"),
            ("a http://h/?x=1", "'?' has"),
            ("a [b]", "'[' has"),
            ("~/a", "'~' at the beginning of a word has"),
            ("a #b", "'#' at the beginning of a word has"),
            ("A_1=b c", "the variable before the program has"),
            ("a\nb", "the end of a line has"),
            ("a 'b", "a single quote is not closed"),
            ("a \"b", "a double quote is not closed"),
            ("a \\", "nothing follows the last backslash"),
            (" \n ", "expected a command"),
        ] {
            let error = split(text, Dialect::Shell).unwrap_err();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }

    #[test]
    fn shlex_has_no_special_characters_but_quotes() {
        let words = split("A=1 $B *.x | a\nb 'c d' \"\\$e \\\"\"", Dialect::Shlex).unwrap();
        assert_eq!(words, ["A=1", "$B", "*.x", "|", "a", "b", "c d", "\\$e \""]);
    }
}
