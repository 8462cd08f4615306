//! One tool, typed by `record!`.

use tinymcp::{Server, Tool, record};

record! {
    struct Add { a: i64, b: i64 }
}
record! {
    struct Sum { sum: i64 }
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("one", "1.0.0");
    server.inline_tool(Tool::new("add").description("Adds two numbers"), |_, args: Add| {
        Ok(Sum { sum: args.a.saturating_add(args.b) })
    })?;
    server.serve_stdio()
}
