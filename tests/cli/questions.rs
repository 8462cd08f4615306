//! Questions of a server: answers from files and programs, and in another process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::program;
use super::remote::send_signal;
use super::terminal::{Terminal, tinymcp};
use super::{TIMEOUT, folder, run};

/// The server of the conformance tests over HTTP, ended with the test.
pub(crate) struct Asking(Child, String);

impl Asking {
    pub(crate) fn start() -> Asking {
        let mut child = Command::new(program("conformance_server"))
            .arg("127.0.0.1:0")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        Asking(child, line.trim().strip_prefix("conformance_server: ").unwrap().to_owned())
    }

    pub(crate) fn url(&self) -> &str {
        &self.1
    }

    fn call(&self, words: &[&str]) -> (i32, String, String) {
        run(&[&["call"], words, &["--url", &self.1, "--field", "content/0/text"]].concat(), "")
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn answers_come_from_a_file() {
    let server = Asking::start();
    let file = folder("answers").join("answers");
    let path = file.to_str().unwrap();
    for era in ["session", "stateless"] {
        let call = |further: &[&str]| {
            let words = ["test_elicitation", "message=Who", "--protocol", era, "--answers", path];
            server.call(&[&words[..], further].concat())
        };
        for text in ["# the user\nusername=a b\n\nemail=a@b.c\n", r#"{"username": "a b", "email": "a@b.c"}"#]
        {
            fs::write(&file, text).unwrap();
            let (code, out, err) = call(&[]);
            assert_eq!(code, 0, "{err}");
            assert!(out.contains(r#"username="a b" email="a@b.c""#), "{out}");
        }
        // The command line takes precedence.
        let (_, out, _) = call(&["--answer", "username=other"]);
        assert!(out.contains(r#"username="other""#), "{out}");
        fs::write(&file, "username=x\nnonsense\n").unwrap();
        let (code, _, err) = call(&[]);
        assert_eq!(code, 2);
        assert!(err.contains(&format!("{path}:2: expected NAME=VALUE")), "{err}");
    }
    let (code, _, err) = server.call(&["test_elicitation", "message=Who"]);
    assert!(code == 1 && err.contains("give --answer or --answers"), "{err}");
}

#[test]
fn keys_before_a_question_and_empty_lines_are_not_consent() {
    let server = Asking::start();
    for (answer, expected) in [("no", "action=decline"), ("yes", "action=accept")] {
        let words = ["call", "test_elicitation_sep1034_defaults", "--url", server.url(), "-q", "--text"];
        let mut terminal = Terminal::start(tinymcp(&words));
        // Typed before the program runs.
        terminal.type_keys(&"\n".repeat(20));
        terminal.wait_for("The server asks");
        for _ in 0..5 {
            terminal.wait_for("empty for ");
            terminal.wait_for("): ");
            terminal.type_keys("\n");
        }
        terminal.wait_for("Send this answer? (yes or no): ");
        terminal.type_keys(&format!("{answer}\n"));
        let (_, screen) = terminal.end();
        assert!(screen.contains(expected), "{screen}");
    }
}

#[test]
fn a_program_answers_sampling_requests() {
    let server = Asking::start();
    let folder = folder("sampler");
    let seen = folder.join("request");
    let text = format!("sh -c 'cat > {}; echo from the model'", seen.display());
    let object = r#"sh -c 'echo "{\"model\":\"m\",\"content\":{\"type\":\"text\",\"text\":\"as JSON\"}}"'"#;
    for era in ["session", "stateless"] {
        let call = |sampler: &str| {
            server.call(&["test_sampling", "prompt=hi", "--protocol", era, "--sampler", sampler])
        };
        assert_eq!(call(&text), (0, "LLM response: from the model\n".to_owned(), String::new()));
        let request: Value = serde_json::from_str(&fs::read_to_string(&seen).unwrap()).unwrap();
        assert_eq!(request["messages"][0]["content"]["text"], "hi");
        assert_eq!(call(object).1, "LLM response: as JSON\n");
        for (sampler, named) in [
            ("/no/such/program", "--sampler /no/such/program: cannot start the program"),
            ("sh -c 'exit 3'", "the program ended with exit status: 3"),
            ("true", "the program printed nothing"),
            ("sh -c 'head -c 5000000 /dev/zero'", "its output is longer than 4194304 bytes"),
        ] {
            let (code, out, err) = call(sampler);
            assert_eq!(code, 1, "{out}");
            // The emulator does not report that a program cannot be started.
            let is_hidden = sampler.starts_with('/') && std::env::var_os("TEST_EMULATED").is_some();
            assert!(is_hidden || err.contains(named), "{err}");
        }
    }
    let (code, _, err) = server.call(&["test_sampling", "prompt=hi", "--sampler", "echo $HOME"]);
    assert!(code == 2 && err.contains("--sampler: '$' has a meaning for a shell only"), "{err}");
    let (code, _, err) = server.call(&["test_sampling", "prompt=hi"]);
    assert!(code == 1 && err.contains("give --sampler COMMAND"), "{err}");
}

#[test]
fn an_interruption_ends_the_sampler() {
    let server = Asking::start();
    let script = "sh -c 'echo pid $$ >&2; exec sleep 600'";
    let words = ["call", "test_sampling", "prompt=hi", "--url", &server.1, "--sampler", script];
    let mut terminal = Terminal::start(tinymcp(&words));
    terminal.wait_for("pid ");
    let pid = terminal.wait_for("\r\n");
    send_signal("-INT", &terminal.child);
    assert_eq!(terminal.end().0, 5);
    let alive =
        || Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().unwrap().success();
    let deadline = Instant::now() + TIMEOUT;
    while alive() {
        assert!(Instant::now() < deadline, "the sampler still runs");
        std::thread::yield_now();
    }
}

#[test]
fn roots_are_folders_of_the_command_line() {
    let server = Asking::start();
    let folder = folder("roots").join("a b");
    fs::create_dir(&folder).unwrap();
    for era in ["session", "stateless"] {
        let call = |further: &[&str]| {
            server.call(&[&["test_input_required_result_list_roots", "--protocol", era], further].concat())
        };
        let (code, out, err) = call(&["--root", folder.to_str().unwrap(), "--root", "/"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("/roots/a%20b, file:///\n"), "{out}");
        assert_ne!(call(&[]).0, 0);
    }
    let (_, _, err) = server.call(&["test_input_required_result_list_roots"]);
    assert!(err.contains("give --root FOLDER"), "{err}");
}

#[test]
fn a_question_is_answered_in_another_process() {
    let server = Asking::start();
    let file = folder("parked").join("call.json");
    let path = file.to_str().unwrap();
    // A file that others may read is replaced.
    fs::write(&file, "").unwrap();
    let park = |words: &[&str]| {
        server.call(
            &[&["test_elicitation", "message=Who?", "--park", path, "--bearer", "sk-0123456789"], words]
                .concat(),
        )
    };
    let (code, out, err) = park(&[]);
    assert_eq!((code, out.as_str()), (6, ""), "{err}");
    assert!(
        err.contains(&format!("asks: Who?; answer it by `tinymcp answer {path} username=VALUE email=VALUE`")),
        "{err}"
    );
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("sk-0123456789"), "{text}");
    // The file stays until there is a result.
    let answer = |words: &[&str]| run(&[&["answer", path, "--field", "content/0/text"], words].concat(), "");
    let (code, _, err) = answer(&["username=x"]);
    assert!(code == 1 && err.contains("--answer email=VALUE"), "{err}");
    let (code, out, err) = answer(&["username=x", "email=a@b.c"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(r#"action=accept, content=username="x" email="a@b.c""#), "{out}");
    assert!(!file.exists());
    // Another server with this state must not accept it.
    assert_eq!(park(&[]).0, 6);
    let other = Asking::start();
    let (code, _, err) = answer(&["username=x", "email=a@b.c", "--url", &other.1]);
    assert_eq!(code, 1, "{err}");
    assert_eq!(answer(&["no"]).0, 0);
    // Several rounds.
    let rounds = ["call", "test_input_required_result_multi_round", "--url", &server.1, "--park", path];
    let mut status = run(&rounds, "").0;
    let mut count = 0;
    while status == 6 && count < 10 {
        count += 1;
        let names = parked_names(&fs::read_to_string(&file).unwrap());
        let answers: Vec<String> = names.iter().map(|name| format!("{name}=blue")).collect();
        let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
        status = run(&[&["answer", path, "--park", path], &answers[..]].concat(), "").0;
    }
    assert!(status == 0 && count > 1, "{status} {count}");
    for (text, named) in [("{}", "not a call that --park wrote"), ("{", "call.json:1:2")] {
        fs::write(&file, text).unwrap();
        let (code, _, err) = answer(&[]);
        assert!(code == 2 && err.contains(named), "{err}");
    }
    let (code, _, err) = park(&["--protocol", "session"]);
    assert!(code == 2 && err.contains("--park requires the stateless protocol"), "{err}");
}

/// Names of the fields of a parked call's form.
fn parked_names(text: &str) -> Vec<String> {
    let parked: Value = serde_json::from_str(text).unwrap();
    let questions = parked["input"]["requests"].as_object().unwrap();
    let none = json!({});
    let fields = questions.values().flat_map(|question| {
        let fields = question["params"]["requestedSchema"]["properties"].as_object();
        fields.unwrap_or(none.as_object().unwrap()).keys().cloned().collect::<Vec<_>>()
    });
    fields.collect()
}
