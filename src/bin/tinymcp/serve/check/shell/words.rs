//! Commands and words of a shell script.

/// A simple command, such as `grep -e "$1" file`.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
}

/// A word, without its quotes.
#[derive(Debug, Default)]
pub(super) struct Word {
    /// The fixed text.
    pub(super) text: String,
    pub(super) uses: Vec<Use>,
    /// It has an expansion of any kind.
    pub(super) is_expanded: bool,
    /// The file after `<` or `>`.
    pub(super) is_redirect: bool,
}

/// A use of a parameter or variable.
#[derive(Debug)]
pub(super) struct Use {
    /// `1` for `$1`, `@` for `$@` and `$*`, `file` for `${file}`.
    pub(super) name: String,
    pub(super) is_quoted: bool,
    /// No fixed text precedes it in its word.
    pub(super) is_leading: bool,
}

impl Word {
    /// Uses of these names.
    pub(super) fn uses<'w>(&'w self, names: &'w [String]) -> impl Iterator<Item = &'w Use> {
        self.uses.iter().filter(|one| names.contains(&one.name))
    }

    /// The variable that this word assigns to.
    pub(super) fn variable(&self) -> Option<&str> {
        let (name, _) = self.text.split_once('=')?;
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        is_name.then_some(name)
    }
}

/// A level of nesting: the script, or a command substitution in it.
#[derive(Default)]
struct Level {
    command: Command,
    word: Option<Word>,
    in_quotes: bool,
    /// Open `(` of subshells.
    subshells: usize,
    /// Begun by a backtick.
    is_backtick: bool,
    /// The next word is the file of a redirection.
    is_redirect: bool,
}

struct Parser<'s> {
    rest: &'s str,
    level: Level,
    outer: Vec<Level>,
    /// End marks of the here-documents after `<<`.
    documents: Vec<String>,
    commands: Vec<Command>,
}

/// Splits a script into its commands.
pub(super) fn parse(script: &str) -> Vec<Command> {
    let mut parser = Parser {
        rest: script,
        level: Level::default(),
        outer: Vec::new(),
        documents: Vec::new(),
        commands: Vec::new(),
    };
    while let Some(c) = parser.next() {
        parser.character(c);
    }
    parser.end_command();
    while parser.close() {}
    parser.end_command();
    parser.commands
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        Some(c)
    }

    /// Takes the text up to a byte where the condition ends.
    fn take(&mut self, is_part: &dyn Fn(char) -> bool) -> &str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn character(&mut self, c: char) {
        match c {
            '\\' => {
                if let Some(c) = self.next().filter(|c| *c != '\n') {
                    self.word().text.push(c);
                }
            }
            '$' => self.dollar(),
            '`' if self.level.is_backtick => {
                self.end_command();
                self.close();
            }
            '`' => self.open(true),
            '"' => {
                self.level.in_quotes = !self.level.in_quotes;
                self.word();
            }
            c if self.level.in_quotes => self.word().text.push(c),
            '\'' => self.single_quotes(),
            '#' if self.level.word.is_none() => {
                self.take(&|c| c != '\n');
            }
            '\n' => {
                self.end_command();
                self.skip_documents();
            }
            c if c.is_whitespace() => self.end_word(),
            ';' | '&' | '|' => self.end_command(),
            '<' | '>' => self.redirect(c),
            '(' => {
                self.end_command();
                self.level.subshells += 1;
            }
            ')' => {
                self.end_command();
                if self.level.subshells > 0 {
                    self.level.subshells -= 1;
                } else {
                    self.close();
                }
            }
            c => self.word().text.push(c),
        }
    }

    fn word(&mut self) -> &mut Word {
        let is_redirect = self.level.is_redirect;
        self.level.word.get_or_insert_with(|| Word { is_redirect, ..Word::default() })
    }

    fn end_word(&mut self) {
        if let Some(word) = self.level.word.take() {
            self.level.is_redirect = false;
            self.level.command.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.level.is_redirect = false;
        let command = std::mem::take(&mut self.level.command);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }

    /// Begins a command substitution.
    fn open(&mut self, is_backtick: bool) {
        self.word().is_expanded = true;
        let level = Level { is_backtick, ..Level::default() };
        self.outer.push(std::mem::replace(&mut self.level, level));
    }

    /// Ends a command substitution.
    fn close(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else { return false };
        self.level = outer;
        true
    }

    fn single_quotes(&mut self) {
        let text = self.take(&|c| c != '\'').to_owned();
        self.next();
        self.word().text.push_str(&text);
    }

    fn dollar(&mut self) {
        let is_braced = self.rest.starts_with('{');
        if is_braced {
            self.next();
        }
        let name = match self.rest.chars().next() {
            Some('@' | '*') => {
                self.next();
                "@".to_owned()
            }
            Some(c) if c.is_ascii_digit() && !is_braced => {
                self.next();
                c.to_string()
            }
            Some(c) if c.is_ascii_alphanumeric() || c == '_' => {
                self.take(&|c| c.is_ascii_alphanumeric() || c == '_').to_owned()
            }
            Some('(') if !is_braced => {
                self.next();
                return self.open(false);
            }
            // Numbers: $#, $?, ${#name}.
            Some('#' | '?' | '$' | '!') => {
                self.next();
                self.word().is_expanded = true;
                if is_braced {
                    self.take(&|c| c != '}');
                    self.next();
                }
                return;
            }
            _ => return self.word().text.push('$'),
        };
        let is_quoted = self.level.in_quotes;
        let word = self.word();
        let is_leading = word.text.is_empty();
        word.uses.push(Use { name, is_quoted, is_leading });
        word.is_expanded = true;
        // The operator of `${1:-x}` is not leading text, but the value after it may be used.
        if is_braced {
            self.take(&|c| !matches!(c, '}' | '$' | '`' | '"'));
            if self.rest.starts_with('}') {
                self.next();
            }
        }
    }

    /// Reads an operator such as `>`, `>>`, `>&`, `<<`.
    fn redirect(&mut self, first: char) {
        // `2>` has the number of a file, not an argument.
        let is_number = |word: &Word| !word.is_expanded && word.text.bytes().all(|b| b.is_ascii_digit());
        if self.level.word.as_ref().is_some_and(is_number) {
            self.level.word = None;
        }
        self.end_word();
        let operator = self.take(&|c| matches!(c, '<' | '>' | '&' | '|' | '-')).to_owned();
        if first == '<' && matches!(operator.as_str(), "<" | "<-") {
            self.take(&|c| matches!(c, ' ' | '\t'));
            let end = self.take(&|c| !c.is_whitespace() && !matches!(c, ';' | '|' | '&' | ')'));
            let end = end.replace(['"', '\'', '\\'], "");
            self.documents.push(end);
            return;
        }
        self.level.is_redirect = true;
    }

    /// Skips the texts of `<<END`, which are not arguments.
    fn skip_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            while !self.rest.is_empty() {
                let is_end = self.take(&|c| c != '\n').trim_start_matches('\t') == end;
                self.next();
                if is_end {
                    break;
                }
            }
        }
    }
}
