//! Parts of a help text, and the text in the width of a terminal.
//!
//! The parts are recognised by their layout: a command line of the usage or of an example, a term
//! with two spaces before its description, and a paragraph.

/// Indentation of the second line of a command line.
const HANGING: usize = 4;
/// Columns below which the description of a term has lines of its own.
const NARROW: usize = 72;

/// Part of a help text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Blank,
    /// Command line of the usage: the columns before it, and whether it follows `Usage:`.
    Usage {
        indent: usize,
        words: &'t str,
        is_first: bool,
    },
    /// Command line of an example.
    Example {
        words: &'t str,
        is_first: bool,
    },
    Term {
        indent: usize,
        term: &'t str,
        column: usize,
        about: String,
    },
    Text {
        indent: usize,
        words: String,
    },
}

/// Splits a help text into its parts.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for line in text.lines() {
        let words = line.trim();
        let indent = line.len() - line.trim_start().len();
        let last = parts.last_mut();
        let part = if words.is_empty() {
            Part::Blank
        } else if let Some(words) = words.strip_prefix("Example: ") {
            Part::Example { words, is_first: true }
        } else if let (Some(Part::Example { .. }), true) = (&last, words.starts_with("tinymcp ")) {
            Part::Example { words, is_first: false }
        } else if let Some(words) = words.strip_prefix("Usage: ") {
            Part::Usage { indent, words, is_first: true }
        } else if words.starts_with("tinymcp ") && indent > 0 {
            Part::Usage { indent, words, is_first: false }
        } else if let Some((term, about)) = words.split_once("  ") {
            let about = about.trim_start().to_owned();
            Part::Term { indent, term, column: line.len() - about.len(), about }
        } else {
            match last {
                Some(Part::Term { column, about, .. }) if *column == indent => {
                    about.push(' ');
                    about.push_str(words);
                    continue;
                }
                Some(Part::Text { indent: known, words: text }) if *known == indent => {
                    text.push(' ');
                    text.push_str(words);
                    continue;
                }
                _ => Part::Text { indent, words: words.to_owned() },
            }
        };
        parts.push(part);
    }
    parts
}

/// Returns a help text with lines of this many columns at most, unless a word is longer.
pub(super) fn wrapped(text: &str, columns: usize) -> String {
    if text.lines().all(|line| line.chars().count() <= columns) {
        return text.to_owned();
    }
    let mut lines = Lines { text: String::new(), columns };
    for part in parts(text) {
        match part {
            Part::Blank => lines.text.push('\n'),
            Part::Usage { indent, words, is_first } => {
                let start = format!("{:indent$}{}", "", if is_first { "Usage: " } else { "" });
                lines.add(&start, indent + HANGING, words);
            }
            Part::Example { words, is_first } => {
                let start = if is_first { "      Example: " } else { "               " };
                // A shell would take a second line for another command.
                lines.text.push_str(&format!("{start}{words}\n"));
            }
            Part::Term { indent, term, about, .. } if columns < NARROW => {
                lines.add(&" ".repeat(indent), indent + HANGING, term);
                lines.add(&" ".repeat(indent + HANGING), indent + HANGING, &about);
            }
            Part::Term { indent, term, column, about } => {
                let width = column.saturating_sub(indent);
                lines.add(&format!("{:indent$}{term:width$}", ""), column, &about);
            }
            Part::Text { indent, words } => lines.add(&" ".repeat(indent), indent, &words),
        }
    }
    lines.text
}

struct Lines {
    text: String,
    columns: usize,
}

impl Lines {
    /// Adds words after the start of a line; further lines are indented.
    fn add(&mut self, start: &str, indent: usize, words: &str) {
        self.text.push_str(start);
        let mut column = start.chars().count();
        let mut is_first = true;
        for word in words.split(' ') {
            let length = word.chars().count();
            if !is_first && column + 1 + length > self.columns {
                self.text.push_str(&format!("\n{:indent$}", ""));
                column = indent;
            } else if !is_first {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += length;
            is_first = false;
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "  tinymcp ping [OPTIONS] SERVER\n      Prints the time of a\n      request.\n      \
                        --count N            how many times,\n                           at most\n      \
                        Example: tinymcp ping -- ./server\n               tinymcp ping --url U\n\nEnd.\n";

    #[test]
    fn a_text_is_split_by_its_layout() {
        let text = "Prints the time of a request.".to_owned();
        let expected = [
            Part::Usage { indent: 2, words: "tinymcp ping [OPTIONS] SERVER", is_first: false },
            Part::Text { indent: 6, words: text },
            Part::Term {
                indent: 6,
                term: "--count N",
                column: 27,
                about: "how many times, at most".to_owned(),
            },
            Part::Example { words: "tinymcp ping -- ./server", is_first: true },
            Part::Example { words: "tinymcp ping --url U", is_first: false },
            Part::Blank,
            Part::Text { indent: 0, words: "End.".to_owned() },
        ];
        assert_eq!(parts(HELP), expected);
    }

    #[test]
    fn lines_have_the_width_of_the_terminal() {
        assert_eq!(wrapped(HELP, 100), HELP);
        let narrow = "  tinymcp ping\n      [OPTIONS]\n      SERVER\n      Prints the\n      time of a\n      request.\n      \
                      --count N\n          how many\n          times,\n          at most\n      Example: tinymcp ping \
                      -- ./server\n               tinymcp ping --url U\n\nEnd.\n";
        assert_eq!(wrapped(HELP, 18), narrow);
    }
}
