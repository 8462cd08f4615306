//! Answers to the server's questions: forms, and pages that the user should open.
//!
//! An answer comes from `--answer`, else from the user if standard input and standard error are a
//! terminal. Without both, the client does not offer to ask, and servers know it.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tinymcp::json::{Json, Writer};
use tinymcp::{Action, ClientBuilder, Field, FieldKind, Form, FormResponse, Refusal, UrlRequest, stderr};

use super::args::Args;
use super::print;
use crate::escape::{one_line, plain};

/// Longest line that is read, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Sets the handlers, if there is a way to answer.
pub(crate) fn install(client: ClientBuilder, args: &Args) -> ClientBuilder {
    let asks = is_interactive();
    if !asks && args.answers.is_empty() {
        return client;
    }
    let form = Answers { given: args.answers.clone(), asks };
    let page = Answers { given: args.answers.clone(), asks };
    client.on_form(move |question| form.fill(question)).on_url(move |question| page.agree_to_page(question))
}

/// Returns whether a user can be asked.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Questions are asked one after the other.
static TERMINAL: Mutex<()> = Mutex::new(());

/// The terminal while questions are asked: no progress is shown, and no other question is asked.
pub(crate) struct Terminal(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Terminal {
    /// Waits for the end of other questions.
    pub(crate) fn take() -> Terminal {
        let guard = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
        print::prompting(true);
        print::progress_done();
        Terminal(guard)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        print::prompting(false);
    }
}

/// Indents lines of a server, so that they cannot imitate lines of this program.
fn indented(text: &str) -> String {
    plain(text).trim_end().replace('\n', "\n  ")
}

/// Prints a prompt and reads a line; `None` at the end of input. The terminal must be taken.
pub(crate) fn ask(prompt: &str) -> Option<String> {
    // Earlier messages come first.
    stderr::flush();
    let mut line = String::new();
    // If the terminal is gone, the input has ended, too.
    let _ = io::stderr().write_all(prompt.as_bytes());
    match io::stdin().lock().take(MAX_LINE).read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}

/// Answers that the command line gives, and the user.
struct Answers {
    /// Names with values; a consent has no name.
    given: Vec<(String, String)>,
    asks: bool,
}

impl Answers {
    fn given(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn fill(&self, form: &Form) -> Result<FormResponse, Refusal> {
        let is_answered = form.fields.iter().any(|field| self.given(&field.name).is_some());
        if !form.fields.is_empty() && !is_answered && self.given("") == Some("no") {
            return Ok(FormResponse::decline());
        }
        if !form.fields.is_empty() && !is_answered && !self.asks {
            let names: Vec<&str> = form.fields.iter().map(|field| field.name.as_str()).collect();
            return Err(no_answer(&format!("{}=VALUE", names.join("=VALUE --answer "))));
        }
        let _terminal = self.asks.then(Terminal::take);
        if self.asks && form.fields.iter().any(|field| self.given(&field.name).is_none()) {
            stderr::write(format!("The server asks: {}\n", indented(&form.message)));
        }
        let mut content = Writer::new();
        content.begin_object();
        for field in &form.fields {
            let value = match self.given(&field.name) {
                Some(text) => Some(value(field, text).map_err(|expected| {
                    refusal(format!("--answer {}: expected {expected}, got {text:?}", field.name))
                })?),
                None if self.asks => match ask_field(field) {
                    Typed::Value(value) => Some(value),
                    Typed::Nothing => None,
                    Typed::Declined => return Ok(FormResponse::decline()),
                    Typed::Ended => return Ok(FormResponse::cancel()),
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
        if !form.fields.is_empty() {
            return Ok(FormResponse::accept(content.into_json()));
        }
        match self.agree(&form.message)? {
            Action::Accept => Ok(FormResponse::accept(content.into_json())),
            Action::Decline => Ok(FormResponse::decline()),
            Action::Cancel => Ok(FormResponse::cancel()),
        }
    }

    fn agree_to_page(&self, page: &UrlRequest) -> Result<Action, Refusal> {
        let _terminal = self.asks.then(Terminal::take);
        stderr::write(format!("The server asks to open this page: {}\n", one_line(&page.url)));
        self.agree(&page.message)
    }

    fn agree(&self, message: &str) -> Result<Action, Refusal> {
        match self.given("") {
            Some(text) => {
                return Ok(if truth(text) == Some(true) { Action::Accept } else { Action::Decline });
            }
            None if self.asks => {}
            None => return Err(no_answer("yes or --answer no")),
        }
        loop {
            let Some(text) = ask(&format!("{} (yes or no): ", indented(message))) else {
                return Ok(Action::Cancel);
            };
            match truth(&text) {
                Some(true) => return Ok(Action::Accept),
                Some(false) => return Ok(Action::Decline),
                None if text.is_empty() => return Ok(Action::Decline),
                None => {}
            }
        }
    }
}

/// Refuses a question, and says why: not every server passes the reason on.
fn refusal(message: String) -> Refusal {
    stderr::write(format!("tinymcp: {}\n", one_line(&message)));
    Refusal { message }
}

fn no_answer(cure: &str) -> Refusal {
    refusal(format!("the server asks and there is no answer; use --answer {cure}"))
}

/// Input of one field.
enum Typed {
    Value(Json),
    /// An empty line for an optional field.
    Nothing,
    /// An empty line for a required field without a default.
    Declined,
    /// The input ended.
    Ended,
}

fn ask_field(field: &Field) -> Typed {
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
    let mut prompt = one_line(&format!("{label}{about} ({}, {empty})", expected(field)));
    prompt.push_str(": ");
    loop {
        let Some(text) = ask(&prompt) else { return Typed::Ended };
        if text.is_empty() {
            return match (&field.default, field.required) {
                (Some(default), _) => Typed::Value(default.clone()),
                (None, true) => Typed::Declined,
                (None, false) => Typed::Nothing,
            };
        }
        match value(field, &text) {
            Ok(value) => return Typed::Value(value),
            Err(expected) => stderr::write(format!("expected {}\n", one_line(&expected))),
        }
    }
}

/// Returns the values that a field accepts, for people.
fn expected(field: &Field) -> String {
    let mut text = match &field.kind {
        FieldKind::Bool => "yes or no".to_owned(),
        FieldKind::Integer => "an integer".to_owned(),
        FieldKind::Number => "a number".to_owned(),
        FieldKind::One { options, .. } => format!("one of {}", values(options)),
        FieldKind::Many { options } => format!("any of {}, with commas", values(options)),
        FieldKind::Text { format: Some(format) } => format!("a text, as {format}"),
        _ => "a text".to_owned(),
    };
    match (field.least, field.most) {
        (Some(least), Some(most)) => text.push_str(&format!(", {least} to {most}")),
        (Some(least), None) => text.push_str(&format!(", at least {least}")),
        (None, Some(most)) => text.push_str(&format!(", at most {most}")),
        (None, None) => {}
    }
    text
}

fn values(options: &[(String, Option<String>)]) -> String {
    options.iter().map(|(value, _)| value.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns a text as the value of a field. The error is the expected form.
fn value(field: &Field, text: &str) -> Result<Json, String> {
    let mut w = Writer::new();
    let known =
        |options: &[(String, Option<String>)], text: &str| options.iter().any(|(value, _)| value == text);
    let size = match &field.kind {
        FieldKind::Bool => truth(text).map(|value| {
            w.bool(value);
            None
        }),
        FieldKind::Integer => text.trim().parse().ok().map(|number: i64| {
            w.i64(number);
            Some(number as f64)
        }),
        FieldKind::Number => text.trim().parse().ok().filter(|n: &f64| n.is_finite()).map(|number| {
            w.f64(number);
            Some(number)
        }),
        FieldKind::One { options, .. } => known(options, text).then(|| {
            w.string(text);
            None
        }),
        FieldKind::Many { options } => {
            let chosen: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
            w.begin_array();
            for one in &chosen {
                w.string(one);
            }
            w.end_array();
            chosen.iter().all(|one| known(options, one)).then_some(Some(chosen.len() as f64))
        }
        _ => {
            w.string(text);
            Some(Some(text.chars().count() as f64))
        }
    };
    let fits = |size: f64| {
        field.least.is_none_or(|least| size >= least) && field.most.is_none_or(|most| size <= most)
    };
    match size {
        Some(size) if size.is_none_or(fits) => Ok(w.into_json()),
        _ => Err(expected(field)),
    }
}

fn truth(text: &str) -> Option<bool> {
    match &*text.trim().to_ascii_lowercase() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tinymcp::json;

    use super::*;

    #[test]
    fn texts_are_values_of_fields() {
        let pin = || Field::integer("pin").least(0).most(27);
        let colours = || Field::choices("c", ["a", "b", "c"]).most(2);
        for (field, text, expected) in [
            (Field::boolean("b"), "Yes", Some("true")),
            (Field::boolean("b"), "1", None),
            (pin(), "4", Some("4")),
            (pin(), "28", None),
            (pin(), "4.5", None),
            (Field::number("n"), "inf", None),
            (Field::number("n"), "0.5", Some("0.5")),
            (Field::choice("c", ["red", "2"]), "red", Some(r#""red""#)),
            (Field::choice("c", ["red", "2"]), "1", None),
            (colours(), "a, c", Some(r#"["a","c"]"#)),
            (colours(), "a,b,c", None),
            (colours(), "a,x", None),
            (Field::text("t").least(2), "x", None),
            (Field::text("t").least(2), "xy", Some(r#""xy""#)),
        ] {
            let name = field.name.clone();
            assert_eq!(value(&field, text).ok().as_ref().map(Json::as_str), expected, "{name}: {text}");
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
        // A form is not accepted by an answer to something else.
        let optional = Form::new("Delete?").field(Field::boolean("sure").default(json!(true)));
        assert!(answers(&[("pin", "4"), ("", "yes")]).fill(&optional).is_err());
        assert_eq!(answers(&[("", "no")]).fill(&optional), Ok(FormResponse::decline()));
        let refusal = answers(&[("pin", "x")]).fill(&form).unwrap_err();
        assert_eq!(refusal.message, "--answer pin: expected an integer, got \"x\"");
        // Consent needs an answer of its own.
        let consent = Form::new("Erase?");
        assert!(answers(&[("pin", "4")]).fill(&consent).is_err());
        assert_eq!(answers(&[("", "yes")]).agree("Erase?").unwrap(), Action::Accept);
        assert_eq!(answers(&[("", "no")]).agree("Erase?").unwrap(), Action::Decline);
    }
}
