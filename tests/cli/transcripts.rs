//! Prompts, progress and errors at a terminal of 40 columns, without colours and in the locale C.

use super::program;
use super::terminal::{Terminal, tinymcp};

/// Returns the exit status and everything that the terminal shows. After each text of the dialog,
/// keys are typed.
fn shown(args: &[&str], dialog: &[(&str, &str)]) -> (i32, String) {
    let program = program("board_server");
    let mut command = tinymcp(&[args, &["--", &program]].concat());
    command.env("NO_COLOR", "1").env("LANG", "C");
    let mut terminal = Terminal::with_columns(40, command);
    let mut text = String::new();
    for (prompt, keys) in dialog {
        text.push_str(&terminal.wait_for(prompt));
        terminal.type_keys(keys);
    }
    let (status, rest) = terminal.end();
    text.push_str(&rest);
    (status, text.replace("\r\n", "\n").replace(&program, "board_server"))
}

#[test]
fn a_missing_argument_is_requested_until_it_is_valid() {
    let dialog = [("(integer 0..27): ", "x\n"), ("(integer 0..27): ", "4\n")];
    let expected = "pin (integer 0..27): x\nexpected integer\npin (integer 0..27): 4\n0\n";
    assert_eq!(shown(&["call", "gpio_read"], &dialog), (0, expected.to_owned()));
}

#[test]
fn a_form_is_filled_in_and_can_be_declined() {
    let prompt = "Yes, all of them [sure]: Everything connected to them is switched off (yes or no, empty to decline): ";
    let dialog = [("decline): ", "maybe\n"), ("decline): ", "\n")];
    let (status, text) = shown(&["call", "erase_pins"], &dialog);
    let start =
        format!("The server asks: Set every pin to 0?\n{prompt}maybe\nexpected yes or no\n{prompt}\n");
    assert!(text.starts_with(&start) && text.is_ascii(), "{status} {text}");
}

#[test]
fn progress_stays_on_one_line() {
    let (status, text) = shown(&["call", "blink", "pin=4", "times=2", "intervalMs=100"], &[]);
    assert!(text.starts_with("\r\u{1b}[K1 of 2: blink 1 of 2"), "{text:?}");
    assert!(status == 0 && text.ends_with("\r\u{1b}[Kpin 4 blinked 2 times\n"), "{text:?}");
    let steps = text.split("\r\u{1b}[K");
    assert!(steps.into_iter().all(|step| step.trim_end().len() < 40), "{text:?}");
}

#[test]
fn errors_name_the_cure() {
    for (args, status, expected) in [
        (
            &["call", "gpio_reed", "pin=4"][..],
            1,
            "tinymcp: board_server: Unknown tool: gpio_reed; did you mean \"gpio_read\"?\n",
        ),
        (&["call", "gpio_read", "pin=x"], 2, "tinymcp: pin: expected integer, got \"x\"\n"),
        (&["lst"], 2, "tinymcp: unknown command \"lst\"; did you mean `tinymcp list`?\n"),
        (&["list", "--txt"], 2, "tinymcp: unknown option --txt; did you mean --text?\n"),
        (
            &["info", "gpio_wrote"],
            1,
            "tinymcp: board_server: no tool \"gpio_wrote\"; did you mean \"gpio_write\"?\n",
        ),
    ] {
        assert_eq!(shown(args, &[]), (status, expected.to_owned()), "{args:?}");
    }
}
