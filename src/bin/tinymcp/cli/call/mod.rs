//! Command `call`: one tool, once, or once for each line of standard input.
//!
//! If an argument is text, the tool's schema determines its type, so the tools are listed first. At
//! a terminal, the user is asked for missing required arguments.

pub(crate) mod task;

use std::io::{self, BufRead, Read};

use tinymcp::json::{Doc, Json, Kind, Value, Writer};
use tinymcp::{Client, Error, ErrorKind, stderr};

use super::args::Args;
use super::arguments::{Arguments, object};
use super::ask::{forms, parked};
use super::failure::{FAILED, Failure, Result};
use super::output::Output;
use super::schema::Input;
use super::{MAX_BYTES, commands, connect, lists, print};
use crate::escape::{one_line, plain};

/// Largest signature in a message, in bytes.
const MAX_SIGNATURE: usize = 500;

/// Calls a tool. Returns the exit status.
pub(crate) fn run(
    args: &Args,
    client: &Client,
    output: &Output,
    name: &str,
    arguments: Arguments,
) -> Result<u8> {
    let params = params(args, client, name, arguments)?;
    if args.has("task") {
        return task::call(args, client, output, name, params);
    }
    let result = match &args.questions.park {
        Some(file) => parked::call(args, client, file, &params)?,
        None => commands::wait(commands::tool_call(args, client, params))
            .map_err(|error| failure(args, client, name, &error))?,
    };
    print_result(output, &result)
}

/// Calls once for each line of standard input. Returns the exit status.
pub(crate) fn batch(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let tool = match words {
        ["-"] => None,
        [name, "-"] => Some(*name),
        _ => return Err("`-` excludes other arguments; see `tinymcp help call`".into()),
    };
    Batch { args, output, tool }.run()
}

/// Returns the failure of a call, with the names of tools if this one is unknown.
pub(crate) fn failure(args: &Args, client: &Client, name: &str, error: &Error) -> Failure {
    lists::request_failure(args, error, || {
        let tools = client.tools().unwrap_or_default();
        lists::suggestion(name, tools.iter().map(|tool| tool.name.as_str()))
    })
}

/// Prints the result of a call. Returns the exit status.
pub(crate) fn print_result(output: &Output, result: &Json) -> Result<u8> {
    let doc = result.to_doc();
    let failed = has_failed(doc.root());
    if failed && output.is_part() {
        // The part may be missing; the reason is in the content.
        return Err(tool_failure(doc.root()));
    }
    output.print(doc.root())?;
    if failed && output.is_text() {
        stderr::write("tinymcp: the tool failed\n");
    }
    Ok(if failed { FAILED } else { 0 })
}

/// Returns whether the tool reports a failure in its result.
pub(crate) fn has_failed(result: Value<'_>) -> bool {
    result.get("isError").and_then(Value::as_bool) == Some(true)
}

/// Returns the failure that the tool reports in its result.
pub(crate) fn tool_failure(result: Value<'_>) -> Failure {
    Failure::new(FAILED, format!("the tool failed: {}", print::result(result).trim_end()))
}

/// Returns the parameters of a call. Asks for missing arguments at a terminal.
pub(crate) fn params(args: &Args, client: &Client, name: &str, mut arguments: Arguments) -> Result<Json> {
    let asks = forms::is_interactive();
    let tools = if arguments.need_schema() || asks {
        client.tools().map_err(|error| lists::request_failure(args, &error, String::new))?
    } else {
        Vec::new()
    };
    let schema = tools.iter().find(|tool| tool.name == name).and_then(|tool| tool.input_schema.as_ref());
    let doc = schema.map(Json::to_doc);
    let input = doc.as_ref().map(|doc| Input(doc.root()));
    if let Some(input) = input {
        arguments.resolve(input);
        for note in arguments.check_names(input)? {
            stderr::write(format!("tinymcp: note: {}\n", one_line(&note)));
        }
        let missing = arguments.missing(input);
        if !missing.is_empty() && !asks {
            let names: Vec<&str> = missing.iter().map(|argument| argument.name).collect();
            let cure = match input.signature() {
                long if long.len() > MAX_SIGNATURE => format!("see `tinymcp info {name}`"),
                signature => format!("the tool is {name}{signature}"),
            };
            return Err(format!("missing {}; {cure}", lists::shown(&names)).into());
        }
        let _terminal = (!missing.is_empty()).then(forms::Terminal::take);
        for argument in missing {
            let prompt = one_line(&format!("{} ({}): ", argument.name, argument.expected()));
            loop {
                let answer = forms::ask(&prompt).ok_or("the arguments are not complete")?;
                match argument.write(&mut Writer::new(), &answer) {
                    Ok(()) => {
                        arguments.add(argument.name, answer);
                        break;
                    }
                    Err(expected) => stderr::write(format!("expected {}\n", one_line(&expected))),
                }
            }
        }
    }
    let mut w = Writer::new();
    w.begin_object().key("name").string(name).key("arguments");
    arguments.write(&mut w, input)?;
    w.end_object();
    Ok(w.into_json())
}

