//! The program `tinymcp` with certificates and proxies.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::relay::{Clients, Proxy, tls};
use super::{AUTHORITY, TOKEN, folder, server};

fn file(name: &str) -> PathBuf {
    folder().join(name)
}

/// Calls the tool at this URL with further options and variables.
fn call(url: &str, options: &[(&str, &str)], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
    command.args(["call", "length", "text=abcd", "--text", "--url", url, "--bearer", TOKEN]);
    for (name, value) in options {
        command.arg(name).arg(if *name == "--key" || name.starts_with("--c") {
            file(value)
        } else {
            value.into()
        });
    }
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

fn printed(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn certificates_are_files_of_options_and_variables() {
    let url = format!("https://localhost:{}/mcp", tls(server(), Clients::Any).port());
    assert_eq!(printed(&call(&url, &[("--cacert", AUTHORITY)], &[])), "4\n");
    let trusted = file(AUTHORITY);
    let variable = [("SSL_CERT_FILE", trusted.to_str().unwrap())];
    assert_eq!(printed(&call(&url, &[], &variable)), "4\n");
    // The option comes first.
    for output in [call(&url, &[], &[]), call(&url, &[("--cacert", "stranger.pem")], &variable)] {
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{err}");
        assert!(err.contains("UnknownIssuer") && err.contains("--cacert"), "{err}");
    }
    let output = call(&url, &[("--cacert", "missing.pem")], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--cacert: "), "{output:?}");
}

#[test]
fn a_client_certificate_is_presented() {
    let url = format!("https://localhost:{}/mcp", tls(server(), Clients::Certified).port());
    let trust = ("--cacert", AUTHORITY);
    let both = [trust, ("--cert", "client.pem"), ("--key", "client.key")];
    assert_eq!(printed(&call(&url, &both, &[])), "4\n");
    assert_eq!(call(&url, &[trust], &[]).status.code(), Some(4));
    let output = call(&url, &[trust, ("--key", "client.key")], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--key requires --cert"), "{output:?}");
}

#[test]
fn variables_set_the_proxy() {
    let proxy = Proxy::start(tls(server(), Clients::Any), "200 OK");
    let url = "https://mcp.test/mcp";
    let address = format!("http://{}", proxy.address);
    let trust = [("--cacert", AUTHORITY)];
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        assert_eq!(printed(&call(url, &trust, &[(name, &address)])), "4\n", "{name}");
    }
    let tunnels = proxy.requests().len();
    // The name has no address without the proxy.
    let output = call(url, &trust, &[("HTTPS_PROXY", &address), ("NO_PROXY", "test")]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(proxy.requests().len(), tunnels);
    let output = call(url, &trust, &[("HTTPS_PROXY", "socks5://127.0.0.1:1")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("invalid HTTPS_PROXY"), "{output:?}");
}
