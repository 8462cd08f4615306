//! The servers among the examples pass the default rules.
//!
//! `cargo test` builds the examples; `cargo test --test data` alone does not.

use std::path::PathBuf;
use std::process::Command;

/// The result of `tools/list` of an example, over stdio.
fn catalog(name: &str, args: &[&str]) -> String {
    use std::io::Write as _;
    // Tests are in `deps`, examples in `examples` beside it.
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    let mut child = Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    writeln!(child.stdin.take().unwrap(), "{request}").unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn our_own_examples_have_no_findings() {
    let mut servers = vec![("echo_server", &[][..]), ("pipe_server", &[]), ("adder", &[])];
    if cfg!(feature = "client") {
        servers.push(("quickstart", &["--stdio"]));
    }
    if cfg!(target_os = "linux") {
        servers.push(("board_server", &[]));
    }
    for (name, args) in servers {
        let report = tinymcp::lint::check(&tinymcp::lint::Snapshot::parse(catalog(name, args)).unwrap());
        assert!(report.tools > 0, "{name}");
        assert!(report.findings.is_empty(), "{name}: {:#?}", report.findings);
    }
}
