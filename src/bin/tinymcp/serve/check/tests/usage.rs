//! Tests of the checks of arguments and of texts for a shell.
use super::{Folder, tool};

#[test]
fn arguments_are_compared_with_their_uses() {
    let input = r#""input": {"a": "string - text", "l": "string[]", "b": "boolean"}"#;
    for (members, expected) in [
        (r#""run": ["cat", "--", "{a}", "{l...}", "{?b:--b}"]"#, &[][..]),
        (r#""run": ["cat"], "stdin": "json""#, &[]),
        (r#""worker": ["cat"]"#, &[]),
        (r#""run": ["cat", "{?b:--b}"], "stdin": "{a}", "confirm": "{l}?""#, &[]),
        (r#""run": ["cat", "--", "{a}", "{l...}"]"#, &["the argument `b` is not used: write {b} in `run`"]),
        (r#""run": ["cat", "--x={l}"], "stdin": "{a}{b}""#, &["`l` is a list: write `{l...}`"]),
        (
            r#""run": ["cat", "--x={a...}", "{b}"], "stdin": "{l}""#,
            &["`a` is not a list: write `{a}` without `...`"],
        ),
        (r#""run": ["cat", "{?a:--a}", "{b}", "--", "{l...}"]"#, &["`{?a:TEXT}` requires a boolean"]),
    ] {
        let mut found = Folder::new("usage", &tool(&format!("{members}, {input}"))).warnings();
        found.retain(|w| {
            w.contains(" is not used") || w.contains(" list: ") || w.contains("requires a boolean")
        });
        assert_eq!(found.len(), expected.len(), "{members}: {found:?}");
        assert!(found.iter().zip(expected).all(|(w, part)| w.contains(part)), "{members}: {found:?}");
    }
}

#[test]
fn texts_for_a_shell() {
    for (members, expected) in [
        (r#""run": ["cat", "a", "|", "sort"]"#, "argument 2 of the command line, \"|\", is passed as it is"),
        (r#""run": ["cat", "/var/log/*.log"]"#, "start a shell"),
        (r#""run": ["cat", "~/notes"]"#, "write its value, or start a shell"),
        (r#""run": ["cat", "--file=$HOME/x"]"#, "because no shell runs"),
        (
            r#""run": ["cat"], "env": {"X": "$HOME/x"}"#,
            "variable X: `$HOME` is not replaced: write `${HOME}`",
        ),
        (r#""run": ["curl", "--data=$TOKEN_2"]"#, "write its value"),
        (r#""run": ["curl", "${{URL}}/x"]"#, "\"${URL}/x\", is passed as it is"),
        (r#""run": ["curl", "$URL/{a}"], "input": {"a": "a|b"}"#, "\"$URL/{a}\", is passed as it is"),
        (
            r#""run": ["curl", "${a}"], "input": {"a": "a|b"}"#,
            "\"${a}\", is passed as it is, because no shell runs: write the argument without `$`",
        ),
        (r#""run": ["echo", "$(date)"]"#, "write its value"),
        (r#""run": ["echo", "`date`"]"#, "write its value"),
        (r#""run": ["echo", "x", ">>out", "y"]"#, "start a shell"),
        (r#""run": ["echo", "x", "> out"]"#, "start a shell"),
        (r#""run": ["echo", "x", "2>/dev/null"]"#, "start a shell"),
        (r#""run": ["wc", "<in"]"#, "start a shell"),
        (r#""run": ["cat", "~root/x"]"#, "write its value"),
        (r#""run": ["git", "log", "HEAD~2", "a$"]"#, ""),
        (r#""run": ["grep", "-e", "<title", "f"]"#, ""),
        (r#""run": ["jq", "--arg", "x", "1", ".a == $x or $ENV.PATH == 1"]"#, ""),
        (
            r#""run": ["docker", "ps", "--format", "{{.Names}}"]"#,
            "\"{.Names}\", is passed as it is: write each",
        ),
        (
            r#""run": ["docker", "ps", "--format=table {{json .}}"]"#,
            "write each brace of a Go template twice",
        ),
        (r#""run": ["docker", "ps", "--format", "{{{{.Names}}}}"]"#, ""),
        (r#""run": ["cat"], "env": {"X": "${HOME}/x $HOMES"}"#, ""),
        (r#""run": ["sh", "-c", "cat *.log | sort > ~/x; echo $HOME"]"#, ""),
        (r#""run": ["find", ".", "-name", "*.c", "-exec", "cat", "{{}}", ";"]"#, ""),
        (r#""run": ["grep", "-e", "a*b$", "f"]"#, ""),
        (r#""run": ["awk", "{{ print $HOME }}"]"#, ""),
    ] {
        let mut found = Folder::new("texts", &tool(members)).warnings();
        found.retain(|w| w.contains("as it is") || w.contains("is not replaced"));
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{members}: {found:?}");
        assert!(found.iter().all(|w| w.contains(expected)), "{members}: {found:?}");
    }
}

#[test]
fn a_default_after_the_description_is_reported() {
    for (input, is_reported) in [
        ("integer 1..8 - MB = 5", true),
        ("integer 1..8 = 5 - MB", false),
        ("integer 1..8 = 5 - MB = 5", false),
        ("string - such as a = b c", false),
    ] {
        let text = tool(&format!("\"worker\": [\"cat\"], \"input\": {{\"n\": \"{input}\"}}"));
        let found = Folder::new("default", &text).warnings();
        let expected =
            "the description of `n` ends with \"= 5\", which is not a default: write TYPE RANGE = DEFAULT";
        assert_eq!(found.iter().any(|line| line.contains(expected)), is_reported, "{input}: {found:?}");
    }
}
