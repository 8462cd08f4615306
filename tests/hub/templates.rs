//! Resource templates of servers behind a hub: an ambiguous template, which a server of this library would not
//! register, is offered as it is; the first server with a template that matches gets the request.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tinymcp::json::Doc;
use tinymcp::{Client, ClientBuilder, Hub, MemoryEnd, Protocol, Server, Upstream, memory, memory_links};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A scripted server with one template: answers reads with its key and reports requests for a URI.
fn play(end: &MemoryEnd, key: &str, template: &str, requests: &mpsc::Sender<(String, String)>) {
    while let Some(line) = end.receive(TIMEOUT) {
        let doc = Doc::parse(&line).unwrap();
        let member = |name: &str| doc.root().get(name);
        let (Some(id), Some(method)) = (member("id"), member("method")) else { continue };
        let uri = member("params").and_then(|params| params.get("uri")?.as_str()).unwrap_or_default();
        let result = match method.as_str().unwrap() {
            "initialize" => r#"{"protocolVersion":"2025-11-25","serverInfo":{"name":"x","version":"1"},
                "capabilities":{"resources":{"subscribe":true}}}"#
                .replace('\n', ""),
            "resources/list" => r#"{"resources":[]}"#.to_owned(),
            "resources/templates/list" => {
                format!(r#"{{"resourceTemplates":[{{"uriTemplate":"{template}","name":"t"}}]}}"#)
            }
            "resources/read" => format!(r#"{{"contents":[{{"uri":"{uri}","text":"{key}"}}]}}"#),
            _ => "{}".to_owned(),
        };
        if !uri.is_empty() {
            // The test may be over.
            let _ = requests.send((key.to_owned(), uri.to_owned()));
        }
        if !end.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.raw())) {
            return;
        }
    }
}

#[test]
fn the_first_server_with_a_template_that_matches_gets_the_request() {
    let hub = Hub::builder("proxy", "1.0.0").build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    hub.export(&mut server).unwrap();
    let (sender, requests) = mpsc::channel();
    // By name, the template of the second server would be first.
    for (key, template) in [("one", "test://{name}{.ext}"), ("two", "test://{+all}{other}")] {
        let sender = sender.clone();
        let connect = move |client: ClientBuilder| {
            let (link, end) = memory();
            let sender = sender.clone();
            std::thread::spawn(move || play(&end, key, template, &sender));
            client.protocol(Protocol::Session).over(link)
        };
        hub.add(key, Upstream::from_fn(connect)).unwrap();
    }
    hub.wait_settled(Instant::now() + TIMEOUT);
    assert!(hub.skipped().is_empty(), "{:?}", hub.skipped());
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = Client::builder("test", "1.0.0").over(ours).unwrap();

    let templates = client.templates().unwrap();
    let texts: Vec<&str> = templates.iter().map(|template| template.uri_template().as_str()).collect();
    assert_eq!(texts, ["test://{name}{.ext}", "test://{+all}{other}"]);
    for (uri, owner) in [("test://a.tar.gz", "one"), ("test://a/b", "two")] {
        client.read_resource(uri).unwrap();
        assert_eq!(requests.recv_timeout(TIMEOUT), Ok((owner.to_owned(), uri.to_owned())), "read");
        client.subscribe(uri).unwrap();
        assert_eq!(requests.recv_timeout(TIMEOUT), Ok((owner.to_owned(), uri.to_owned())), "subscribe");
    }
}
