//! Resources and prompts of `tinymcp serve`, from files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tinymcp::{Body, Change};

use super::serve_session::{ERAS, Session, folder, text, write};

const DEFINITION: &str = r#"{
    "resources": {
        "status://one": {"file": "one.json", "watch": true},
        "status://bytes": {"file": "one.json", "mimeType": "application/octet-stream"},
        "docs:///": {"folder": "docs", "watch": true},
        "status://gone": {"file": "gone"},
        "status://fifo": {"file": "fifo"},
        "status://device": {"file": "/dev/zero"},
        "status://large": {"file": "large"}
    },
    "resourceTemplates": {"log://{day}/{part}": {"file": "log/{day}/{part}.txt"}},
    "prompts": {"diagnose": {
        "file": "diagnose.md",
        "description": "Finds a fault",
        "arguments": ["symptom", {"name": "part", "required": false}]
    }}
}"#;

fn example(name: &str) -> std::path::PathBuf {
    let folder = folder(name);
    for (file, text) in [
        ("s.json", DEFINITION),
        ("one.json", r#"{"moisture":7}"#),
        ("docs/a b.md", "# A"),
        ("docs/sub/c.png", "\u{89}PNG"),
        ("docs/.hidden", ""),
        ("log/monday/a.txt", "rain"),
        ("secret.txt", "secret"),
        ("diagnose.md", "{{x}} {symptom} in {part}.\n"),
    ] {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    symlink("../../secret.txt", folder.join("log/monday/out.txt")).unwrap();
    symlink("a.txt", folder.join("log/monday/in.txt")).unwrap();
    symlink("..", folder.join("log/up")).unwrap();
    symlink("../secret.txt", folder.join("docs/out.md")).unwrap();
    fs::create_dir(folder.join("log/monday/folder.txt")).unwrap();
    fs::File::create(folder.join("large")).unwrap().set_len(10_000_000).unwrap();
    for fifo in ["fifo", "log/monday/fifo.txt"] {
        assert!(Command::new("mkfifo").arg(folder.join(fifo)).status().unwrap().success());
    }
    folder
}

#[test]
fn files_and_folders_are_resources() {
    let folder = example("resources");
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        let resources = session.client.resources().unwrap();
        let listed: Vec<(&str, Option<&str>)> =
            resources.iter().map(|r| (r.uri.as_str(), r.mime_type.as_deref())).collect();
        assert_eq!(listed[..1], [("status://one", Some("application/json"))]);
        assert_eq!(
            listed[6..],
            [("docs:///a%20b.md", Some("text/markdown")), ("docs:///sub/c.png", Some("image/png"))]
        );
        let read = session.client.read_resource("status://one").unwrap();
        assert_eq!(text(&read), r#"{"moisture":7}"#);
        assert_eq!(read.contents[0].mime_type.as_deref(), Some("application/json"));
        assert_eq!(session.text("docs:///a%20b.md"), "# A");
        for (uri, bytes) in
            [("status://bytes", &br#"{"moisture":7}"#[..]), ("docs:///sub/c.png", "\u{89}PNG".as_bytes())]
        {
            match &session.client.read_resource(uri).unwrap().contents[0].body {
                Body::Bytes(found) => assert_eq!(found, bytes),
                other => panic!("{uri}: {other:?}"),
            }
        }
        assert_eq!(session.text("log://monday/a"), "rain");
    }
}

#[test]
fn nothing_else_is_read() {
    let folder = example("refused");
    let absolute = folder.join("secret").to_str().unwrap().replace('/', "%2F");
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        for (uri, message) in [
            ("status://gone", "not found"),
            ("status://fifo", "not a regular file"),
            ("status://device", "not a regular file"),
            ("status://large", "larger than 3000000 bytes"),
            ("log://monday/..%2F..%2F..%2Fsecret", "not found"),
            ("log://..%2f/secret", "not found"),
            ("log://../secret", "not found"),
            ("log://%2E%2E/secret", "not found"),
            ("log://./a", "not found"),
            (&format!("log://monday/{absolute}"), "not found"),
            ("log://monday/a%00", "not found"),
            ("log://monday/%00", "not found"),
            ("log://up/secret", "not found"),
            ("log://monday/out", "not a regular file"),
            ("log://monday/in", "not a regular file"),
            ("log://monday/folder", "not a regular file"),
            ("log://monday/fifo", "not a regular file"),
            ("log://monday/", "not found"),
            ("docs:///out.md", "not found"),
            ("docs:///.hidden", "not found"),
            ("docs:///../secret.txt", "not found"),
            ("docs:///..%2Fsecret.txt", "not found"),
            ("docs:///", "not found"),
        ] {
            let error = session.client.read_resource(uri).unwrap_err().to_string();
            assert!(error.contains(message), "{uri}: {error}");
            assert!(!error.contains(folder.to_str().unwrap()), "{uri}: {error}");
        }
        // The server still answers.
        assert_eq!(session.text("log://monday/a"), "rain");
    }
}

#[test]
fn prompts_are_filled_from_their_file() {
    let folder = example("prompts");
    for era in ERAS {
        let session = Session::start(era, &["s.json"], &folder);
        let filled = |arguments: &[(&str, &str)]| {
            let output = session.client.prompt("diagnose", arguments).unwrap();
            assert_eq!(output.messages.len(), 1);
            output.messages[0].1.as_text().unwrap().to_owned()
        };
        write(&folder.join("diagnose.md"), "{{x}} {symptom} in {part}.\n");
        assert_eq!(filled(&[("symptom", "{part} $(id)")]), "{x} {part} $(id) in .\n");
        assert_eq!(filled(&[("symptom", ""), ("part", "fan")]), "{x}  in fan.\n");
        let error = session.client.prompt("diagnose", &[("part", "fan")]).unwrap_err();
        assert!(error.to_string().contains("symptom"), "{error}");
        // Read at each request.
        write(&folder.join("diagnose.md"), "new {part}");
        assert_eq!(filled(&[("symptom", "s"), ("part", "p")]), "new p");
        write(&folder.join("diagnose.md"), "a\n{unknown}");
        let error = session.client.prompt("diagnose", &[("symptom", "s")]).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}

#[test]
fn changes_of_watched_files_are_sent() {
    for era in ERAS {
        let folder = example("watched");
        let session = Session::start(era, &["s.json"], &folder);
        session.client.subscribe("status://one").unwrap();
        session.client.subscribe("docs:///a%20b.md").unwrap();
        write(&folder.join("one.json"), r#"{"moisture":8}"#);
        session.changed(&Change::ResourceUpdated("status://one".to_owned()));
        assert_eq!(session.text("status://one"), r#"{"moisture":8}"#);
        // Same length and name, written in place.
        fs::write(folder.join("docs/a b.md"), "# B").unwrap();
        session.changed(&Change::ResourceUpdated("docs:///a%20b.md".to_owned()));
        assert_eq!(session.text("docs:///a%20b.md"), "# B");
        fs::remove_file(folder.join("one.json")).unwrap();
        session.changed(&Change::ResourceUpdated("status://one".to_owned()));
    }
}

#[test]
fn a_watched_folder_is_listed_again() {
    for era in ERAS {
        let folder = example("relisted");
        let session = Session::start(era, &["s.json"], &folder);
        let below = || -> Vec<String> {
            session
                .uris()
                .into_iter()
                .filter_map(|uri| Some(uri.strip_prefix("docs:///")?.to_owned()))
                .collect()
        };
        // Each file that appears or disappears is a change of its own.
        let becomes = |expected: &[&str]| {
            while below() != expected {
                session.changed(&Change::Resources);
            }
        };
        assert_eq!(below(), ["a%20b.md", "sub/c.png"]);
        write(&folder.join("docs/sub/d.md"), "d");
        becomes(&["a%20b.md", "sub/c.png", "sub/d.md"]);
        assert_eq!(session.text("docs:///sub/d.md"), "d");
        fs::remove_file(folder.join("docs/a b.md")).unwrap();
        becomes(&["sub/c.png", "sub/d.md"]);
        remove(&folder.join("docs"));
        becomes(&[]);
        session.process.reported("docs");
    }
}

fn remove(folder: &Path) {
    // In one step, so that one check detects it.
    let gone = folder.with_extension("gone");
    fs::rename(folder, &gone).unwrap();
    fs::remove_dir_all(gone).unwrap();
}
