//! Reload of `tinymcp serve` by SIGHUP and `--watch`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tinymcp::{Change, Protocol};

use super::serve_session::{ERAS, Session, TIMEOUT, folder, write};

/// A definition with these tools, which print their names.
fn definition(name: &str, tools: &[&str]) -> String {
    let tools: Vec<String> = tools
        .iter()
        .map(|tool| format!(r#""{tool}": {{"description": "d", "run": ["/bin/echo", "{tool}"]}}"#))
        .collect();
    format!(r#"{{"server": {{"name": "{name}"}}, "tools": {{{}}}}}"#, tools.join(", "))
}

fn example(name: &str) -> (PathBuf, PathBuf) {
    let folder = folder(name);
    let file = folder.join("s.json");
    fs::write(&file, definition("s", &["a", "b"])).unwrap();
    (folder, file)
}

fn call(session: &Session, tool: &str) -> String {
    session.client.call_tool(tool, tinymcp::json!({})).unwrap().texts()
}

#[test]
fn sighup_reloads_and_a_broken_file_changes_nothing() {
    for era in ERAS {
        let (folder, file) = example("sighup");
        let session = Session::start(era, &["s.json"], &folder);
        assert_eq!(session.tools(), ["a", "b"]);
        write(&file, &definition("s", &["b", "c"]));
        session.process.hang_up();
        session.changed(&Change::Tools);
        session.process.reported("reloaded");
        assert_eq!(session.tools(), ["b", "c"]);
        assert_eq!(call(&session, "c"), "c\n");
        for broken in ["{", r#"{"tools": {"x": {"run": ["/bin/true"], "unknown": 1}}}"#, r#"{"tols": {}}"#] {
            write(&file, broken);
            session.process.hang_up();
            session.process.reported("s.json:1");
            session.process.reported("the previous definition stays in use");
            assert_eq!(session.tools(), ["b", "c"]);
        }
        fs::remove_file(&file).unwrap();
        session.process.hang_up();
        session.process.reported("the previous definition stays in use");
        assert_eq!(call(&session, "b"), "b\n");
        write(&file, &definition("other", &["d"]));
        session.process.hang_up();
        session.process.reported("`server` changed; restart");
        session.process.reported("reloaded");
        assert_eq!(session.tools(), ["d"]);
    }
}

/// The header annotation is invalid, which only registration notices.
#[cfg(feature = "http-server")]
#[test]
fn an_entry_that_cannot_be_registered_changes_nothing() {
    let (folder, file) = example("restored");
    let session = Session::start(Protocol::Stateless, &["s.json"], &folder);
    let wrong = r#"{"tools": {
        "a": {"description": "new", "run": ["/bin/echo", "new"]},
        "b": {"description": "d", "run": ["/bin/echo", "b"]},
        "c": {"description": "d", "run": ["/bin/echo", "c"]},
        "wrong": {
            "description": "d",
            "input": {"type": "object", "properties": {"x": {"type": "string", "x-mcp-header": "not a token"}}},
            "run": ["/bin/echo", "{?x}"]
        }
    }}"#;
    write(&file, wrong);
    session.process.hang_up();
    session.process.reported("s.json:5: /tools/wrong: ");
    session.process.reported("the previous definition stays in use");
    assert_eq!(session.tools(), ["a", "b"]);
    assert_eq!(call(&session, "a"), "a\n");
}

#[test]
fn changed_files_are_reloaded_with_watch() {
    for era in ERAS {
        let (folder, file) = example("watch");
        let session = Session::start(era, &["--watch", "."], &folder);
        write(&file, &definition("s", &["a", "c"]));
        session.changed(&Change::Tools);
        session.process.reported("reloaded");
        assert_eq!(session.tools(), ["a", "c"]);
        // A new file of the folder, first broken and then written in place.
        let more = folder.join("t.json");
        write(&more, "{");
        session.process.reported("t.json:1");
        fs::write(&more, r#"{"tools": {"z": {"description": "d", "run": ["/bin/echo", "z"]}}}"#).unwrap();
        session.process.reported("reloaded");
        assert_eq!(session.tools(), ["a", "c", "z"]);
        // A name in two files.
        write(&more, &definition("s", &["a"]).replace(r#""server": {"name": "s"}, "#, ""));
        session.process.reported("t.json:1");
        assert_eq!(session.tools(), ["a", "c", "z"]);
        fs::remove_file(&more).unwrap();
        session.process.reported("reloaded");
        assert_eq!(session.tools(), ["a", "c"]);
    }
}

#[test]
fn every_kind_of_entry_is_reloaded() {
    let (folder, file) = example("kinds");
    for name in ["docs/x", "y", "p"] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let session = Session::start(Protocol::Session, &["s.json"], &folder);
    write(
        &file,
        r#"{
            "resources": {"docs:///": {"folder": "docs"}, "r://y": {"file": "y"}},
            "resourceTemplates": {"t://{name}": {"file": "docs/{name}"}},
            "prompts": {"p": {"file": "p"}}
        }"#,
    );
    session.process.hang_up();
    session.process.reported("reloaded");
    assert_eq!(session.uris(), ["r://y", "docs:///x"]);
    assert_eq!(
        (session.text("t://x"), session.text("docs:///x")),
        ("docs/x".to_owned(), "docs/x".to_owned())
    );
    assert!(session.client.prompt("p", &[]).is_ok());
    // An unchanged folder is listed again.
    fs::write(folder.join("docs/z"), "z").unwrap();
    session.process.hang_up();
    session.process.reported("reloaded");
    assert_eq!(session.uris(), ["r://y", "docs:///x", "docs:///z"]);
    fs::remove_file(folder.join("docs/z")).unwrap();
    // A file of the folder gets an entry of its own.
    write(&file, r#"{"resources": {"docs:///": {"folder": "docs"}, "docs:///x": {"file": "y"}}}"#);
    session.process.hang_up();
    session.process.reported("reloaded");
    assert_eq!((session.uris(), session.text("docs:///x")), (vec!["docs:///x".to_owned()], "y".to_owned()));
    assert!(session.client.read_resource("t://x").is_err());
    assert!(session.client.prompt("p", &[]).is_err());
    write(&file, r#"{}"#);
    session.process.hang_up();
    session.process.reported("reloaded");
    assert_eq!(session.uris(), [""; 0]);
}

#[test]
fn a_call_continues_while_its_tool_is_replaced() {
    let (folder, file) = example("running");
    let fifo = folder.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let wait = r#"{"tools": {"wait": {"description": "d", "run": ["/bin/cat", "fifo"]}}}"#;
    write(&file, wait);
    let session = Session::start(Protocol::Session, &["s.json"], &folder);
    let call = session.client.request_tool("wait", tinymcp::json!({})).start().unwrap();
    // Opens when the program reads.
    let mut writer = open_for_writing(&fifo);
    write(&file, &definition("s", &["a"]));
    session.process.hang_up();
    session.process.reported("reloaded");
    assert_eq!(session.tools(), ["a"]);
    std::io::Write::write_all(&mut writer, b"done").unwrap();
    drop(writer);
    assert_eq!(call.wait().unwrap().texts(), "done");
}

#[test]
fn a_client_sees_whole_definitions_only() {
    let (folder, file) = example("whole");
    // Names that only one of the files has, and a name with two descriptions.
    let files = ["x", "y"].map(|file| {
        let mut names: Vec<String> = (0..25).map(|number| format!("{file}{number}")).collect();
        names.insert(13, "both".to_owned());
        let tools: Vec<&str> = names.iter().map(String::as_str).collect();
        (definition("s", &tools).replace(r#""d""#, &format!("\"{file}\"")), names)
    });
    let (first, [mut new, mut old]) = (files[1].0.clone(), files);
    write(&file, &first);
    let session = Session::start(Protocol::Stateless, &["s.json"], &folder);
    for _ in 0..20 {
        let until = Instant::now() + TIMEOUT;
        write(&file, &new.0);
        session.process.hang_up();
        loop {
            let listed = session.tools();
            if listed == new.1 {
                break;
            }
            assert_eq!(listed, old.1);
            assert!(Instant::now() < until, "the reload does not end");
        }
        std::mem::swap(&mut new, &mut old);
    }
}

fn open_for_writing(fifo: &Path) -> fs::File {
    fs::OpenOptions::new().write(true).open(fifo).unwrap()
}

#[test]
fn workers_get_their_new_program() {
    let (folder, file) = example("worker");
    let program = |version: &str| {
        let script = "while read -r line; do id=${line#*:}; echo \"{\\\"id\\\": ${id%%,*}, \\\"result\\\": \\\"VERSION\\\"}\"; done";
        write(&folder.join("w.sh"), &script.replace("VERSION", version));
    };
    let tool = r#"{"tools": {"w": {"description": "d", "worker": ["/bin/sh", "w.sh"]}}}"#;
    program("1");
    write(&file, tool);
    let session = Session::start(Protocol::Session, &["s.json", "--watch"], &folder);
    assert_eq!(call(&session, "w"), "1");
    program("2");
    session.process.hang_up();
    session.process.reported("reloaded: \"s\" (1 tool, 0 resources, 0 prompts)");
    assert_eq!(call(&session, "w"), "2");
    // A change of the definition does the same.
    program("3");
    assert_eq!(call(&session, "w"), "2");
    write(&file, &tool.replace("\"d\"", "\"new\""));
    session.process.reported("reloaded");
    assert_eq!(call(&session, "w"), "3");
}
