//! The smallest useful server: tools `echo` and `add` over standard input and output, or over HTTP.
//!
//! ```sh
//! cargo run --release --example echo_server -- --stdio
//! cargo run --release --features http-server --example echo_server -- --http 127.0.0.1:8080
//! ```
//!
//! For the benchmarks in `benches/stdio`, `--inline` runs the tools on the reader thread and
//! `--many N` adds N generated tools.

use std::process::ExitCode;

use tinymcp::{Context, Server, Tool, ToolError};

tinymcp::record! {
    /// A text to return.
    struct Echo {
        /// Text that is returned unchanged
        text: String [len ..=4_000_000],
    }
}

tinymcp::record! {
    /// Two numbers.
    struct Add {
        /// First summand
        a: f64,
        /// Second summand
        b: f64,
    }
}

fn echo(_: &mut Context<'_>, arguments: Echo) -> Result<String, ToolError> {
    Ok(arguments.text)
}

fn add(_: &mut Context<'_>, arguments: Add) -> Result<String, ToolError> {
    Ok((arguments.a + arguments.b).to_string())
}

fn server(inline: bool, many: usize) -> Result<Server, tinymcp::Error> {
    let mut server = Server::new("echo", env!("CARGO_PKG_VERSION"));
    let echo_tool = Tool::new("echo").description("Returns the text").read_only();
    let add_tool = Tool::new("add").description("Adds two numbers").read_only();
    if inline {
        server.inline_tool(echo_tool, echo)?.inline_tool(add_tool, add)?;
    } else {
        server.tool(echo_tool, echo)?.tool(add_tool, add)?;
    }
    for n in 0..many {
        let tool = Tool::new(format!("generated_{n}")).description(format!("Generated tool number {n}"));
        server.tool(tool, echo)?;
    }
    Ok(server)
}

fn main() -> ExitCode {
    let (mut inline, mut many, mut http) = (false, 0, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--stdio" => {}
            "--http" => match arguments.next() {
                Some(address) => http = Some(address),
                None => return usage("--http needs an address"),
            },
            "--inline" => inline = true,
            "--many" => match arguments.next().and_then(|n| n.parse().ok()) {
                Some(n) => many = n,
                None => return usage("--many needs a number"),
            },
            other => return usage(&format!("unknown argument {other}")),
        }
    }
    let served = server(inline, many).and_then(|server| match http {
        Some(address) => serve_http(server, &address),
        None => server.serve_stdio(),
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo_server: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "http-server")]
fn serve_http(server: Server, address: &str) -> Result<(), tinymcp::Error> {
    let bound = server.http().bind(address)?;
    eprintln!("echo_server: http://{}/mcp", bound.address());
    bound.serve()
}

#[cfg(not(feature = "http-server"))]
fn serve_http(_: Server, _: &str) -> Result<(), tinymcp::Error> {
    Err(tinymcp::Error::new(tinymcp::ErrorKind::Misuse, "built without the feature http-server"))
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("echo_server: {problem}\nusage: echo_server [--stdio | --http ADDR] [--inline] [--many N]");
    ExitCode::from(2)
}
