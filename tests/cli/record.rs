//! `tinymcp record` over standard input and output: secrets in places that are hard to read.

use std::fs;

use super::{folder, run};

#[test]
fn no_secret_of_a_frame_or_a_line_of_standard_error_is_recorded() {
    let folder = folder("record-secrets");
    let deep = format!("{}{{\"token\":\"hidden-1\"}}{}", "[".repeat(200), "]".repeat(200));
    let text = |json: &str| format!(r#"{{"text":{}}}"#, serde_json::to_string(json).unwrap());
    let long = format!(r#"{{"pad":"{}","password":"hidden-2"}}"#, "x".repeat(5 << 20));
    let frames = [
        &*deep,
        &text(&deep),
        &long,
        &text(&long),
        r#"{"password":"hidden-3","a":"\ud800"}"#,
        &text(r#"{"password":"hidden-4","a":"\ud800"}"#),
        &text(r#"see {"password": "hidden-5"}"#),
        r#"{"url":"http://x/?access_token=hidden-6"}"#,
    ];
    let errors = [
        r#"{"level":"info","password":"hidden-7"}"#,
        r#"{"password":"hidden-8"#,
        r#"[info] request {"api_key":"hidden-9"}"#,
        "Authorization: Bearer hidden-10",
        "[info] listening",
    ];
    fs::write(folder.join("frames"), frames.join("\n") + "\n").unwrap();
    fs::write(folder.join("errors"), errors.join("\n") + "\n").unwrap();
    let file = folder.join("session.jsonl");
    let script = format!("cd '{}'; cat frames; cat errors >&2", folder.display());
    let (code, out, err) = run(&["record", file.to_str().unwrap(), "--", "/bin/sh", "-c", &script], "");
    assert_eq!((code, out.lines().count()), (0, frames.len()), "{err}");
    let recorded = fs::read_to_string(&file).unwrap();
    let shown: Vec<&str> = recorded.lines().filter(|line| line.contains("hidden-")).collect();
    assert!(shown.is_empty(), "{shown:?}");
    assert_eq!(recorded.lines().count(), frames.len() + errors.len());
    assert!(
        recorded.contains("[info] listening") && recorded.contains(r#"\"level\":\"info\""#),
        "{recorded}"
    );
    // The user of the program sees all of standard error.
    assert!(err.contains("hidden-7"), "{err}");
}
