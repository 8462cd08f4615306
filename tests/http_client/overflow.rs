//! Results that are cut, over byte streams and HTTP, in both protocols.

use std::os::unix::net::UnixStream;
use std::thread;

use tinymcp::{
    Body, Client, Content, Endpoint, ErrorKind, Limits, Link, Overflow, Protocol, Server, Tool, json,
};

use crate::{client, limits};

const ERAS: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

fn server() -> Server {
    let mut server = Server::new("logs", "1.0.0");
    server.limits(limits());
    let overflow = Overflow::new(&mut server).unwrap();
    let log = move |ctx: &mut tinymcp::Context<'_>, ()| Ok(overflow.cut(ctx, "é".repeat(3000), 1001));
    server.tool(Tool::new("log"), log).unwrap();
    server
}

/// Calls the tool, and returns the URI of the link.
fn cut(client: &Client) -> String {
    let output = client.call_tool("log", json!({})).unwrap();
    assert_eq!(output.content[0].as_text(), Some(&*"é".repeat(500)));
    let note = output.content[1].as_text().unwrap();
    assert!(note.starts_with("[The result was cut after 1000 of 6000 bytes."), "{note}");
    let link = output.content.iter().find_map(|content| match content {
        Content::ResourceLink(resource) => Some(resource),
        _ => None,
    });
    let link = link.expect("the rest is linked");
    assert_eq!((link.mime_type.as_deref(), link.size), (Some("text/plain"), Some(5000)));
    link.uri.clone()
}

fn read(client: &Client, uri: &str) -> Result<String, (ErrorKind, Option<i32>)> {
    match client.read_resource(uri) {
        Ok(output) => match &output.contents[0].body {
            Body::Text(text) => Ok(text.clone()),
            body => panic!("{body:?}"),
        },
        Err(error) => Err((error.kind(), error.code())),
    }
}

#[test]
fn the_rest_of_a_result_is_read_over_a_byte_stream() {
    for era in ERAS {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let link = |stream: UnixStream| Link::lines(stream.try_clone().unwrap(), stream, &Limits::default());
        let served = thread::spawn(move || server().serve(link(theirs)).unwrap());
        let client = client().protocol(era).over(link(ours.try_clone().unwrap())).unwrap();
        let uri = cut(&client);
        assert_eq!(read(&client, &uri), Ok("é".repeat(2500)), "{era:?}");
        client.close();
        ours.shutdown(std::net::Shutdown::Both).unwrap();
        served.join().unwrap();
    }
}

#[test]
fn over_http_the_rest_belongs_to_the_caller() {
    let server = server();
    let handle = server.handle();
    let tokens = [("a", "alice"), ("b", "bob")];
    let bound = server.http().no_signal_handlers().tokens(tokens).bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", bound.address());
    let served = thread::spawn(move || bound.serve().unwrap());
    let connect =
        |era, token| client().protocol(era).connect(Endpoint::new(&*url).bearer_token(token)).unwrap();
    let mut uris = Vec::new();
    for era in ERAS {
        let (alice, again, bob) = (connect(era, "a"), connect(era, "a"), connect(era, "b"));
        let uri = cut(&alice);
        assert_eq!(read(&alice, &uri), Ok("é".repeat(2500)), "{era:?}");
        assert_eq!(read(&bob, &uri).unwrap_err().0, ErrorKind::Remote);
        // Without sessions the principal is the caller. With sessions, it is one session.
        assert_eq!(read(&again, &uri).is_ok(), era == Protocol::Stateless);
        uris.push(uri);
    }
    assert_ne!(uris[0], uris[1]);
    handle.stop();
    served.join().unwrap();
}
