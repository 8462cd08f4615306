//! Transcript parser: turns a file into steps.
//!
//! `tests/transcripts/README.md` describes the format. This module parses lines and tokens. It does
//! not connect to a server and does not compare messages.
//!
//! # Invariants
//! - Each line that is not valid is an error with its line number; no line is ignored.
//! - A step without a revision mark belongs to every revision of its transcript.

use std::path::Path;

/// Protocol revisions from the oldest to the newest. Other code uses their index.
pub(crate) const REVISIONS: [(&str, &str); 5] = [
    ("24", "2024-11-05"),
    ("03", "2025-03-26"),
    ("06", "2025-06-18"),
    ("11", "2025-11-25"),
    ("26", "2026-07-28"),
];

/// The revision without sessions.
pub(crate) const MODERN: usize = 4;

/// One transcript.
#[derive(Debug)]
pub(crate) struct Script {
    /// Path below `tests/transcripts`, with forward slashes.
    pub path: String,
    /// Ids of the requirement rows that it shows; `-` for behaviour outside the specification.
    pub shows: Vec<String>,
    /// Name of the fixture server.
    pub server: String,
    /// The revisions in which it is played.
    pub revisions: Vec<usize>,
    /// The transports over which it is played; empty means all.
    pub transports: Vec<String>,
    /// Limits that differ from the defaults.
    pub limits: Vec<(String, u64)>,
    /// Capabilities of the client, as a JSON object.
    pub client: String,
    pub steps: Vec<Step>,
}

/// One step, with its line number and its revisions.
#[derive(Debug)]
pub(crate) struct Step {
    pub line: usize,
    pub revisions: Vec<usize>,
    pub action: Action,
}

/// Action of a step. Texts are JSON with `$` names.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Opens a session in revisions with sessions.
    Open,
    /// Sends a request without a handler and expects its response next.
    Silence,
    /// Closes the input.
    Eof,
    /// Changes the middle character of a captured string.
    Tamper { from: String, to: String },
    /// Runs a command of the fixture on another thread.
    Fire(String),
    /// Runs a command that must fail with an error of this kind.
    Refused { kind: String, command: String },
    /// Sends one line unchanged.
    Send(String),
    /// Sends bytes unchanged, without a line end.
    SendBytes(Vec<u8>),
    /// Sends a request in the envelope of the revision.
    Request { id: String, method: String, params: String },
    /// Sends a notification.
    Note { method: String, params: String },
    /// Responds to the requests of a call.
    Answer { call: String, answers: String },
    /// Responds to the requests of a call with errors; sessions only.
    Refuse { call: String, errors: String },
    /// Expects a message.
    Expect { pattern: Pattern, any_order: bool },
}

/// Expected message.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Exactly this message.
    Message(String),
    /// The result of a request, in the envelope of the revision.
    Result { id: String, body: String },
    /// The error of a request; `-` is an id that could not be read.
    Error { id: String, error: String },
    /// A notification.
    Note { method: String, params: String },
    /// The requests of a call: messages in a session, otherwise an `input_required` result.
    Ask { call: String, asks: String },
}

/// Parses a transcript.
///
/// # Errors
/// Returns the line and the reason.
pub(crate) fn parse(path: &str, text: &str) -> Result<Script, String> {
    let mut script = Script {
        path: path.to_owned(),
        shows: Vec::new(),
        server: String::new(),
        revisions: (0..REVISIONS.len()).collect(),
        transports: Vec::new(),
        limits: Vec::new(),
        client: "{}".to_owned(),
        steps: Vec::new(),
    };
    let mut in_header = true;
    for (line, text) in joined(text) {
        let fail = |why: String| format!("{path}:{line}: {why}");
        if let Some(comment) = text.strip_prefix('#') {
            if let Some(rows) = comment.trim_start().strip_prefix("shows:") {
                script.shows.extend(rows.split_whitespace().map(str::to_owned));
            }
        } else if in_header && !text.starts_with(['<', '>', '!', '.', '[']) {
            match text.split_once(':') {
                Some((name, value)) => header(&mut script, name.trim(), value.trim()).map_err(fail)?,
                None => {
                    in_header = false;
                    script.steps.push(step(line, &text, &script.revisions).map_err(fail)?);
                }
            }
        } else {
            in_header = false;
            script.steps.push(step(line, &text, &script.revisions).map_err(fail)?);
        }
    }
    if script.server.is_empty() {
        return Err(format!("{path}: missing header \"server\""));
    }
    if script.shows.is_empty() {
        return Err(format!(
            "{path}: missing comment \"# shows: ID…\" (ids of rows.txt, or - outside the specification)"
        ));
    }
    Ok(script)
}

/// Reads and parses the transcript in this file.
///
/// # Errors
/// See [`parse`].
pub(crate) fn load(root: &Path, path: &str) -> Result<Script, String> {
    let text = std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
    parse(path, &text)
}

/// Non-blank lines. A line that starts with a blank continues the line before it.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match lines.last_mut() {
            Some((_, last)) if line.starts_with(' ') => last.push_str(line.trim()),
            _ => lines.push((number + 1, line.trim_end().to_owned())),
        }
    }
    lines
}

