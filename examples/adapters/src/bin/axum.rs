//! A page and MCP on one port, in a program that runs axum.
//!
//! ```sh
//! cargo run --manifest-path examples/adapters/Cargo.toml --bin axum
//! ```

use std::io;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use futures_util::TryStreamExt;
use tinymcp::{HttpBody, HttpEndpoint, HttpRequest, Server, Tool};
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::{StreamReader, SyncIoBridge};

/// Waits on threads of the blocking pool: one for a call in progress, one for an event stream.
async fn answer(State(endpoint): State<HttpEndpoint>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut relayed = HttpRequest::new(head.method.as_str(), target);
    for (name, value) in &head.headers {
        relayed = relayed.field(name.as_str(), value.as_bytes());
    }
    let stream = body.into_data_stream().map_err(io::Error::other);
    let body = SyncIoBridge::new(StreamReader::new(stream));
    let response = spawn_blocking(move || endpoint.handle(relayed, body)).await.expect("it does not panic");
    let mut answer = Response::builder().status(response.status);
    for (name, value) in response.fields {
        answer = answer.header(name, value);
    }
    let body = match response.body {
        HttpBody::Events(events) => {
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            // The iterator is dropped, and the call cancelled, when the client has left.
            spawn_blocking(move || {
                events.map(Ok::<_, io::Error>).try_for_each(|bytes| sender.blocking_send(bytes))
            });
            Body::from_stream(ReceiverStream::new(receiver))
        }
        HttpBody::Whole(bytes) => Body::from(bytes),
    };
    answer.body(body).expect("the fields are valid")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut server = Server::new("in-axum", "1.0.0");
    server.tool(Tool::new("hello"), |_, ()| Ok("hello"))?;
    let endpoint = server.http().endpoint()?;
    let app = Router::new().route("/", get(|| async { "a page" })).route("/mcp", any(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    Ok(axum::serve(listener, app.with_state(endpoint)).await?)
}
