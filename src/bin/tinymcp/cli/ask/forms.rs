//! Answers to the server's questions: forms, and pages that the user should open.
//!
//! `--answer` gives the answer; otherwise the user does, if standard input and standard error are a
//! terminal. Without both and without `--park`, the client does not declare elicitation.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(unix)]
use rustix::io::Errno;

use tinymcp::json::{Json, Writer};
use tinymcp::{ClientBuilder, ElicitAction, ElicitResponse, Field, Form, Refusal, UrlElicitation, stderr};

use super::super::args::Args;
use super::super::print;
use super::super::schema::{Argument, Input, parse_bool};
#[cfg(unix)]
use super::super::signals;
use crate::escape::{one_line, plain};

/// Time between two checks of whether the user interrupted a question.
#[cfg(unix)]
const POLL: Duration = Duration::from_millis(50);
#[cfg(unix)]
const POLL_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longest line that is read, in bytes.
const MAX_LINE: u64 = 1 << 20;
/// Question after a form that empty lines could fill.
const SEND: &str = "Send this answer?";

/// Sets the handlers, if questions can be answered or parked.
pub(crate) fn install(client: ClientBuilder, args: &Args) -> ClientBuilder {
    let asks = is_interactive();
    if !asks && args.questions.answers.is_empty() && args.questions.park.is_none() {
        return client;
    }
    let form = Answers { given: args.questions.answers.clone(), asks };
    let page = Answers { given: args.questions.answers.clone(), asks };
    client
        .on_elicit(move |question| form.fill(question))
        .on_elicit_url(move |question| page.agree_to_page(question))
}

