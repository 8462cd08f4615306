//! A server with two tools, and a client that calls them, with a session and without.
//!
//! ```sh
//! cargo run --example quickstart --features client              # starts the server and calls it
//! cargo run --example quickstart --features client -- --stdio   # the server alone
//! ```
#![allow(clippy::print_stdout)]

use tinymcp::{Client, Context, ElicitResponse, Field, Form, Protocol, Server, Tool, ToolError, json};

tinymcp::record! {
    /// Two numbers.
    struct Add {
        /// First summand
        a: f64,
        /// Second summand
        b: f64,
    }
}

fn greet(ctx: &mut Context<'_>, (): ()) -> Result<String, ToolError> {
    let form = Form::new("What is your name?").field(Field::text("name").required());
    // Returns early until the user has answered; then the handler runs again from its start.
    let answer = ctx.elicit("name", form)?;
    Ok(format!("Hello, {}!", answer.text("name").unwrap_or("stranger")))
}

fn serve() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("quickstart", "1.0.0");
    let add = Tool::new("add").description("Adds two numbers").read_only();
    server.tool(add, |_, add: Add| Ok((add.a + add.b).to_string()))?;
    server.tool(Tool::new("greet").description("Greets the user by name"), greet)?;
    server.serve_stdio()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("--stdio") {
        return Ok(serve()?);
    }
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        command.arg("--stdio");
        let builder = Client::builder("quickstart-client", "1.0.0").protocol(protocol).on_elicit(|form| {
            println!("  the server asks: {}", form.message);
            Ok(ElicitResponse::accept(json!({"name": "Ada"})))
        });
        let client = builder.spawn(command)?;
        println!("MCP {}: {} tools", client.server().revision, client.tools()?.len());
        let sum = client.call_tool("add", json!({"a": 1.5, "b": 2}))?.texts();
        println!("  add(1.5, 2) returns {sum}");
        let greeting = client.call_tool("greet", ())?.texts();
        println!("  greet() returns {greeting}");
        if sum != "3.5" || greeting != "Hello, Ada!" {
            return Err("the server gave another answer than expected".into());
        }
    }
    println!("Everything was answered as expected.\nNext: copy examples/adder.rs.");
    Ok(())
}
