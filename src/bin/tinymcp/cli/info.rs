//! Command `info`: a server, or one of its tools with an example of a call.

use tinymcp::json::{Json, Value, Writer};
use tinymcp::{Client, Protocol, Tool};

use super::args::Args;
use super::failure::Result;
use super::output::Output;
use super::schema::{Argument, Input};
use super::{lists, print};
use crate::escape::{one_line, plain};
use crate::shell_words::quoted;

/// Largest width of a column, in characters.
const MAX_WIDTH: usize = 32;

/// Prints the description of the server, or of a tool.
pub(crate) fn run(args: &Args, client: &Client, output: &Output, tool: Option<&str>) -> Result<()> {
    let Some(name) = tool else {
        let lists = lists::list(client, &[]);
        let lists = lists.map_err(|error| lists::request_failure(args, &error, String::new))?.to_doc();
        return if output.is_text() {
            output.write(&format!("{}\n{}", server_text(client), print::result(lists.root())))
        } else {
            output.print(server_json(client, lists.root()).to_doc().root())
        };
    };
    let tool = lists::find(args, client, name)?;
    match &tool.source {
        _ if output.is_text() => output.write(&tool_text(args, &tool)),
        Some(source) => output.print(source.to_doc().root()),
        None => Ok(()),
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Session => "session",
        Protocol::Stateless => "stateless",
    }
}

fn server_json(client: &Client, lists: Value<'_>) -> Json {
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
    w.key("capabilities").json(&server.capabilities_json);
    for (name, list) in lists.members() {
        w.key(name).value(list);
    }
    w.end_object();
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
    let capabilities = server.capabilities_json.to_doc();
    let names: Vec<&str> = capabilities.root().members().map(|(name, _)| name).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    text.push_str(&format!("capabilities  {}\n", one_line(&names)));
    if let Some(instructions) = &server.instructions {
        // Indented, so that they cannot imitate the lists that follow.
        text.push('\n');
        for line in instructions.trim_end().lines() {
            text.push_str(format!("  {}", one_line(line)).trim_end());
            text.push('\n');
        }
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
    if let Some(page) = tool.app_page() {
        text.push_str(&format!("  (page {})\n", one_line(&page)));
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
    // Any other word could be read as an option, a file or JSON.
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
