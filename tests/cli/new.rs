//! The command `new`.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{folder, run};

/// Builds the project with the profile of this test, in a folder that the next run finds again.
#[test]
fn a_new_project_compiles_and_passes_its_test() {
    // The compiler runs on this machine, for this machine.
    if std::env::var_os("TEST_EMULATED").is_some() {
        return;
    }
    let folder = folder("new");
    let project = folder.join("first-server");
    let library = env!("CARGO_MANIFEST_DIR");
    let (code, out, err) = run(&["new", project.to_str().unwrap(), "--path", library], "");
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("first-server && cargo test, then\n"), "{err}");
    // The versions that this repository uses are downloaded.
    fs::copy(Path::new(library).join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-target");
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline", "--quiet", "--target-dir"])
        .arg(target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .current_dir(&project)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("2 passed") && output.stderr.is_empty(), "{text}");
}

#[test]
fn a_project_is_not_written_over_another_or_with_an_invalid_name() {
    let folder = folder("new_refused");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let published = path("published");
    assert_eq!(run(&["new", &published, "-q"], ""), (0, String::new(), String::new()));
    let manifest = fs::read_to_string(folder.join("published/Cargo.toml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(manifest.contains(&format!("\ntinymcp = {{ version = {version:?} }}\n")), "{manifest}");
    for (words, named) in [
        (&["new", &published][..], "published: File exists"),
        (&["new"], "the name of the project"),
        (&["new", &path("4x")], "invalid name \"4x\": allowed are A-Z a-z 0-9 _ -"),
        (&["new", &path("a\"b")], "invalid name"),
        (&["new", &path("test")], "the name \"test\" is reserved"),
        (&["new", &path("x"), "--path", "/nonexistent"], "--path: /nonexistent: No such file"),
        (&["new", &path("x"), "--path", folder.to_str().unwrap()], "is not a checkout of tinymcp"),
    ] {
        let (code, out, err) = run(words, "");
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(err.contains(named), "{err}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