/// Calls with the lines of standard input, one after the other over one connection.
struct Batch<'a> {
    args: &'a Args,
    output: &'a Output,
    /// The tool. If `None`, each line names its tool.
    tool: Option<&'a str>,
}

impl Batch<'_> {
    /// Calls once if standard input is one JSON object, even over several lines; otherwise once for
    /// each line.
    fn run(&self) -> Result<u8> {
        let mut input = io::stdin().lock().take(MAX_BYTES + 1);
        let mut text = String::new();
        let mut client = None;
        let mut status = 0;
        let mut number = 0_u64;
        loop {
            text.clear();
            number += 1;
            input.set_limit(MAX_BYTES + 1);
            let read = |e: io::Error| format!("standard input, line {number}: {e}");
            if input.read_line(&mut text).map_err(read)? == 0 {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            // The first line may be the start of an object.
            if client.is_none() && text.trim_start().starts_with('{') && Doc::parse(&text).is_err() {
                input.read_to_string(&mut text).map_err(read)?;
            }
            if text.len() as u64 > MAX_BYTES {
                return Err(format!("standard input: longer than {MAX_BYTES} bytes").into());
            }
            let doc = object(&text).map_err(|failure| format!("line {number}: {}", failure.message))?;
            let client = match &mut client {
                Some(client) => client,
                none => none.insert(connect::connect(connect::builder(self.args)?, self.args)?),
            };
            status = status.max(self.call(client, number, doc.root())?);
        }
        match client {
            None if self.tool.is_some() => Err("standard input has no arguments; write {} for none".into()),
            None => Err("standard input has no calls".into()),
            Some(_) => Ok(status),
        }
    }

    /// Makes one call. An error of the server is printed as a result with the member `error`.
    fn call(&self, client: &Client, number: u64, line: Value<'_>) -> Result<u8> {
        let mut w = Writer::new();
        match self.tool {
            Some(name) => {
                w.begin_object().key("name").string(name).key("arguments").value(line).end_object();
            }
            None if line.get("name").is_some_and(|name| name.kind() == Kind::String) => {
                w.value(line);
            }
            None => {
                return Err(format!(
                    r#"line {number}: expected a call such as {{"name": "echo", "arguments": {{"text": "hi"}}}}"#
                )
                .into());
            }
        }
        match commands::wait(commands::tool_call(self.args, client, w.into_json())) {
            Ok(result) => print_result(self.output, &result).or_else(|failure| {
                if failure.status != FAILED {
                    return Err(failure);
                }
                // Each line of the input has one line of the output.
                failure.print();
                self.output.write("null\n").map(|()| FAILED)
            }),
            Err(error) if error.kind() == ErrorKind::Remote => {
                let mut w = Writer::new();
                w.begin_object().key("error").begin_object();
                w.key("code").i64(error.code().unwrap_or_default().into());
                w.key("message").string(&error.to_string()).end_object().end_object();
                self.output.write(&format!("{}\n", plain(w.as_str())))?;
                Ok(FAILED)
            }
            Err(error) => {
                let name = self.tool.unwrap_or_default();
                Err(failure(self.args, client, name, &error))
            }
        }
    }
}
