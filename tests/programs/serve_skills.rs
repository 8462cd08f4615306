//! Skills of `tinymcp serve`, and the command `tinymcp skills`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tinymcp::ErrorKind;

use crate::serve_session::{ERAS, Session, folder, run};

const DEFINITION: &str = "{\n\"skills\": \"skills\"}";

/// Writes a skill with these texts after its name, and one further file.
fn skill(folder: &Path, name: &str, frontmatter: &str) {
    let folder = folder.join("skills").join(name);
    fs::create_dir_all(folder.join("tables")).unwrap();
    fs::write(folder.join("SKILL.md"), format!("---\n{frontmatter}\n---\nRead tables/A.md.\n")).unwrap();
    fs::write(folder.join("tables/A.md"), "| a |\n").unwrap();
}

fn calibration(name: &str) -> std::path::PathBuf {
    let folder = folder(name);
    skill(&folder, "calibration", "name: calibration\ndescription: Calibrates the sensors");
    fs::write(folder.join("f.json"), DEFINITION).unwrap();
    folder
}

/// Runs `tinymcp skills`: exit status, standard output, standard error.
fn skills(folder: &Path, words: &[&str], server: &[&str]) -> (i32, Vec<u8>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tinymcp"));
    command.arg("skills").args(words).arg("--").args(server).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code().unwrap(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

/// Runs `tinymcp skills` with the server of the folder.
fn served(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let server = [env!("CARGO_BIN_EXE_tinymcp"), "serve", "f.json"];
    let (code, out, err) = skills(folder, words, &server);
    (code, String::from_utf8(out).unwrap(), err)
}

#[test]
fn a_folder_of_skills_is_served_in_both_protocols() {
    let folder = calibration("skills");
    for era in ERAS {
        let session = Session::start(era, &["f.json"], &folder);
        let client = &session.client;
        let found = client.skills().unwrap();
        assert_eq!(found.len(), 1);
        assert!(client.load_skill(&found[0]).unwrap().ends_with("Read tables/A.md.\n"));
        assert_eq!(client.read_skill_file(&found[0], "tables/A.md").unwrap(), b"| a |\n");
        assert_eq!(session.uris(), ["skill://calibration/SKILL.md"]);
        // A change needs no reload.
        skill(&folder, "wiring", "name: wiring\ndescription: Shows the pins");
        assert_eq!(client.skills().unwrap().len(), 2);
        fs::remove_dir_all(folder.join("skills/wiring")).unwrap();
        assert_eq!(client.skill("skill://wiring/SKILL.md").unwrap_err().kind(), ErrorKind::Remote);
    }
}

#[test]
fn check_reports_each_skill_that_is_left_out() {
    let folder = calibration("skills-check");
    let good = run(&["f.json", "--check"], &folder);
    assert_eq!(good.1, "0 tools, 0 resources, 0 prompts, a folder of skills: no problems\n");
    assert_eq!((good.0, good.2.as_str()), (0, ""));
    fs::create_dir(folder.join("skills/notes")).unwrap();
    skill(&folder, "wiring", "name: pins\ndescription: d");
    skill(&folder, "empty", "name: empty");
    let place = format!("f.json:2: /skills: {}: ", folder.join("skills").display());
    let (code, out, _) = run(&["f.json", "--check"], &folder);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (1, 4), "{out}");
    assert_eq!(lines[0], format!("{place}skill \"empty\": the frontmatter has no `description`"));
    let reason = "skill \"wiring\": its name is \"pins\", which must be the name of its folder";
    assert_eq!(lines[1], format!("{place}{reason}"));
    assert_eq!(lines[2], format!("{place}folder \"notes\": no SKILL.md in it"));
    // The server starts, and reports the same.
    let (code, out, err) = served(&folder, &["list", "--json", "-q"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, list["skills"].as_array().unwrap().len()), (0, 1));
    assert!(err.contains(reason), "{err}");
    fs::remove_dir_all(folder.join("skills")).unwrap();
    let (code, out, _) = run(&["f.json", "--check"], &folder);
    assert!(code == 1 && out.contains("cannot read the folder of skills"), "{out}");
    let (code, _, err) = run(&["f.json"], &folder);
    assert!(code == 2 && err.contains("f.json:2: /skills: cannot read the folder of skills"), "{err}");
    fs::create_dir(folder.join("skills")).unwrap();
    let (code, out, _) = run(&["f.json", "--check"], &folder);
    assert!(code == 1 && out.contains("no skill; a skill is a folder in it with a SKILL.md"), "{out}");
    fs::write(folder.join("g.json"), DEFINITION).unwrap();
    let (code, out, _) = run(&["f.json", "g.json", "--check"], &folder);
    assert!(code == 2 && out.contains("g.json:2: /skills: `skills` is also in f.json:2"), "{out}");
}

#[test]
fn skills_are_listed_and_printed() {
    let folder = calibration("skills-printed");
    let (code, out, err) = served(&folder, &["list", "--text", "--verify"]);
    let text = "calibration: Calibrates the sensors\n  skill://calibration/SKILL.md, 2 files, 86 bytes\n";
    assert_eq!((code, out.as_str()), (0, text), "{err}");
    let verified = "tinymcp: verified \"skill://calibration/SKILL.md\": 2 files, 86 bytes, sha256:";
    assert!(err.starts_with(verified), "{err}");
    let skill_md = fs::read_to_string(folder.join("skills/calibration/SKILL.md")).unwrap();
    for name in ["calibration", "skill://calibration/SKILL.md"] {
        assert_eq!(served(&folder, &["get", name]), (0, skill_md.clone(), String::new()));
    }
    let table = served(&folder, &["get", "calibration", "./tables/A.md"]);
    assert_eq!(table, (0, "| a |\n".to_owned(), String::new()));
    let (code, out, _) = served(&folder, &["get", "calibration", "--json"]);
    let entry: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &entry["frontmatter"]["name"]), (0, &"calibration".into()));
    assert_eq!(entry["resources"][1]["uri"], "skill://calibration/tables/A.md");
    assert!(entry["fingerprint"].as_str().unwrap().starts_with("sha256:"));
    for (words, status, part) in [
        (&["get", "calibratio"][..], 1, "no skill \"calibratio\"; did you mean \"calibration\"?"),
        (&["get", "calibration", "../f.json"], 2, "does not list the file"),
        (&["get", "skill://x/SKILL.md"], 1, "No skill is served at"),
        (&["get"], 2, "expected `skills list`"),
        (&["list", "x"], 2, "expected `skills list`"),
        (&["get", "a", "b", "--json"], 2, "FILE excludes"),
    ] {
        let (code, out, err) = served(&folder, words);
        assert_eq!((code, out.as_str()), (status, ""), "{words:?}: {err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
}

#[test]
fn a_skill_is_written_into_a_new_folder() {
    let folder = calibration("skills-written");
    let (code, out, err) = served(&folder, &["get", "calibration", "-o", "a/b", "--verify"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.ends_with("tinymcp: wrote 2 files to a/b/calibration\n"), "{err}");
    for path in ["SKILL.md", "tables/A.md"] {
        let read = |base: &str| fs::read(folder.join(base).join("calibration").join(path)).unwrap();
        assert_eq!(read("a/b"), read("skills"));
    }
    let (code, _, err) = served(&folder, &["get", "calibration", "-o", "a/b"]);
    assert!(code == 2 && err.contains("a/b/calibration: File exists"), "{err}");
}

/// A server of a session with one skill, whose file has this text.
const LYING: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) reply '{"protocolVersion":"2025-11-25","capabilities":{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}},"serverInfo":{"name":"s","version":"1"}}';;
    *skills/list*) reply '{"skills":[{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","description":"d"},"resources":FILES}]}';;
    *resources/read*) reply '{"contents":[{"uri":"skill://a/SKILL.md","text":"---\nname: a\ndescription: e\n---\n"}]}';;
  esac
