//! The server of the README: one tool.
use tinymcp::{Server, Tool};

tinymcp::record! {
    /// Two numbers.
    struct Add {
        /// First summand
        a: f64,
        /// Second summand, at least 0
        b: f64 [0.0..] = 1.0,
    }
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("adder", "1.0.0");
    let tool = Tool::new("add").description("Adds two numbers").read_only();
    server.tool(tool, |_, add: Add| Ok((add.a + add.b).to_string()))?;
    server.serve_stdio()
}
