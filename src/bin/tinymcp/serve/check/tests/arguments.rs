//! Tests of the checks of command lines and of shell scripts.
use super::{Folder, tool};

/// Warnings of a command line whose arguments `x`, `y` are texts, `n` and `o` numbers, `w` a
/// word, `list` a list of texts and `p` optional.
fn warnings(elements: &[&str]) -> Vec<String> {
    let input = r#"{"x": "string", "y": "string", "n": "integer -5..5", "w": "a|-b", "list": "string[]", "o": "integer", "p?": "string",
        "s": {"type": "string", "pattern": "^[^-]"}, "safe": {"type": "string", "pattern": "^[^-!(),]"}}"#;
    let mut run = tinymcp::json::Writer::new();
    run.begin_array();
    for element in elements {
        run.string(element);
    }
    run.end_array();
    let text = tool(&format!("\"stdin\": \"json\", \"run\": {}, \"input\": {input}", run.as_str()));
    let mut warnings = Folder::new("arguments", &text).warnings();
    warnings.retain(|warning| {
        !["is not in PATH", "does not exist", "SCH-", "NAME-", "DESC-"]
            .iter()
            .any(|part| warning.contains(part))
    });
    warnings
}

/// Warnings of `sh -c SCRIPT sh {x} {y}`.
fn script(script: &str) -> Vec<String> {
    warnings(&["/bin/sh", "-c", &script.replace('{', "{{").replace('}', "}}"), "sh", "{x}", "{y}"])
}

fn expect(found: &[String], expected: &str, input: &str) {
    let is_met = if expected.is_empty() {
        found.is_empty()
    } else {
        found.len() == 1 && found.iter().all(|warning| warning.contains(expected))
    };
    assert!(is_met, "{input}: {found:?}, expected {expected:?}");
}

#[test]
fn values_that_are_read_as_options() {
    let expression = "reads it as a part of its expression, also after \"--\"";
    for (elements, expected) in [
        (&["find", "--", "{x}", "-name", "y"][..], expression),
        (&["find", "{x}"], expression),
        (&["find", "{s}", "-delete"], "be `!` or begin with `-`"),
        (&["find", "{s}"], "\"pattern\": \"^[^-!(),]\""),
        (&["find", "{safe}"], ""),
        (&["ls", "{s}"], ""),
        (&["/usr/bin/find", "./{x}", "-name", "{y}"], ""),
        (&["find", "/srv", "-name", "{x}", "{y}"], "argument 4 of the command line begins with {y}"),
        (&["busybox", "find", "--", "{x}"], expression),
        (&["timeout", "5", "find", "--", "{x}"], expression),
        (&["sudo", "-u", "pi", "find", "--", "{x}"], expression),
        (&["find", "/srv", "-exec", "{x}", ";"], "is the name of a program"),
        (&["[", "--", "{x}", "]"], expression),
        (&["test", "-f", "{x}"], ""),
        (&["expr", "{x}", "+", "1"], expression),
        (&["rm", "--", "{x}"], ""),
        (&["git", "log", "--end-of-options", "{x}"], ""),
        (&["git", "log", "{x}", "--end-of-options"], "argument 2"),
        (&["env", "--", "rm", "{x}"], "argument 3"),
        (&["env", "--", "rm", "--", "{x}"], ""),
        (&["xargs", "-0", "rm", "--", "{x}"], ""),
        (&["grep", "-n", "-e", "{x}", "file"], ""),
        (&["grep", "-n", "{x}", "file"], "or exclude"),
        (&["tool", "-e", "{x}"], "write \"-e{x}\""),
        (&["tool", "--expr", "{x}"], "write \"--expr={x}\""),
        (&["tool", "{o}"], "write \"--option={o}\", or exclude such values by a range such as 0.. for `o`"),
        (
            &["tool", "{?p}"],
            "argument 1 of the command line begins with {?p}, whose value may begin with `-`",
        ),
        (&["tool", "-p", "{?p}"], "write \"-p{?p}\""),
        (&["tool", "--", "{x}", "{list...}"], ""),
        (
            &["tool", "{list...}"],
            "write \"--option={list...}\", or exclude such values by the schema {\"type\": \"array\"",
        ),
        // A script of the author does not end its options at `--` by itself.
        (
            &["./tool.sh", "{x}"],
            "read as an option: exclude such values by the schema {\"type\": \"string\", \"pattern\": \"^[^-]\"} for \
             `x` in `input`, or write \"--option={x}\", or put \"--\" in front of it, if the program ends",
        ),
        (&["python3", "tool.py", "{x}"], "read as an option: exclude"),
        (&["tool", "{x}"], "read as an option: put \"--\" in front of it, or write"),
        (&["tool", "{w}"], ""),
        (&["tool", "{n}"], "argument 1"),
        (&["python3", "-c", "print()", "{x}"], ""),
        (&["perl", "-e", "print", "{x}"], "argument 3"),
        (&["ssh", "host", "--", "{x}"], "ssh joins its arguments"),
        (&["sqlite3", "a.db", "select '{x}'"], "the value of {x} runs as SQL"),
        (&["sqlite3", "-json", "a.db", "select {n}"], ""),
        (&["sqlite3", "./{x}.db", "select 1"], ""),
        (&["psql", "-c", "select '{x}'"], "the value of {x} runs as SQL"),
    ] {
        expect(&warnings(elements), expected, &elements.join(" "));
    }
}

