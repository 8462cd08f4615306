//! Elicitation at a terminal: calls a tool and lets the user fill in the server's forms.
//!
//! ```sh
//! cargo build --example board_server
//! cargo run --features client --example ask_user                      # board_server's erase_pins
//! cargo run --features client --example ask_user -- TOOL JSON COMMAND ARG…   # of another server
//! ```
//!
//! Each field is shown with its type and limits. An empty line takes the default, or omits an optional
//! field; for a required field without a default it declines the form. The end of input (Ctrl-D)
//! cancels. Invalid input is asked for again. Forms go to standard error, the result of the tool to
//! standard output.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use tinymcp::json::{Json, Writer};
use tinymcp::{
    Client, ElicitAction, ElicitResponse, Error, ErrorKind, Field, FieldKind, Form, ToolOutput,
    UrlElicitation,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let answered = match words.as_slice() {
        [] => run("erase_pins", "{}", &sibling("board_server"), &[]),
        [tool, arguments, command, args @ ..] => run(tool, arguments, command, args),
        _ => {
            eprintln!("usage: ask_user [TOOL JSON COMMAND [ARG]…]");
            return ExitCode::from(2);
        }
    };
    match answered {
        Ok(output) => {
            print(&output.texts());
            if output.is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("ask_user: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Path of another example, in the folder of this one.
fn sibling(name: &str) -> String {
    let me = std::env::current_exe().unwrap_or_default();
    me.parent().unwrap_or(Path::new(".")).join(name).to_string_lossy().into_owned()
}

fn run(tool: &str, arguments: &str, command: &str, args: &[String]) -> Result<ToolOutput, Error> {
    let arguments = Json::parse(arguments.to_owned())
        .map_err(|e| Error::new(ErrorKind::Invalid, format!("the arguments are not JSON: {e}")))?;
    let mut program = Command::new(command);
    program.args(args);
    // Handlers may run in parallel; the lock on standard input keeps forms apart.
    Client::builder("ask_user", env!("CARGO_PKG_VERSION"))
        .on_elicit(|form| Ok(fill(form, &mut io::stdin().lock(), &mut io::stderr())))
        .on_elicit_url(|page| Ok(visit(page, &mut io::stdin().lock(), &mut io::stderr())))
        .spawn(program)?
        .call_tool(tool, arguments)
}

/// Input of one field.
enum Typed {
    /// A value, as JSON.
    Value(Json),
    /// An empty line for an optional field.
    Nothing,
    /// An empty line for a required field.
    Declined,
    /// The input ended.
    Ended,
}

/// Asks for each field of a form.
fn fill(form: &Form, input: &mut dyn BufRead, output: &mut dyn Write) -> ElicitResponse {
    say(output, &format!("\nThe server asks: {}\n", form.message));
    let mut content = Writer::new();
    content.begin_object();
    for field in &form.fields {
        match ask(field, input, output) {
            Typed::Value(value) => {
                content.key(&field.name).json(&value);
            }
            Typed::Nothing => {}
            Typed::Declined => {
                say(output, "declined\n");
                return ElicitResponse::decline();
            }
            Typed::Ended => {
                say(output, "\ncancelled\n");
                return ElicitResponse::cancel();
            }
        }
    }
    content.end_object();
    // A form without fields only asks for consent.
    if form.fields.is_empty() {
        return match agree(input, output) {
            ElicitAction::Accept => ElicitResponse::accept(content.into_json()),
            ElicitAction::Decline => ElicitResponse::decline(),
            ElicitAction::Cancel => ElicitResponse::cancel(),
        };
    }
    ElicitResponse::accept(content.into_json())
}

/// Shows the URL that the server wants the user to open. The user opens it.
fn visit(page: &UrlElicitation, input: &mut dyn BufRead, output: &mut dyn Write) -> ElicitAction {
    say(output, &format!("\nThe server asks: {}\nOpen this page: {}\n", page.message, page.url));
    agree(input, output)
}

fn agree(input: &mut dyn BufRead, output: &mut dyn Write) -> ElicitAction {
    loop {
        say(output, "Agree? (yes, no): ");
        match line(input) {
            None => return ElicitAction::Cancel,
            Some(typed) if typed.is_empty() => return ElicitAction::Decline,
            Some(typed) => match truth(&typed) {
                Some(true) => return ElicitAction::Accept,
                Some(false) => return ElicitAction::Decline,
                None => say(output, "Type yes or no\n"),
            },
        }
    }
}

/// Asks for one field until the input is valid.
fn ask(field: &Field, input: &mut dyn BufRead, output: &mut dyn Write) -> Typed {
    say(output, &question(field));
    loop {
        say(output, "> ");
        let Some(typed) = line(input) else { return Typed::Ended };
        if typed.is_empty() {
            return match (&field.default, field.required) {
                (Some(default), _) => Typed::Value(default.clone()),
                (None, false) => Typed::Nothing,
                (None, true) => Typed::Declined,
            };
        }
        match read(field, &typed) {
            Ok(value) => return Typed::Value(value),
            Err(why) => say(output, &format!("{why}; try again\n")),
        }
    }
}

/// Prompt of a field: label, description, type and limits.
fn question(field: &Field) -> String {
    let mut text = field.title.as_ref().unwrap_or(&field.name).clone();
    if let Some(about) = &field.description {
        text.push_str(&format!(": {about}"));
    }
    let hint = match &field.kind {
        FieldKind::Bool => "yes or no".to_owned(),
        FieldKind::Integer => "a whole number".to_owned(),
        FieldKind::Number => "a number".to_owned(),
        FieldKind::SingleSelect { .. } => "one of these, by number or value".to_owned(),
        FieldKind::MultiSelect { .. } => "any of these, by number or value, separated by commas".to_owned(),
        FieldKind::Text { format: Some(format) } => format!("a text, as {format}"),
        _ => "a text".to_owned(),
    };
    text.push_str(&format!(" ({hint}"));
    if let Some(least) = field.min {
        text.push_str(&format!(", at least {least}"));
    }
    if let Some(most) = field.max {
        text.push_str(&format!(", at most {most}"));
    }
    match (&field.default, field.required) {
        (Some(default), _) => text.push_str(&format!(", empty for {})\n", default.as_str())),
        (None, true) => text.push_str(", empty to decline)\n"),
        (None, false) => text.push_str(", may be empty)\n"),
    }
    for (n, (value, title)) in options(field).iter().enumerate() {
        let title = title.as_ref().map(|t| format!(": {t}")).unwrap_or_default();
        text.push_str(&format!("  {}  {value}{title}\n", n + 1));
    }
    text
}

fn options(field: &Field) -> &[(String, Option<String>)] {
    match &field.kind {
        FieldKind::SingleSelect { options, .. } | FieldKind::MultiSelect { options } => options,
        _ => &[],
    }
}

/// Converts typed text to the field's value.
fn read(field: &Field, typed: &str) -> Result<Json, String> {
    let mut w = Writer::new();
    let size = match &field.kind {
        FieldKind::Bool => {
            w.bool(truth(typed).ok_or("Type yes or no")?);
            return Ok(w.into_json());
        }
        FieldKind::Integer => {
            let number: i64 = typed.parse().map_err(|_| "Not a whole number")?;
            w.i64(number);
            number as f64
        }
        FieldKind::Number => {
            let number = typed.parse().ok().filter(|n: &f64| n.is_finite()).ok_or("Not a number")?;
            w.f64(number);
            number
        }
        FieldKind::SingleSelect { options, .. } => {
            w.string(choice(options, typed)?);
            return Ok(w.into_json());
        }
        FieldKind::MultiSelect { options } => {
            let chosen = typed.split(',').map(|one| choice(options, one.trim()));
            let chosen = chosen.collect::<Result<Vec<&str>, String>>()?;
            w.begin_array();
            for one in &chosen {
                w.string(one);
            }
            w.end_array();
            chosen.len() as f64
        }
        _ => {
            w.string(typed);
            typed.chars().count() as f64
        }
    };
    match (field.min, field.max) {
        (Some(least), _) if size < least => Err(format!("Less than {least}")),
        (_, Some(most)) if size > most => Err(format!("More than {most}")),
        _ => Ok(w.into_json()),
    }
}

/// An option by its value, or else by its number.
fn choice<'a>(options: &'a [(String, Option<String>)], typed: &str) -> Result<&'a str, String> {
    let by_value = options.iter().find(|(value, _)| value == typed);
    let by_number = || options.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
    by_value
        .or_else(by_number)
        .map(|(value, _)| &**value)
        .ok_or_else(|| format!("{typed:?} is not one of the options"))
}

fn truth(typed: &str) -> Option<bool> {
    match &*typed.to_lowercase() {
        "y" | "yes" | "true" | "1" => Some(true),
        "n" | "no" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// Reads the next line; `None` at the end of input.
fn line(input: &mut dyn BufRead) -> Option<String> {
    let mut typed = String::new();
    match input.read_line(&mut typed) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(typed.trim().to_owned()),
    }
}

/// Prints text of a server without terminal control characters.
fn say(output: &mut dyn Write, text: &str) {
    // If the terminal is gone, the input has ended too, which cancels the form.
    let _ = output.write_all(plain(text).as_bytes()).and_then(|()| output.flush());
}

#[allow(clippy::print_stdout)]
fn print(text: &str) {
    println!("{}", plain(text));
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tinymcp::json;

    /// Value that a field reads from some lines, and the text it prints.
    fn typed(field: Field, lines: &str) -> (Option<String>, String) {
        let mut said = Vec::new();
        let value = match ask(&field, &mut lines.as_bytes(), &mut said) {
            Typed::Value(value) => Some(value.as_str().to_owned()),
            Typed::Nothing => Some("nothing".to_owned()),
            Typed::Declined => Some("declined".to_owned()),
            Typed::Ended => None,
        };
        (value, String::from_utf8(said).unwrap())
    }

    #[test]
    fn each_kind_of_field_is_read() {
        let pin = || Field::integer("pin").min(0).max(27);
        let colour = || Field::choice("colour", ["red", "green", "2"]);
        for (field, lines, value) in [
            (Field::boolean("b"), "Yes\n", "true"),
            (Field::boolean("b"), "perhaps\nn\n", "false"),
            (pin(), "4\n", "4"),
            (pin(), "4.5\n28\n-1\nx\n27\n", "27"),
            (Field::number("n"), "inf\n0.5\n", "0.5"),
            (colour(), "green\n", r#""green""#),
            (colour(), "0\n4\nblue\n1\n", r#""red""#),
            // A value comes before a number.
            (colour(), "2\n", r#""2""#),
            (Field::choices("c", ["a", "b", "c"]).max(2), "a,b,c\n3, a\n", r#"["c","a"]"#),
            (Field::text("t").min(2), "x\nxy z\n", r#""xy z""#),
            (Field::text("t"), "\n", "nothing"),
            (Field::text("t").required(), "\n", "declined"),
            (pin().required().default(json!(7)), "\n", "7"),
        ] {
            let name = field.name.clone();
            assert_eq!(typed(field, lines).0.as_deref(), Some(value), "{name}: {lines:?}");
        }
        assert_eq!(typed(pin(), "99\n").0, None, "the end of input, after invalid input");
    }

    #[test]
    fn a_field_shows_its_description_and_options() {
        let field = Field::titled_choice("zone", [("a", "Attic"), ("b", "Basement")])
            .title("Zone")
            .description("Where to\x1b[2J heat")
            .default(json!("b"));
        let said = typed(field, "\n").1;
        let expected = "Zone: Where to\u{fffd}[2J heat (one of these, by number or value, empty for \"b\")\n  \
                        1  a: Attic\n  2  b: Basement\n> ";
        assert_eq!(said, expected);
    }
}
