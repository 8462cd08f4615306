//! Command line of `tinymcp serve`: help, usage errors, and files with errors.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::serve_session::{ERAS, Session, folder, run};

#[test]
fn help_is_printed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (code, help, err) = run(&["--help"], folder);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(help.starts_with("tinymcp serve: ") && help.contains("--token-file FILE"), "{help}");
    assert_eq!(run(&["a.json", "-h", "--nothing"][..2], folder).1, help);
    let output = Command::new(env!("CARGO_BIN_EXE_tinymcp")).args(["help", "serve"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), help);
    let output = Command::new(env!("CARGO_BIN_EXE_tinymcp")).arg("help").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("tinymcp serve "));
}

#[test]
fn usage_errors_and_broken_files_end_with_2() {
    let folder = folder("usage");
    fs::write(folder.join("a.json"), r#"{"tools": {"t": {"description": "d", "run": ["/bin/true"]}}}"#)
        .unwrap();
    fs::write(
        folder.join("b.json"),
        "{\"tools\":\n {\"t\": {\"description\": \"d\", \"run\": [\"/bin/true\"]}}}",
    )
    .unwrap();
    fs::write(folder.join("c.json"), "{\n\"tools\": {\"x\": {\"run\": \"sh -c x\"}}, \"y\": 1}").unwrap();
    for (args, messages) in [
        (&[][..], &["missing FILE"][..]),
        (&["--wacth", "a.json"], &["did you mean --watch?"]),
        (&["a.json", "b.json"], &["b.json:2: /tools/t: "]),
        (&["c.json"], &["c.json:2: /tools/x/run: ", "c.json:2: /y: "]),
        (&["missing.json"], &["missing.json"]),
    ] {
        let (code, _, err) = run(args, &folder);
        assert_eq!(code, 2, "{args:?}: {err}");
        for message in messages {
            assert!(err.contains(message), "{args:?}: {err}");
        }
    }
}

#[test]
fn unknown_commands_have_a_suggestion() {
    let mut cases = vec![
        ("my.json", "unknown command \"my.json\"; did you mean `tinymcp serve my.json`?"),
        (env!("CARGO_TARGET_TMPDIR"), "did you mean `tinymcp serve /"),
    ];
    if cfg!(not(feature = "cli")) {
        cases.push((
            "call",
            "unknown command \"call\": this program was built without the feature cli; reinstall with --features cli",
        ));
    }
    for (command, message) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_tinymcp")).arg(command).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && err.contains(message), "{command}: {err}");
    }
}

#[test]
fn a_server_ends_with_its_input_and_after_an_idle_time() {
    let folder = folder("end");
    fs::write(folder.join("a.json"), "{}").unwrap();
    assert_eq!(run(&["a.json"], &folder), (0, String::new(), String::new()));
    for era in ERAS {
        let mut session = Session::start(era, &["a.json", "--idle-exit", "1"], &folder);
        assert_eq!(session.process.end(), 0);
    }
}