fn header(script: &mut Script, name: &str, value: &str) -> Result<(), String> {
    match name {
        "server" => value.clone_into(&mut script.server),
        "client" => value.clone_into(&mut script.client),
        "revisions" => script.revisions = revisions(value)?,
        "transports" => script.transports = value.split_whitespace().map(str::to_owned).collect(),
        "limits" => {
            for limit in value.split_whitespace() {
                let (name, number) =
                    limit.split_once('=').ok_or(format!("{limit} is not of the form name=number"))?;
                let number = number.parse().map_err(|_| format!("{number} is not a number"))?;
                script.limits.push((name.to_owned(), number));
            }
        }
        _ => return Err(format!("unknown header {name:?}")),
    }
    Ok(())
}

/// Parses `all`, `legacy`, `modern`, single revisions and ranges such as `06-26`.
fn revisions(text: &str) -> Result<Vec<usize>, String> {
    let one = |token: &str| {
        let place = REVISIONS.iter().position(|(short, _)| *short == token);
        place.ok_or_else(|| format!("{token:?} is not a revision"))
    };
    let mut set = Vec::new();
    for token in text.split_whitespace() {
        match token {
            "all" => set.extend(0..REVISIONS.len()),
            "legacy" => set.extend(0..MODERN),
            "modern" => set.push(MODERN),
            range => match range.split_once('-') {
                Some((from, to)) => set.extend(one(from)?..=one(to)?),
                None => set.push(one(range)?),
            },
        }
    }
    Ok(set)
}

fn step(line: usize, text: &str, every: &[usize]) -> Result<Step, String> {
    let (mark, text) = match text.strip_prefix('[') {
        None => (every.to_vec(), text),
        Some(rest) => {
            let (mark, rest) = rest.split_once(']').ok_or("missing ] after the revisions")?;
            (revisions(mark)?, rest.trim_start())
        }
    };
    Ok(Step { line, revisions: mark, action: action(text)? })
}

fn action(text: &str) -> Result<Action, String> {
    if let Some(command) = text.strip_prefix('!') {
        return Ok(match command.strip_prefix("refused ").and_then(|rest| rest.split_once(' ')) {
            Some((kind, command)) => Action::Refused { kind: kind.to_owned(), command: command.to_owned() },
            None => Action::Fire(command.to_owned()),
        });
    }
    let (operator, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (operator, any_order) = match operator.strip_suffix('*') {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    let rest = rest.trim();
    let (first, second) = rest.split_once(' ').map_or((rest, ""), |(a, b)| (a, b.trim()));
    let (first_owned, second_owned) = (first.to_owned(), second.to_owned());
    let pattern = match operator {
        "." => {
            return match first {
                "open" => Ok(Action::Open),
                "silence" => Ok(Action::Silence),
                "tamper" => {
                    let (from, to) = second.split_once(" as ").ok_or("expected: . tamper NAME as NAME")?;
                    Ok(Action::Tamper { from: from.to_owned(), to: to.to_owned() })
                }
                _ => Err(format!("unknown directive {first:?}")),
            };
        }
        "eof" => return Ok(Action::Eof),
        ">" => return Ok(Action::Send(rest.to_owned())),
        ">bytes" => return Ok(Action::SendBytes(bytes(rest)?)),
        ">>" => {
            let (method, params) = second.split_once(' ').unwrap_or((second, ""));
            if method.is_empty() {
                return Err("expected: >> ID METHOD PARAMS".to_owned());
            }
            let (method, params) = (method.to_owned(), params.trim().to_owned());
            return Ok(Action::Request { id: first_owned, method, params });
        }
        ">-" => return Ok(Action::Note { method: first_owned, params: second_owned }),
        "answer" => return Ok(Action::Answer { call: first_owned, answers: second_owned }),
        "refuse" => return Ok(Action::Refuse { call: first_owned, errors: second_owned }),
        "<" => Pattern::Message(rest.to_owned()),
        "<<" => Pattern::Result { id: first_owned, body: second_owned },
        "<!" => Pattern::Error { id: first_owned, error: second_owned },
        "<-" => Pattern::Note { method: first_owned, params: second_owned },
        "ask" => Pattern::Ask { call: first_owned, asks: second_owned },
        _ => return Err(format!("{operator:?} is not a step")),
    };
    Ok(Action::Expect { pattern, any_order })
}

/// Parses bytes: `\xNN`, `\n`, `\r`, `\t`, `\\`, `\{N*text}` (the text N times) and plain characters.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let letter = escape.chars().next().ok_or("incomplete escape at the end of the line")?;
        let mut used = 1;
        match letter {
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            '\\' => out.push(b'\\'),
            'x' => {
                let digits = escape.get(1..3).ok_or("\\x needs two digits")?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| format!("\\x{digits} is not a byte"))?);
                used = 3;
            }
            '{' => {
                let end = escape.find('}').ok_or("missing } after \\{")?;
                let (count, part) = escape[1..end].split_once('*').ok_or("expected \\{N*text}")?;
                let count: usize = count.parse().map_err(|_| format!("{count} is not a number"))?;
                out.extend_from_slice(part.repeat(count).as_bytes());
                used = end + 1;
            }
            other => return Err(format!("unknown escape \\{other}")),
        }
        rest = &escape[used..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}