done"#;
/// The digest of the text, which has another description than the entry.
const DIGEST: &str = "sha256:3e23305e0189c99af354958894ac1a3bdf6bf107ceb0c4d70547183cb41656de";

#[test]
fn a_skill_that_differs_from_its_entry_is_not_printed() {
    let folder = folder("skills-differ");
    let entry = |digest: &str, size: u32| {
        format!(r#"[{{"uri":"skill://a/SKILL.md","digest":"{digest}","size":{size}}}]"#)
    };
    let zeros = format!("sha256:{}", "0".repeat(64));
    for (files, part) in [
        (entry(&zeros, 31), "has the digest sha256:"),
        (entry(DIGEST, 30), "has 31 bytes, its entry says 30"),
        (entry(DIGEST, 31), "its frontmatter differs from that of the entry: \"description\""),
    ] {
        let script = LYING.replace("FILES", &files);
        let server = ["/bin/sh", "-c", &script];
        for words in
            [&["get", "a"][..], &["get", "a", "-o", "x"], &["list", "--verify"], &["get", "a", "--verify"]]
        {
            let (code, out, err) = skills(&folder, &[words, &["--protocol", "session"]].concat(), &server);
            assert!(code == 1 && err.contains(part), "{words:?}: {code} {err}");
            assert!(words[0] == "list" || out.is_empty(), "{words:?}");
        }
        assert!(!folder.join("x/a").exists(), "half a skill is left");
    }
    for (files, part) in [("\"dynamic\"", "is generated"), ("[]", "has no SKILL.md")] {
        let script = LYING.replace("FILES", files);
        let server = ["/bin/sh", "-c", &script];
        for words in [&["get", "a", "--verify"][..], &["get", "a", "-o", "x"]] {
            let (code, _, err) = skills(&folder, &[words, &["--protocol", "session"]].concat(), &server);
            assert!(code == 1 && err.contains(part), "{words:?}: {err}");
        }
    }
}
