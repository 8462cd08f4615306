//! Apps: pages, tools that name them, and hosts that show them, in both eras.

use tinymcp::{AppPage, Body, Client, ErrorKind, Protocol, Server, Tool, json, memory_links};

use super::scripted::plain;

const GAUGE: &str = "ui://board/gauge";
const HTML: &str = "<!doctype html><title>Gauge</title>";

fn server() -> Server {
    let page = AppPage::new(GAUGE, "Gauge", HTML)
        .connect_domain("https://api.example.com")
        .resource_domain("https://cdn.example.com")
        .prefers_border(false);
    let mut server = Server::new("board", "1");
    server
        .app(page)
        .unwrap()
        .app(AppPage::new("ui://board/plain", "Plain", HTML))
        .unwrap()
        .tool(Tool::new("moisture").meta(json!({"com.example/x": 1})).app(GAUGE), |ctx, ()| {
            Ok(if ctx.client_shows_apps() { "with page" } else { "text only" })
        })
        .unwrap()
        .tool(Tool::new("sample").only_for_app(GAUGE), |_, ()| Ok("1"))
        .unwrap()
        .tool(Tool::new("reset"), |_, ()| Ok("done"))
        .unwrap();
    server
}

fn with_client(client: tinymcp::ClientBuilder, protocol: Protocol, test: impl Fn(&Client)) {
    let (ours, theirs) = memory_links();
    let serving = std::thread::spawn(move || server().serve(theirs));
    let client = client.protocol(protocol).over(ours).unwrap();
    test(&client);
    client.close();
    serving.join().unwrap().unwrap();
}

// APP-02, APP-03, APP-04, APP-05, APP-06
#[test]
fn a_host_finds_the_page_of_a_tool() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        with_client(plain(), protocol, |client| {
            let declared = client.server().capabilities_json.to_doc();
            let settings = declared.root().pointer("/extensions/io.modelcontextprotocol~1ui").unwrap();
            assert_eq!(settings.raw(), "{}");
            let tools = client.tools().unwrap();
            let facts: Vec<_> = tools
                .iter()
                .map(|tool| (tool.name.as_str(), tool.app_page(), tool.is_for_model(), tool.is_for_app()))
                .collect();
            let page = || Some(GAUGE.to_owned());
            assert_eq!(
                facts,
                [
                    ("moisture", page(), true, true),
                    ("sample", page(), false, true),
                    ("reset", None, true, true),
                ]
            );
            let meta = tools[0].meta.as_ref().unwrap().as_str().to_owned();
            assert_eq!(meta, r#"{"com.example/x":1,"ui":{"resourceUri":"ui://board/gauge"}}"#);
            let contents = client.read_resource(GAUGE).unwrap().contents.remove(0);
            assert_eq!(contents.mime_type.as_deref(), Some("text/html;profile=mcp-app"));
            assert_eq!(contents.body, Body::Text(HTML.to_owned()));
            assert_eq!(
                contents.meta.unwrap().as_str(),
                r#"{"ui":{"csp":{"connectDomains":["https://api.example.com"],"resourceDomains":["https://cdn.example.com"]},"prefersBorder":false}}"#
            );
            assert!(client.read_resource("ui://board/plain").unwrap().contents[0].meta.is_none());
        });
    }
}

// APP-01, APP-07
#[test]
fn a_server_sees_whether_the_host_shows_pages() {
    let text = |client: &Client| client.call_tool("moisture", json!({})).unwrap().texts();
    for protocol in [Protocol::Session, Protocol::Stateless] {
        with_client(plain().shows_apps(), protocol, |client| assert_eq!(text(client), "with page"));
        with_client(plain(), protocol, |client| assert_eq!(text(client), "text only"));
        let other = json!({"mimeTypes": ["text/html"]});
        let client = plain().extension("io.modelcontextprotocol/ui", other);
        with_client(client, protocol, |client| assert_eq!(text(client), "text only"));
    }
}

// APP-03
#[test]
fn a_page_has_a_uri_of_its_own_scheme() {
    let mut server = server();
    for uri in ["https://x/y", "gauge", ""] {
        let error = server.app(AppPage::new(uri, "x", HTML)).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{uri}");
    }
    let twice = server.app(AppPage::new(GAUGE, "x", HTML)).map(|_| ()).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Misuse);
}
