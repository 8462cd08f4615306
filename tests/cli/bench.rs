//! The command `bench`.

use serde_json::Value;

use super::program;
use super::remote::{ask, send_signal};
use super::run;
use super::terminal::{Terminal, tinymcp};

fn figures(words: &[&str]) -> (i32, Value, String) {
    let (code, out, err) = ask(&[&["bench"], words].concat(), "board_server");
    (code, serde_json::from_str(&out).unwrap_or_default(), err)
}

#[test]
fn a_tool_is_measured_by_several_clients() {
    for era in ["session", "stateless"] {
        let words = ["gpio_read", "pin=4", "--clients", "3", "--duration", "0.3", "--protocol", era];
        let (code, found, err) = figures(&words);
        assert_eq!((code, err.as_str()), (0, "tinymcp: calling gpio_read for 0.3 s, 3 at a time\n"));
        assert_eq!(
            (&found["clients"], &found["errors"], &found["unsent"]),
            (&3.into(), &0.into(), &0.into())
        );
        let times =
            ["min", "p50", "p90", "p99", "max"].map(|name| found["milliseconds"][name].as_f64().unwrap());
        assert!(found["calls"].as_u64() > Some(0) && times.is_sorted(), "{found}");
    }
}

#[test]
fn the_time_of_a_late_call_starts_at_its_scheduled_start() {
    // Each call takes 100 ms, and one is due every 10 ms.
    let words = ["blink", "pin=4", "times=1", "intervalMs=100", "--rate", "100", "--duration", "0.5", "-q"];
    let (code, found, err) = figures(&words);
    assert_eq!((code, err.as_str()), (0, ""), "{found}");
    let calls = found["calls"].as_u64().unwrap();
    assert_eq!(calls + found["unsent"].as_u64().unwrap(), 50, "{found}");
    let least = 100 + 90 * (calls - 1);
    assert!(found["milliseconds"]["max"].as_f64().unwrap() > 0.99 * least as f64, "{found}");
}

#[test]
fn failed_calls_are_counted_and_set_the_status() {
    let (code, found, err) = figures(&["gpio_read", "pin:=99", "--duration", "0.1"]);
    assert!(code == 1 && found["errors"].as_u64() > Some(0) && found["calls"] == 0, "{found}");
    assert!(err.contains(" calls failed; the first: the tool failed: Invalid arguments"), "{err}");
    for (words, named) in [
        (&["bench", "gpio_reed", "x:=1"][..], (1, "did you mean \"gpio_read\"?")),
        (&["bench", "--clients", "2"], (2, "the name of a tool")),
        (&["bench", "t", "--clients", "0"], (2, "--clients requires a number from 1 to 1000, got \"0\"")),
        (&["bench", "t", "--rate", "inf"], (2, "--rate requires a number from 0.001 to 1000000")),
        (&["bench", "t", "--duration", "-1"], (2, "--duration requires a positive number of seconds")),
    ] {
        let (code, out, err) = run(&[words, &["--", &program("board_server")]].concat(), "");
        assert_eq!((code, out.as_str()), (named.0, ""), "{err}");
        assert!(err.contains(named.1), "{err}");
    }
}

#[test]
fn an_interruption_prints_the_figures_until_then() {
    let program = program("board_server");
    let mut terminal = Terminal::with_columns(
        50,
        tinymcp(&["bench", "gpio_read", "pin=4", "--duration", "600", "--", &program]),
    );
    terminal.wait_for("calling gpio_read for 600 s, 1 at a time\r\n");
    send_signal("-INT", &terminal.child);
    let (status, text) = terminal.end();
    assert_eq!(status, 5, "{text}");
    assert!(
        text.starts_with("calls     ") && text.ends_with("interrupted; the figures cover the run so far\r\n")
    );
}
