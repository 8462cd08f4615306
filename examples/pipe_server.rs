//! Text tools for shell pipelines: `word_count`, `sort_lines`, `find_lines`.
//!
//! The stateless protocol needs one line per call and no session:
//!
//! ```sh
//! printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"word_count","arguments":{"text":"to be or not to be"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}' |
//!     cargo run -q --example pipe_server | jq -c .result.structuredContent
//! # {"lines":1,"words":6,"characters":18}
//! ```
//!
//! A session begins with `initialize`, and its response is the first line of output:
//!
//! ```sh
//! printf '%s\n' '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"sh","version":"1"}}}' '{"jsonrpc":"2.0","method":"notifications/initialized"}' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find_lines","arguments":{"text":"one\ntwo\nthree","pattern":"t"}}}' |
//!     cargo run -q --example pipe_server | jq -r 'select(.id == 1).result.content[0].text'
//! # 2:two
//! # 3:three
//! ```
//!
//! `jq` before and after the server processes a whole file:
//!
//! ```sh
//! printf '%s\n' pear apple pear fig |
//!     jq -Rsc '{jsonrpc:"2.0",id:1,method:"tools/call",params:{name:"sort_lines",arguments:{text:.,unique:true},_meta:{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}' |
//!     cargo run -q --example pipe_server | jq -r '.result.content[0].text'
//! # apple
//! # fig
//! # pear
//! ```
//!
//! At the end of input the server writes the remaining responses and exits. The tools are fast, so
//! they run inline, on the reader thread: responses have the order of the calls, and no worker
//! thread is started.

use std::process::ExitCode;

use tinymcp::{Context, Server, Structured, Tool, ToolError};

tinymcp::record! {
    /// A text to count in.
    struct Text {
        /// The text itself
        text: String [len ..=4_000_000],
    }
}

tinymcp::record! {
    /// Counts of lines, words and characters.
    struct Count {
        /// Lines, including a last line without a newline
        lines: usize,
        /// Words, separated by white space
        words: usize,
        /// Unicode code points
        characters: usize,
    }
}

tinymcp::record! {
    /// A text to sort.
    struct Sort {
        /// The lines to sort
        text: String [len ..=4_000_000],
        /// Sort in descending order
        reverse: bool = false,
        /// Remove repeated lines
        unique: bool = false,
    }
}

tinymcp::record! {
    /// A text to search.
    struct Find {
        /// The lines to search
        text: String [len ..=4_000_000],
        /// Text that a line must contain; not a regular expression
        pattern: String [len 1..=1000],
        /// Ignore upper and lower case
        ignore_case as "ignoreCase": bool = false,
        /// Return the lines that do not contain the text
        invert: bool = false,
    }
}

fn word_count(_: &mut Context<'_>, Text { text }: Text) -> Result<Structured<Count>, ToolError> {
    Ok(Structured(Count {
        lines: text.lines().count(),
        words: text.split_whitespace().count(),
        characters: text.chars().count(),
    }))
}

fn sort_lines(_: &mut Context<'_>, wanted: Sort) -> Result<String, ToolError> {
    let mut lines: Vec<&str> = wanted.text.lines().collect();
    lines.sort_unstable();
    if wanted.unique {
        lines.dedup();
    }
    if wanted.reverse {
        lines.reverse();
    }
    Ok(lines.join("\n"))
}

/// Returns matching lines with their numbers, as `grep -n` does; an empty text if none match.
fn find_lines(_: &mut Context<'_>, wanted: Find) -> Result<String, ToolError> {
    let fold = |text: &str| if wanted.ignore_case { text.to_lowercase() } else { text.to_owned() };
    let pattern = fold(&wanted.pattern);
    let found = wanted
        .text
        .lines()
        .zip(1..)
        .filter(|(line, _)| fold(line).contains(&pattern) != wanted.invert)
        .map(|(line, number)| format!("{number}:{line}"));
    Ok(found.collect::<Vec<_>>().join("\n"))
}

fn serve() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("pipe", env!("CARGO_PKG_VERSION"));
    server
        .inline_tool(
            Tool::new("word_count").description("Counts lines, words and characters").read_only(),
            word_count,
        )?
        .inline_tool(
            Tool::new("sort_lines").description("Sorts lines by their bytes").read_only(),
            sort_lines,
        )?
        .inline_tool(
            Tool::new("find_lines").description("Finds the lines that contain a text").read_only(),
            find_lines,
        )?;
    server.serve_stdio()
}

fn main() -> ExitCode {
    if let Some(argument) = std::env::args().skip(1).find(|argument| argument != "--stdio") {
        eprintln!("pipe_server: unknown argument {argument}\nusage: pipe_server [--stdio]");
        return ExitCode::from(2);
    }
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pipe_server: {error}");
            ExitCode::FAILURE
        }
    }
}
