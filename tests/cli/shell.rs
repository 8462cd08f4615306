//! The commands `shell` and `run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::program;
use super::remote::send_signal;
use super::terminal::{Terminal, tinymcp};
use super::{folder, run, server};

#[test]
fn a_script_runs_on_one_connection_until_a_line_fails() {
    let folder = folder("script");
    let file = folder.join("lines");
    let path = file.to_str().unwrap();
    let program = program("board_server");
    fs::write(folder.join("pin.json"), r#"{"pin": 5}"#).unwrap();
    let arguments = format!("@{}", folder.join("pin.json").display());
    for era in ["session", "stateless"] {
        let script = |words: &[&str], text: &str| {
            fs::write(&file, text).unwrap();
            run(&[words, &["--text", "--protocol", era, "--", &program]].concat(), text)
        };
        let text = format!(
            "# sets a pin\n\ngpio_write pin=5 value=1\r\n  call gpio_read {arguments} --field content/0/text\n\
             list prompts\nget diagnose 'symptom=no light' --json\ncomplete prompt diagnose component=d\n\
             read gpio://pin/5 --json\nquit\ngpio_reed\n"
        );
        let (code, out, err) = script(&["run", path], &text);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[..3], ["pin 5 is now 1", "1", "prompts (1)"]);
        assert!(lines[5].contains("Symptom: no light") && lines[6] == "disk", "{out}");
        // The same lines from standard input.
        assert_eq!(script(&["run", "-"], &text), (0, out.clone(), String::new()));
        assert_eq!(script(&["shell"], &text), (0, out, String::new()));
        let result = folder.join("result");
        let words = ["run", path, "--field", "structuredContent/value", "-o", result.to_str().unwrap()];
        let (code, out, err) = script(&words, "gpio_read pin=5\ngpio_read pin=4\nping --json\n");
        assert!(code == 0 && out.starts_with("{\"milliseconds\""), "{out}{err}");
        assert_eq!(fs::read_to_string(&result).unwrap(), "0\n0\n");
        let text = "gpio_read pin=99\ngpio_read pin=1\ngpio_reed x=1\n'a\n";
        let (code, out, err) = script(&["run", path], text);
        assert_eq!((code, out.lines().count()), (1, 1), "{out}");
        assert!(err.ends_with(&format!("tinymcp: {path}:1: exit status 1\n")), "{err}");
        let (code, out, err) = script(&["run", path, "--keep-going"], text);
        assert_eq!((code, out.lines().count()), (2, 2), "{out}");
        for named in [":1: exit status 1\n", ":3: ", "did you mean \"gpio_read\"?\n", ":4: a single quote"] {
            assert!(err.contains(named), "{named}: {err}");
        }
    }
    for (line, named) in [
        ("gpio_read -", "lines:1: a line cannot read standard input"),
        ("call gpio_read --url x", "lines:1: unknown option --url"),
        ("list gadgets", "lines:1: unknown list"),
        ("help lst", "lines:1: no command \"lst\"; expected one of: list, "),
        ("list --json --text", "lines:1: --text excludes"),
    ] {
        fs::write(&file, line).unwrap();
        let (code, out, err) = run(&["run", path, "--", &program], "");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains(named), "{err}");
    }
    for (args, named) in [
        (&["run", "/no/such/file", "--", "/bin/false"][..], "/no/such/file"),
        (&["run", "--", "/bin/false"], "one file of lines"),
        (&["shell", "x", "--", "/bin/false"], "no arguments"),
    ] {
        let (code, _, err) = run(args, "");
        assert!(code == 2 && err.contains(named), "{err}");
    }
}

#[test]
fn the_end_of_the_server_ends_a_script() {
    let script =
        server("{}").replace("*'\"notifications/'*)", "*tools/call*) exit 3;;\n*'\"notifications/'*)");
    let args = ["run", "-", "--keep-going", "--protocol", "session", "--", "/bin/sh", "-c", &script];
    let (code, _, err) = run(&args, "t\nt\n");
    assert_eq!(code, 4);
    assert!(err.starts_with("tinymcp: standard input:1: /bin/sh: ") && err.lines().count() == 1, "{err}");
}

#[test]
fn a_shell_has_completion_history_and_notes() {
    let folder = folder("shell");
    let arrived = folder.join("arrived");
    // It reports a change when the file exists.
    let change = format!(
        r#"(while [ ! -e {} ]; do sleep 0.02; done; printf '%s\n' '{{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}') &"#,
        arrived.display()
    );
    let script = server(r#"{"properties":{"mode":{"enum":["fast"]},"key":{"writeOnly":true}}}"#)
        .replace(r#"{"tools":{}}"#, r#"{"tools":{"listChanged":true}}"#)
        .replace("*'\"notifications/'*) ;;", &format!("*initialized*) {change};;"));
    let state = folder.join("state");
    let start = || {
        let mut command = tinymcp(&[
            "shell",
            "--protocol",
            "session",
            "-e",
            "SECRET=sk-0123456789",
            "--",
            "/bin/sh",
            "-c",
            &script,
        ]);
        command.env("XDG_STATE_HOME", &state);
        Terminal::start(command)
    };
    let mut terminal = start();
    terminal.wait_for("sh 1; `help` lists the commands");
    terminal.wait_for("> ");
    terminal.type_keys("t m\t");
    terminal.wait_for("mode=");
    terminal.type_keys("f\t");
    terminal.wait_for("fast");
    terminal.type_keys("key=x note=sk-0123456789\r");
    terminal.wait_for("unknown");
    terminal.wait_for("> ");
    // A note moves the empty line down.
    fs::write(&arrived, "").unwrap();
    terminal.wait_for("\r\u{1b}[Ktools changed\r\n> ");
    terminal.type_keys("help\r");
    terminal.wait_for("[call] TOOL");
    terminal.wait_for("> ");
    terminal.type_keys("\u{4}");
    assert_eq!(terminal.end().0, 0);
    let file = state.join("tinymcp/history");
    assert_eq!(fs::read_to_string(&file).unwrap(), "t mode=fast 'key=[masked]' 'note=[masked]'\nhelp\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // The next shell has the history.
    let mut terminal = start();
    terminal.wait_for("> ");
    terminal.type_keys("\u{1b}[A\u{1b}[A");
    terminal.wait_for("note=[masked]");
    // After a signal at the prompt, the terminal is not in raw mode.
    send_signal("-TERM", &terminal.child);
    assert_eq!(terminal.end().0, 5);
}

#[test]
fn an_interruption_in_a_shell_cancels_the_call_only() {
    let program = program("board_server");
    let mut command = tinymcp(&["shell", "--", &program]);
    command.env("XDG_STATE_HOME", folder("interrupted"));
    let mut terminal = Terminal::start(command);
    for _ in 0..2 {
        terminal.wait_for("> ");
        terminal.type_keys("blink pin=2 times=100 intervalMs=1000\r");
        terminal.wait_for("1 of 100");
        send_signal("-INT", &terminal.child);
        terminal.wait_for("the call was cancelled");
    }
    terminal.wait_for("> ");
    terminal.type_keys("erase_pins\r");
    terminal.wait_for("yes or no");
    send_signal("-INT", &terminal.child);
    terminal.wait_for("the call was cancelled");
    terminal.wait_for("> ");
    terminal.type_keys("gpio_read\r");
    terminal.wait_for("pin (integer 0..27): ");
    terminal.type_keys("4\n");
    terminal.wait_for("0\r\n");
    terminal.wait_for("> ");
    terminal.type_keys("quit\r");
    assert_eq!(terminal.end().0, 0);
}