/// Returns whether a user can be asked.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Lock of the terminal, so that questions are asked one after the other.
static TERMINAL: Mutex<()> = Mutex::new(());
/// Number of questions that wait for the terminal.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The terminal while questions are asked: no progress is shown, and no other question is asked.
pub(crate) struct Terminal(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Terminal {
    /// Waits for the end of other questions, and of the line that is edited.
    pub(crate) fn take() -> Terminal {
        WAITING.fetch_add(1, Ordering::SeqCst);
        let guard = TERMINAL.try_lock().unwrap_or_else(|_| {
            print::note("The server asks a question; it appears after this line.");
            TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
        });
        WAITING.fetch_sub(1, Ordering::SeqCst);
        print::prompting(true);
        print::progress_done();
        drop_typed();
        Terminal(guard)
    }

    /// Takes the terminal for a line after the questions that wait.
    #[cfg(unix)]
    pub(crate) fn for_line() -> Terminal {
        while WAITING.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(POLL);
        }
        print::progress_done();
        Terminal(TERMINAL.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        print::prompting(false);
    }
}

/// Drops what was typed before a question, because it cannot be an answer to it.
fn drop_typed() {
    #[cfg(unix)]
    // OK to drop: input that is not a terminal is not typed.
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Indents lines of a server, so that they cannot imitate lines of this program.
fn indented(text: &str) -> String {
    plain(text).trim_end().replace('\n', "\n  ")
}

/// Prints a prompt and reads a line; `None` at the end of input and after a signal that cancels the
/// call. If a signal ends the program, this function does not return. The terminal must be taken.
pub(crate) fn ask(prompt: &str) -> Option<String> {
    // Print earlier messages first.
    stderr::flush();
    let mut line = String::new();
    // If the terminal is closed, the input has ended, too.
    let _ = io::stderr().write_all(prompt.as_bytes());
    #[cfg(unix)]
    if !has_line() {
        signals::park_if_ending();
        return None;
    }
    match io::stdin().lock().take(MAX_LINE).read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

/// Waits until a line is typed. Returns `false` if a signal ends the question first.
#[cfg(unix)]
fn has_line() -> bool {
    let stdin = io::stdin();
    let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
    loop {
        match poll(&mut descriptors, Some(&POLL_TIME)) {
            Ok(0) | Err(Errno::INTR) if signals::has_interrupted_call() => return false,
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}

/// Answers from the command line and from the user.
struct Answers {
    /// Names with values. The name is empty for a consent.
    given: Vec<(String, String)>,
    asks: bool,
}

impl Answers {
    fn given(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn fill(&self, form: &Form) -> Result<ElicitResponse, Refusal> {
        let is_answered = form.fields.iter().any(|field| self.given(&field.name).is_some());
        if !form.fields.is_empty() && !is_answered && self.given("") == Some("no") {
            return Ok(ElicitResponse::decline());
        }
        if !form.fields.is_empty() && !is_answered && !self.asks {
            let names: Vec<&str> = form.fields.iter().map(|field| field.name.as_str()).collect();
            return Err(no_answer(&format!("{}=VALUE", names.join("=VALUE --answer "))));
        }
        let _terminal = self.asks.then(Terminal::take);
        if self.asks && form.fields.iter().any(|field| self.given(&field.name).is_none()) {
            stderr::write(format!("The server asks: {}\n", indented(&form.message)));
        }
        let schema = form.schema().to_doc();
        let mut content = Writer::new();
        content.begin_object();
        for field in &form.fields {
            let Some(argument) = Input(schema.root()).argument(&field.name) else { continue };
            let value = match self.given(&field.name) {
                Some(text) => Some(argument.value(text).map_err(|expected| {
                    refusal(format!("--answer {}: expected {expected}, got {text:?}", field.name))
                })?),
                None if self.asks => match ask_field(field, argument) {
                    FieldInput::Value(value) => Some(value),
                    FieldInput::Nothing => None,
                    FieldInput::Declined => return Ok(ElicitResponse::decline()),
                    FieldInput::Ended => return Ok(ElicitResponse::cancel()),
                },
                None if field.required && field.default.is_none() => {
                    return Err(no_answer(&format!("{}=VALUE", field.name)));
                }
                None => None,
            };
            if let Some(value) = value {
                content.key(&field.name).json(&value);
            }
        }
        content.end_object();
        // Empty lines alone are not consent.
        let may_be_empty = form.fields.iter().all(|field| field.default.is_some() || !field.required);
        let message = match form.fields.is_empty() {
            true => &form.message,
            false if self.asks && !is_answered && may_be_empty => SEND,
            false => return Ok(ElicitResponse::accept(content.into_json())),
        };
        match self.agree(message)? {
            ElicitAction::Accept => Ok(ElicitResponse::accept(content.into_json())),
            ElicitAction::Decline => Ok(ElicitResponse::decline()),
            ElicitAction::Cancel => Ok(ElicitResponse::cancel()),
        }
    }

    fn agree_to_page(&self, page: &UrlElicitation) -> Result<ElicitAction, Refusal> {
        let _terminal = self.asks.then(Terminal::take);
        stderr::write(format!("The server asks to open this page: {}\n", one_line(&page.url)));
        self.agree(&page.message)
    }

    fn agree(&self, message: &str) -> Result<ElicitAction, Refusal> {
        match self.given("") {
            Some(text) => {
                return Ok(if parse_bool(text) == Some(true) {
                    ElicitAction::Accept
                } else {
                    ElicitAction::Decline
                });
            }
            None if self.asks => {}
            None => return Err(no_answer("yes or --answer no")),
        }
        drop_typed();
        loop {
            let Some(text) = ask(&format!("{} (yes or no): ", indented(message))) else {
                return Ok(ElicitAction::Cancel);
            };
            match parse_bool(&text) {
                Some(true) => return Ok(ElicitAction::Accept),
                Some(false) => return Ok(ElicitAction::Decline),
                None if text.is_empty() => return Ok(ElicitAction::Decline),
                None => {}
            }
        }
    }
}

/// Refuses a question and reports the reason to the user, because some servers do not pass it on.
pub(super) fn refusal(message: String) -> Refusal {
    print::note(&format!("tinymcp: {}", one_line(&message)));
    Refusal { message }
}

fn no_answer(cure: &str) -> Refusal {
    refusal(format!("the server asks and there is no answer; use --answer {cure}"))
}

/// Input of one field.
enum FieldInput {
    Value(Json),
    /// An empty line for an optional field.
    Nothing,
    /// An empty line for a required field without a default.
    Declined,
    /// The input ended.
    Ended,
}

fn ask_field(field: &Field, argument: Argument<'_>) -> FieldInput {
    let label = match &field.title {
        Some(title) => format!("{title} [{}]", field.name),
        None => field.name.clone(),
    };
    let about = field.description.as_ref().map(|about| format!(": {about}")).unwrap_or_default();
    let empty = match (&field.default, field.required) {
        (Some(default), _) => format!("empty for {}", default.as_str()),
        (None, true) => "empty to decline".to_owned(),
        (None, false) => "may be empty".to_owned(),
    };
    let mut prompt = one_line(&format!("{label}{about} ({}, {empty})", argument.expected()));
    prompt.push_str(": ");
    loop {
        let Some(text) = ask(&prompt) else { return FieldInput::Ended };
        if text.is_empty() {
            return match (&field.default, field.required) {
                (Some(default), _) => FieldInput::Value(default.clone()),
                (None, true) => FieldInput::Declined,
                (None, false) => FieldInput::Nothing,
            };
        }
        match argument.value(&text) {
            Ok(value) => return FieldInput::Value(value),
            Err(expected) => stderr::write(format!("expected {}\n", one_line(&expected))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tinymcp::json;

    use super::*;

    #[test]
    fn texts_are_values_of_fields() {
        let pin = || Field::integer("pin").min(0).max(27);
        let colours = || Field::choices("c", ["a", "b", "c"]).max(2);
        let named = || Field::titled_choice("n", [("1", "One"), ("2", "Two")]);
        for (field, text, expected) in [
            (Field::boolean("b"), "Yes", Some("true")),
            (Field::boolean("b"), "1", None),
            (pin(), "4", Some("4")),
            (pin(), "28", None),
            (pin(), "4.5", None),
            (Field::number("n"), "inf", None),
            (Field::number("n"), "0.5", Some("0.5")),
            (Field::choice("c", ["red", "2"]), "red", Some(r#""red""#)),
            (Field::choice("c", ["red", "2"]), "2", Some(r#""2""#)),
            (Field::choice("c", ["red", "2"]), "1", None),
            (named(), "1", Some(r#""1""#)),
            (named(), "One", None),
            (colours(), "a, c", Some(r#"["a","c"]"#)),
            (colours(), r#"["b"]"#, Some(r#"["b"]"#)),
            (colours(), "a,b,c", None),
            (colours(), "a,x", None),
            (Field::titled_choices("c", [("a", "A"), ("b", "B")]), "b,a", Some(r#"["b","a"]"#)),
            (Field::text("t").min(2), "x", None),
            (Field::text("t").min(2), "42", Some(r#""42""#)),
        ] {
            let name = field.name.clone();
            let schema = Form::new("").field(field).schema().to_doc();
            let argument = Input(schema.root()).argument(&name).unwrap();
            assert_eq!(argument.value(text).ok().as_ref().map(Json::as_str), expected, "{name}: {text}");
        }
        for (field, expected) in [
            (Field::boolean("b"), "yes or no"),
            (pin(), "integer 0..27"),
            (named(), r#"one of "1"|"2""#),
            (colours(), r#"("a"|"b"|"c")[] ..2"#),
            (Field::email("e"), "string (email)"),
        ] {
            let schema = Form::new("").field(field.clone()).schema().to_doc();
            assert_eq!(Input(schema.root()).argument(&field.name).unwrap().expected(), expected);
        }
    }

    #[test]
    fn answers_fill_forms_without_a_user() {
        let answers = |given: &[(&str, &str)]| Answers {
            given: given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            asks: false,
        };
        let form = Form::new("Which?")
            .field(Field::integer("pin").required())
            .field(Field::text("note").required().default(json!("none")));
        assert!(answers(&[("pin", "4")]).fill(&form).is_ok());
        let refusal = answers(&[]).fill(&form).unwrap_err();
        assert!(refusal.message.ends_with("--answer pin=VALUE --answer note=VALUE"), "{}", refusal.message);
        // An answer to another field does not accept a form.
        let optional = Form::new("Delete?").field(Field::boolean("sure").default(json!(true)));
        assert!(answers(&[("pin", "4"), ("", "yes")]).fill(&optional).is_err());
        assert_eq!(answers(&[("", "no")]).fill(&optional), Ok(ElicitResponse::decline()));
        let refusal = answers(&[("pin", "x")]).fill(&form).unwrap_err();
        assert_eq!(refusal.message, "--answer pin: expected integer, got \"x\"");
        // A form without fields needs `yes`.
        let consent = Form::new("Erase?");
        assert!(answers(&[("pin", "4")]).fill(&consent).is_err());
        assert_eq!(answers(&[("", "yes")]).agree("Erase?").unwrap(), ElicitAction::Accept);
        assert_eq!(answers(&[("", "no")]).agree("Erase?").unwrap(), ElicitAction::Decline);
    }
}
