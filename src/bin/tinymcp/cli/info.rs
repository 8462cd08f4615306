//! Command `info`: a server, or one of its tools with an example of a call.

use tinymcp::json::{Json, Writer};
use tinymcp::{Client, Protocol, Tool};

use super::args::Args;
use super::failure::Result;
use super::output::Output;
use super::schema::{Argument, Input};
use super::{connect, lists};
use crate::escape::{one_line, plain};

/// Largest width of a column, in characters.
const MAX_WIDTH: usize = 32;

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let name = match words {
        [] | [""] => None,
        [name] => Some(*name),
        _ => return Err("expected at most one tool; see `tinymcp help info`".into()),
    };
    let client = connect::connect(connect::builder(args)?, args)?;
    let Some(name) = name else {
        return if output.is_text() {
            output.write(&server_text(&client))
        } else {
            output.print(server_json(&client).to_doc().root())
        }
        .map(|()| 0);
    };
    let tool = lists::find(args, &client, name)?;
    if output.is_text() {
        output.write(&tool_text(args, &tool))?;
    } else if let Some(source) = &tool.source {
        output.print(source.to_doc().root())?;
    }
    Ok(0)
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Session => "session",
        Protocol::Stateless => "stateless",
    }
}

fn server_json(client: &Client) -> Json {
    let server = client.server();
    let mut w = Writer::new();
    w.begin_object().key("name").string(&server.name).key("version").string(&server.version);
    let optional = [
        ("title", &server.title),
        ("description", &server.description),
        ("websiteUrl", &server.website),
        ("instructions", &server.instructions),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            w.key(name).string(value);
        }
    }
    w.key("protocolVersion").string(server.revision);
    w.key("protocol").string(protocol_name(server.protocol));
    w.key("capabilities").json(&server.capabilities).end_object();
    w.into_json()
}

fn server_text(client: &Client) -> String {
    let server = client.server();
    let mut text = format!("{} {}\n", one_line(&server.name), one_line(&server.version));
    let title = [&server.title, &server.description, &server.website];
    for line in title.into_iter().flatten() {
        text.push_str(&format!("  {}\n", one_line(line)));
    }
    let protocol = protocol_name(server.protocol);
    text.push_str(&format!("revision      {} ({protocol} protocol)\n", server.revision));
    let capabilities = server.capabilities.to_doc();
    let names: Vec<&str> = capabilities.root().members().map(|(name, _)| name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    text.push_str(&format!("capabilities  {}\n", one_line(&names)));
    if let Some(instructions) = &server.instructions {
        text.push_str(&format!("\n{}\n", plain(instructions.trim_end())));
    }
    text
}

fn tool_text(args: &Args, tool: &Tool) -> String {
    let mut text = String::new();
    let doc = tool.input_schema.as_ref().map(Json::to_doc);
    let input = doc.as_ref().map(|doc| Input(doc.root()));
    let signature = input.map(Input::signature).unwrap_or_default();
    text.push_str(&format!("{}\n", one_line(&format!("{}{signature}", tool.name))));
    for about in [&tool.title, &tool.description].into_iter().flatten() {
        for line in plain(about.trim()).lines() {
            text.push_str(format!("  {line}").trim_end());
            text.push('\n');
        }
    }
    let hints = [
        (tool.hints.read_only, "changes nothing"),
        (tool.hints.destructive, "may destroy"),
        (tool.hints.idempotent, "may be repeated"),
        (tool.hints.open_world, "reaches outside systems"),
    ];
    let hints: Vec<&str> =
        hints.iter().filter(|(set, _)| *set == Some(true)).map(|(_, name)| *name).collect();
    if !hints.is_empty() {
        text.push_str(&format!("  ({})\n", hints.join(", ")));
    }
    let arguments: Vec<Argument<'_>> = input.map(|input| input.arguments().collect()).unwrap_or_default();
    if !arguments.is_empty() {
        text.push('\n');
        table(&mut text, &arguments);
    }
    // A name such as `--output` would be an option.
    if !tool.name.starts_with('-') {
        text.push_str(&format!("\nExample: {}\n", example(args, tool, &arguments)));
    }
    text
}

fn table(text: &mut String, arguments: &[Argument<'_>]) {
    let head = ["ARGUMENT".to_owned(), "TYPE".to_owned(), "REQUIRED".to_owned(), "DESCRIPTION".to_owned()];
    let mut rows = vec![head];
    for argument in arguments {
        let required = if argument.is_required { "yes" } else { "no" };
        let about = argument.description().lines().next().unwrap_or_default();
        rows.push([argument.name, &argument.details(), required, about].map(one_line));
    }
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default().min(MAX_WIDTH)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    for [name, kind, required, about] in &rows {
        let row = format!("{name:first$}  {kind:second$}  {required:third$}  {about}");
        text.push_str(row.trim_end());
        text.push('\n');
    }
}

/// Returns the command line of a call with the required arguments.
fn example(args: &Args, tool: &Tool, arguments: &[Argument<'_>]) -> String {
    let mut words = vec!["tinymcp".to_owned(), "call".to_owned(), quoted(&tool.name)];
    let required = || arguments.iter().filter(|argument| argument.is_required);
    // Other words would have another meaning: an option, a file, or JSON.
    let is_plain = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) && !name.starts_with('-')
    };
    if required().all(|argument| is_plain(argument.name)) {
        words.extend(required().map(|argument| quoted(&format!("{}={}", argument.name, argument.example()))));
    } else {
        let mut w = Writer::new();
        w.begin_object();
        for argument in required() {
            w.key(argument.name).string(&argument.example());
        }
        words.push(quoted(w.end_object().as_str()));
    }
    if let Some(url) = &args.server.url {
        words.push(format!("--url {}", quoted(url)));
    }
    if let Some(key) = &args.server.key {
        words.push(format!("--server {}", quoted(key)));
    }
    if let Some(config) = &args.server.config {
        words.push(format!("--config {}", quoted(&config.to_string_lossy())));
    }
    if let Some(command) = &args.server.command {
        words.push("--".to_owned());
        words.extend(command.iter().map(|word| quoted(&word.to_string_lossy())));
    }
    words.join(" ")
}

/// Quotes a word for a shell if needed. Control characters are replaced.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", one_line(word).replace('\'', r"'\''"))
}