#[test]
fn values_that_scripts_pass_as_options() {
    for (text, expected) in [
        ("find \"$1\" -name y; echo \"$2\"", "write ./\"$1\", or exclude"),
        ("find -- \"$1\"", "which may be `!` or begin with `-` and be read as an option by find"),
        ("ls \"$1\"", "write -- \"$1\" or ./\"$1\""),
        ("ls -- \"$1\" \"$2\"", ""),
        ("ls ./\"$1\" \"/srv/$2\" --opt=\"$1\"", ""),
        ("grep -c -e \"$1\" file | sort", ""),
        ("grep \"$1\" file", "read as an option by grep"),
        ("if ! LC_ALL=C grep -q -- \"$1\" f; then rm \"$2\"; fi", "\"$2\" of the script"),
        ("f=$1; rm \"$f\"", "\"$f\" of the script has the value of {x}"),
        ("f=\"$1\"; rm -- \"$f\"", ""),
        ("shift; rm -- \"$@\"; ls \"$1\"", "\"$1\" of the script has the value of {"),
        ("for f in \"$1\"; do rm \"$f\"; done", "\"$f\""),
        ("cat \"$(readlink \"$1\")\"", "read as an option by readlink"),
        ("cat \"$(readlink -- \"$1\")\"", ""),
        ("x=`stat \"$1\"`", "read as an option by stat"),
        ("case $1 in -*) exit 1 ;; esac; [ -n \"$1\" ] && test \"$2\" = a", ""),
        ("printf '%s\\n' \"$1\"; sort > \"$2\"", ""),
        ("printf \"$1\"", "read as an option by printf"),
        ("cat <<END\nls $1 \"\nEND\necho \"$2\"", ""),
        ("# it's \"$1\"\necho ${#1} \"${2:-none}\"", ""),
        ("timeout 5 find -- \"$1\"", "read as an option by find"),
        ("echo 'ls $1' \\$1 $# $?", ""),
    ] {
        let mut found = script(text);
        // With `shift`, both values are reported.
        if text.starts_with("shift") {
            assert_eq!(found.len(), 2, "{found:?}");
            found.truncate(1);
        }
        expect(&found, expected, text);
    }
}

#[test]
fn scripts_with_faults() {
    for (text, expected) in [
        ("echo $1", "is not in double quotes, so it becomes several arguments: write \"$1\""),
        ("echo ${1} \"$2\"", "$1 of the script has the value of {x} and is not in double quotes"),
        ("eval \"echo \\\"$1\\\"\"", "eval in the script"),
        ("echo \"$3\"", "$3 of the script has no value: 2 values after \"sh\""),
        ("sh -c \"echo $1\"", "a part of the code that sh in the script runs"),
        ("sed \"s/$1/x/\" file", "a part of the code that sed in the script runs"),
        ("awk -v w=\"$1\" '{ print $1, w, $9 }'", ""),
        ("timeout 5 ssh -- host ls \"$1\"", "a shell on another machine"),
        ("ssh -- host ls \"$1\"", "code that a shell on another machine in the script runs"),
        ("f() { echo \"$1\"; }; f a", ""),
        ("((((`$(\"${'", ""),
    ] {
        let found: Vec<String> =
            script(text).into_iter().filter(|w| !w.contains("be read as an option")).collect();
        expect(&found, expected, text);
    }
    let found = warnings(&["/bin/sh", "-c", "ls -- \"$1\"", "{x}"]);
    expect(&found, "{x} becomes $0 of the script: put \"sh\" before it", "$0");
    expect(&warnings(&["bash", "-c", "rm \"$@\"", "sh", "{list...}"]), "\"$@\" of the script", "list");
    expect(&warnings(&["bash", "-c", "rm -- \"$@\" \"$7\"", "sh", "{list...}"]), "", "list");
    expect(&warnings(&["sh", "-c", "head -n $1 $2 f", "sh", "{w}", "{w}"]), "", "plain");
    expect(&warnings(&["sh", "-c", "kill \"$1\"", "sh", "{n}"]), "read as an option by kill", "number");
}
