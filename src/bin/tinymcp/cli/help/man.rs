//! Command `man`: the help as a manual page, for `man` to show or a package to install.

use super::super::args::Args;
use super::super::failure::Result;
use super::layout::{Part, parts};
use super::{HELP, of, summary, unknown};
use crate::out;

/// Paragraphs of the help that are sections of the manual page, by their first words.
const SECTIONS: [(&str, &str); 3] =
    [("SERVER is", "SERVERS"), ("Options of these", "OPTIONS"), ("Exit status", "EXIT STATUS")];

/// Prints the manual page of the program, or of one command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let words = args.words()?;
    match &*words {
        [] => Ok(out(program().as_bytes())?),
        [command] => Ok(out(page(command).ok_or_else(|| unknown(command, false))?.as_bytes())?),
        _ => Err("expected at most one command; see `tinymcp help man`".into()),
    }
}

fn head(name: &str, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let title = escaped(&name.to_uppercase());
    format!(".TH {title} 1 \"\" \"tinymcp {version}\"\n.SH NAME\n{} \\- {}\n", escaped(name), escaped(about))
}

/// Returns the page of the whole program.
fn program() -> String {
    let mut paragraphs = HELP.split("\n\n");
    let about = paragraphs.next().and_then(|first| first.split_once(": ")).map_or("", |(_, about)| about);
    let mut page = head("tinymcp", about);
    page.push_str(".SH SYNOPSIS\n");
    page.push_str(&roff(paragraphs.next().unwrap_or_default()));
    page.push_str(".SH COMMANDS\n");
    page.push_str(&sections(paragraphs));
    page.push_str(".SH SEE ALSO\n\\fBtinymcp man serve\\fR, \\fBtinymcp man proxy\\fR\n");
    page
}

/// Returns the page of a command.
fn page(command: &str) -> Option<String> {
    let help = of(command)?;
    let mut page = head(&format!("tinymcp-{command}"), &summary(command));
    let mut paragraphs = help.split("\n\n").peekable();
    // The help of `serve` and `proxy` begins with the same title.
    paragraphs.next_if(|first| first.starts_with("tinymcp "));
    page.push_str(".SH SYNOPSIS\n");
    page.push_str(&sections(paragraphs));
    Some(page)
}

fn sections<'t>(paragraphs: impl Iterator<Item = &'t str>) -> String {
    let mut text = String::new();
    for paragraph in paragraphs {
        match SECTIONS.iter().find(|(start, _)| paragraph.starts_with(start)) {
            Some((_, title)) => text.push_str(&format!(".SH {title}\n")),
            None => text.push_str(".PP\n"),
        }
        text.push_str(&roff(paragraph));
    }
    text
}

/// Returns a paragraph of the help in the language of `man`.
fn roff(paragraph: &str) -> String {
    let mut text = String::new();
    let mut inner = 0;
    for part in parts(paragraph) {
        // Lines of a command are indented, and terms inside of terms.
        let indent = match &part {
            Part::Term { indent, .. } | Part::Text { indent, .. } => *indent / 4,
            Part::Usage { .. } | Part::Blank => 0,
            Part::Example { .. } => inner,
        };
        while inner < indent {
            text.push_str(".RS 4\n");
            inner += 1;
        }
        while inner > indent {
            text.push_str(".RE\n");
            inner -= 1;
        }
        match part {
            Part::Blank => {}
            Part::Usage { words, .. } => text.push_str(&format!("\\fB{}\\fR\n.br\n", escaped(words))),
            Part::Example { words, is_first } => {
                let title = if is_first { ".PP\nExample:\n" } else { "" };
                text.push_str(&format!("{title}.RS 4\n.EX\n{}\n.EE\n.RE\n", escaped(words)));
            }
            Part::Term { term, about, .. } => {
                text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(&about)));
            }
            Part::Text { words, .. } => text.push_str(&format!(".PP\n{}\n", escaped(&words))),
        }
    }
    text.push_str(&".RE\n".repeat(inner));
    text
}

/// Returns text without characters that the language interprets.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_roff() {
        let help = "  tinymcp ping SERVER\n      Prints 'it'.\n      --count N            times\n          -x Y  value\n";
        let expected = "\\fBtinymcp ping SERVER\\fR\n.br\n.RS 4\n.PP\nPrints \\(aqit\\(aq.\n.TP\n\\fB\\-\\-count N\\fR\n\
                        times\n.RS 4\n.TP\n\\fB\\-x Y\\fR\nvalue\n.RE\n.RE\n";
        assert_eq!(roff(help), expected);
        assert_eq!(escaped(".\\"), "\\&.\\e");
    }
}
