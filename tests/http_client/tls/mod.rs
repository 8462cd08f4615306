//! Clients of `https` URLs and proxies, against a server of this crate behind TLS. No network.

#[cfg(all(unix, feature = "cli"))]
mod program;
mod relay;

use std::net::{SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::time::Duration;

use super::TIMEOUT;
use relay::{Clients, Proxy, tls};
use tinymcp::{Client, Endpoint, Error, ErrorKind, Limits, Protocol, Server, Tool, json};

/// The authority of the servers and clients of these tests.
const AUTHORITY: &str = "authority.pem";
/// A token that only the server may receive.
const TOKEN: &str = "fu4Gw0pBqs";

/// A file that `certificates/make.sh` has made.
fn certificate(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http_client/tls/certificates")
}

/// A server without TLS, which runs until the process ends.
fn server() -> SocketAddr {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    *SERVER.get_or_init(|| {
        let mut server = Server::new("secure", "1.0.0");
        server.tool(Tool::new("length"), |_, text: Text| Ok(text.text.len().to_string())).unwrap();
        let http = server.http().tokens([(TOKEN, "tester")]).allow_any_host();
        let bound = http.bind("127.0.0.1:0").unwrap();
        let address = bound.address().parse().unwrap();
        std::thread::spawn(move || bound.serve().unwrap());
        address
    })
}

tinymcp::record! {
    struct Text {
        text: String,
    }
}

fn endpoint(host: &str, address: SocketAddr) -> Endpoint {
    Endpoint::new(format!("https://{host}:{}/mcp", address.port()))
        .bearer_token(TOKEN)
        .root_certificates(certificate(AUTHORITY))
}

fn connect(endpoint: Endpoint, protocol: Protocol) -> Result<Client, Error> {
    let mut limits = Limits::default();
    limits.client.call_timeout = TIMEOUT;
    Client::builder("tester", "1.0.0").limits(limits).protocol(protocol).connect(endpoint)
}

/// Calls a tool in both eras.
fn call(endpoint: &Endpoint) -> Result<(), Error> {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let client = connect(endpoint.clone(), protocol)?;
        // Longer than a TLS record.
        for length in [3, 40_000] {
            let result = client.call_tool("length", json!({"text": ("x".repeat(length))}))?;
            assert_eq!(result.texts(), length.to_string());
        }
    }
    Ok(())
}

fn failure(endpoint: &Endpoint) -> (ErrorKind, String) {
    let error = call(endpoint).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn calls_over_tls_get_their_results() {
    let address = tls(server(), Clients::Any);
    for host in ["localhost", "127.0.0.1"] {
        call(&endpoint(host, address)).unwrap();
    }
}

#[test]
fn servers_with_another_authority_or_name_are_not_trusted() {
    let address = tls(server(), Clients::Any);
    let stranger = endpoint("localhost", address).root_certificates(certificate("stranger.pem"));
    let mozilla = Endpoint::new(format!("https://localhost:{}/mcp", address.port()));
    let proxy = Proxy::start(address, "200 OK");
    let name = endpoint("other.test", address).proxy(format!("http://{}", proxy.address));
    for (endpoint, reason) in
        [(stranger, "UnknownIssuer"), (mozilla, "UnknownIssuer"), (name, "certificate not valid for name")]
    {
        let (kind, text) = failure(&endpoint);
        assert_eq!(kind, ErrorKind::Io, "{text}");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_server_may_require_a_certificate_of_the_client() {
    let address = tls(server(), Clients::Certified);
    let certified = |key: &str| {
        endpoint("localhost", address).client_certificate(certificate("client.pem"), certificate(key))
    };
    call(&certified("client.key")).unwrap();
    assert_eq!(failure(&endpoint("localhost", address)).0, ErrorKind::Io);
    for key in ["server.key", "client.pem"] {
        let (kind, text) = failure(&certified(key));
        assert_eq!(kind, ErrorKind::Invalid, "{text}");
    }
}

#[test]
fn texts_that_are_not_pem_are_rejected() {
    for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
        for endpoint in [
            Endpoint::new("https://localhost:1/").root_certificates(bad),
            Endpoint::new("https://localhost:1/").client_certificate(bad, certificate("client.key")),
        ] {
            assert_eq!(failure(&endpoint).0, ErrorKind::Invalid, "{bad:?}");
        }
    }
}

#[test]
fn a_silent_server_does_not_outlast_the_deadline() {
    // The kernel accepts the connection.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut limits = Limits::default();
    limits.client.call_timeout = Duration::from_millis(300);
    limits.client.probe_timeout = limits.client.call_timeout;
    let endpoint = endpoint("localhost", silent.local_addr().unwrap());
    let error = Client::builder("tester", "1.0.0").limits(limits).connect(endpoint).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[test]
fn a_proxy_sees_the_name_of_the_server_and_nothing_of_the_requests() {
    let proxy = Proxy::start(tls(server(), Clients::Any), "200 OK");
    let url = format!("http://user:p%40ss@{}", proxy.address);
    call(&endpoint("mcp.test", proxy.address).proxy(url)).unwrap();
    let requests = proxy.requests();
    assert!(!requests.is_empty());
    for head in requests {
        let line = format!("CONNECT mcp.test:{} HTTP/1.1\r\n", proxy.address.port());
        assert!(head.starts_with(&line), "{head}");
        assert!(head.contains("\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n"), "{head}");
        assert!(!head.contains(TOKEN), "{head}");
    }
    assert!(!proxy.has_carried(TOKEN) && !proxy.has_carried("dXNlcjpwQHNz"));
}

#[test]
fn a_proxy_may_require_tls_itself() {
    let proxy = Proxy::start(tls(server(), Clients::Any), "200 OK");
    let secure = tls(proxy.address, Clients::Any);
    let url = format!("https://localhost:{}", secure.port());
    call(&endpoint("mcp.test", proxy.address).proxy(url)).unwrap();
    assert!(!proxy.has_carried(TOKEN));
}

#[test]
fn requests_without_tls_use_a_tunnel_as_well() {
    let proxy = Proxy::start(server(), "200 OK");
    let endpoint = Endpoint::new("http://mcp.test/mcp").bearer_token(TOKEN);
    call(&endpoint.proxy(format!("http://{}", proxy.address))).unwrap();
    assert!(proxy.requests()[0].starts_with("CONNECT mcp.test:80 HTTP/1.1\r\n"));
}

#[test]
fn a_proxy_that_refuses_or_is_absent_is_an_error_and_never_bypassed() {
    let refusing = Proxy::start(server(), "407 Proxy Authentication Required\r\nContent-Length: 0");
    // The system gives no privileged port to another test.
    let absent = SocketAddr::from(([127, 0, 0, 1], 1));
    for (proxy, reason) in [(refusing.address, "407"), (absent, "proxy: ")] {
        let direct = tls(server(), Clients::Any);
        let secret = format!("http://user:s3cret@{proxy}");
        let (kind, text) = failure(&endpoint("mcp.test", direct).proxy(secret));
        assert_eq!(kind, ErrorKind::Io, "{text}");
        assert!(text.contains(reason) && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn this_machine_is_reached_without_the_proxy() {
    let proxy = Proxy::start(server(), "200 OK");
    let address = tls(server(), Clients::Any);
    call(&endpoint("localhost", address).proxy(format!("http://{}", proxy.address))).unwrap();
    assert_eq!(proxy.requests(), Vec::<String>::new());
}
