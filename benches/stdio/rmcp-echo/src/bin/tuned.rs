//! rmcp tuned: route table built once, one thread, the pipe transport instead of blocking standard
//! streams.
//!
//! Serves until standard input ends.

use rmcp::{ServiceExt, transport::io::stdio_pipes};
use rmcp_echo::{Kept, many_from_args};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Kept::new(many_from_args())
        .serve(stdio_pipes())
        .await?
        .waiting()
        .await?;
    Ok(())
}
