//! Tests of argument templates.
#![allow(clippy::unwrap_used)]
use super::*;
use tinymcp::json::{Doc, Writer};

fn properties() -> Properties {
    let names = [("bed", true), ("note", false), ("tags", false), ("a b", true), ("c:d", false)];
    Properties {
        names: names.map(|(name, always)| (name.to_owned(), always)).to_vec(),
        ..Properties::default()
    }
}

fn expand(elements: &[&str], arguments: &str) -> Result<Vec<String>, String> {
    let argv = Argv::parse(elements, &properties()).map_err(|(at, message)| format!("{at}: {message}"))?;
    let arguments = Doc::parse(arguments).unwrap();
    let argv = argv.expand(arguments.root())?;
    Ok(argv.into_iter().map(|argument| argument.into_string().unwrap()).collect())
}

#[test]
fn expansion() {
    let all = r#"{"bed": 3, "note": "a  'b'\n$(rm)", "tags": ["x", 1, {"y": [true]}, ""], "a b": "é"}"#;
    let table: [(&[&str], &str, &[&str]); 25] = [
        (&["p", "--bed", "{bed}"], all, &["p", "--bed", "3"]),
        (&["p", "--bed={bed}!{bed}"], all, &["p", "--bed=3!3"]),
        (&["p", "<{?note}>"], all, &["p", "<a  'b'\n$(rm)>"]),
        (&["p", "<{?note}>", "{?note}", "{?bed}"], r#"{"bed": 3}"#, &["p", "3"]),
        (&["p", "{?note} of {bed}", "x"], r#"{"bed": 3}"#, &["p", "x"]),
        (&["p", "{tags...}"], all, &["p", "x", "1", r#"{"y": [true]}"#, ""]),
        (&["p", "-t={tags...};"], all, &["p", "-t=x;", "-t=1;", r#"-t={"y": [true]};"#, "-t=;"]),
        (&["p", "{tags...}"], r#"{"tags": []}"#, &["p"]),
        (&["p", "{tags...}"], "{}", &["p"]),
        (&["p", "{bed}"], r#"{"bed": ""}"#, &["p", ""]),
        (&["p", "{bed}"], r#"{"bed": "-rf"}"#, &["p", "-rf"]),
        (&["p", "{bed}"], r#"{"bed": null}"#, &["p", "null"]),
        (&["p", "{bed}"], r#"{"bed": [1, "a"]}"#, &["p", r#"[1, "a"]"#]),
        (&["p", "{?note:--all}", "x{?note: y}"], r#"{"note": true}"#, &["p", "--all", "x y"]),
        (&["p", "{?note:--all}"], r#"{"note": false}"#, &["p"]),
        (&["p", "{?note:--all}"], r#"{"note": "true"}"#, &["p"]),
        (&["p", "{?note::}", "{?c:d}"], r#"{"note": true, "c:d": 1}"#, &["p", ":", "1"]),
        (&["p", "", "{{bed}}", "}}{{", "{{{bed}}}"], all, &["p", "", "{bed}", "}{", "{3}"]),
        (&["{{p", "{a b}"], all, &["{p", "é"]),
        (&["p", "{bed}"], r#"{"bed": 1.50e2}"#, &["p", "150"]),
        (&["p", "{bed}"], r#"{"bed": -0}"#, &["p", "0"]),
        (&["p", "{bed}"], r#"{"bed": -0.0e5}"#, &["p", "0"]),
        (
            &["p", "{tags...}"],
            r#"{"tags": [8.0, -1e0, 1.5, 1e-7, 0]}"#,
            &["p", "8", "-1", "1.5", "1e-7", "0"],
        ),
        (&["p", "{bed}"], r#"{"bed": 9007199254740993}"#, &["p", "9007199254740993"]),
        (&["p", "{bed}"], r#"{"bed": 9007199254740991}"#, &["p", "9007199254740991"]),
    ];
    for (elements, arguments, expected) in table {
        assert_eq!(expand(elements, arguments).unwrap(), expected, "{elements:?} {arguments}");
    }
}

#[test]
fn errors() {
    let table: [(&[&str], &str, &str); 19] = [
        (&[], "{}", "0: the command line must not be empty: expected a program"),
        (&[""], "{}", "0: the program must not be empty"),
        (&["{bed}"], "{}", "0: the program must not have placeholders; write `{{` for a literal brace"),
        (
            &["p", "{ bed}"],
            "{}",
            "1: unknown placeholder `{ bed}`: did you mean `{bed}`?; write `{{ bed}}` for literal braces",
        ),
        (
            &["p", "x", "{bde}"],
            "{}",
            "2: unknown placeholder `{bde}`: expected one of `{bed}`, `{note}`, \
         `{tags}`, `{a b}`, `{c:d}`; write `{{bde}}` for literal braces",
        ),
        (
            &["p", "{note}"],
            "{}",
            "1: `note` is optional: write `{?note}`, which drops the element or text if it \
         is absent",
        ),
        (&["p", "{bed"], "{}", "1: unbalanced `{`: write `{{` for a literal brace"),
        (&["p", "{bed{note}}"], "{}", "1: unbalanced `{`: write `{{` for a literal brace"),
        (&["p", "bed}"], "{}", "1: unbalanced `}`: write `}}` for a literal brace"),
        (&["p", "{}"], "{}", "1: `{}` has no name; write `{{` and `}}` for literal braces"),
        (&["p", "{?}"], "{}", "1: `{?}` has no name; write `{{` and `}}` for literal braces"),
        (&["p", "{?tags...}"], "{}", "1: write `{tags...}` without `?`: an absent array gives no argument"),
        (&["p", "{?note:}"], "{}", "1: `{?note:}` has no text after the colon, such as `{?note:--all}`"),
        (
            &["p", "{?nte:--all}"],
            "{}",
            "1: unknown placeholder `{?nte:--all}`: did you mean `{note}`?; write `{{?nte:--all}}` for literal braces",
        ),
        (&["p", "{bed}{tags...}{bed}"], "{}", "1: `...` must be the only placeholder of its element"),
        (&["p", "a\0"], "{}", "1: an argument must not contain a NUL character"),
        (&["p", "{bed}"], r#"{"bed": "a\u0000"}"#, "argument `bed` must not contain a NUL character"),
        (&["p", "{tags...}"], r#"{"tags": "x"}"#, "argument `tags` must be an array"),
        (&["p", "{bed}"], "{}", "missing argument `bed`"),
    ];
    for (elements, arguments, expected) in table {
        assert_eq!(expand(elements, arguments).unwrap_err(), expected, "{elements:?}");
    }
    let none = Properties::default();
    let message = Argv::parse(&["p", "{x}"], &none).unwrap_err().1;
    assert_eq!(
        message,
        "unknown placeholder `{x}`: there are no arguments; write `{{x}}` for literal braces"
    );
    let open = Properties { open: true, ..none };
    assert!(Argv::parse(&["p", "{?x}", "{y...}"], &open).is_ok());
    assert!(Argv::parse(&["p", "{x}"], &open).unwrap_err().1.contains("`x` is optional"));
    let unknown = Properties { is_unknown: true, ..Properties::default() };
    assert!(Argv::parse(&["p", "{x}", "{?x}"], &unknown).is_ok());
    let message = Text::parse("a {?note:b}", &properties()).unwrap_err();
    assert_eq!(message, "`{?note:TEXT}` is allowed in command lines only");
    let message = Text::parse("a {tags...}", &properties()).unwrap_err();
    assert_eq!(message, "`{tags...}` is allowed in command lines only: write `{?tags}`");
}

#[test]
fn parts_for_checks() {
    let elements = ["p{{", "-v", "{bed}", "x{?note}", "{tags...}", "--", "{a b}"];
    let argv = Argv::parse(&elements, &properties()).unwrap();
    assert_eq!(argv.program(), "p{");
    assert_eq!(argv.literals().collect::<Vec<_>>(), [(1, "-v"), (5, "--")]);
    let leading: Vec<_> = argv.elements().iter().map(Text::leading_name).collect();
    assert_eq!(leading, [None, None, Some("bed"), None, Some("tags"), None, Some("a b")]);
    let literal: Vec<_> = argv.elements().iter().map(Text::literal).collect();
    assert_eq!(literal, [Some("p{"), Some("-v"), None, None, None, Some("--"), None]);
    let text = Text::parse("/log/{bed}/{?note}", &properties()).unwrap();
    assert_eq!(text.leading_literal(), "/log/");
    let arguments = Doc::parse(r#"{"bed": "3"}"#).unwrap();
    assert_eq!(text.expand(arguments.root()), None);
    assert_eq!(text.fill(arguments.root()), "/log/3/");
    let arguments = Doc::parse(r#"{"bed": "3\n\n4"}"#).unwrap();
    assert_eq!(text.fill(arguments.root()), "/log/3\u{fffd}\u{fffd}4/");
}

/// Expands an element from the pieces that it was composed of, without parsing it.
fn naive(pieces: &[&str], arguments: Value<'_>) -> Vec<String> {
    let text = |value: Value<'_>| match value.kind() {
        Kind::String => value.as_str().unwrap().to_owned(),
        _ => value.raw().to_owned(),
    };
    let mut variants = vec![Some(String::new())];
    for piece in pieces {
        let inserted: Vec<Option<String>> = match *piece {
            "{{" => vec![Some("{".to_owned())],
            "}}" => vec![Some("}".to_owned())],
            "{tags...}" => {
                let tags = arguments.members().find(|(name, _)| *name == "tags");
                tags.map_or(Vec::new(), |(_, tags)| tags.items().map(|item| Some(text(item))).collect())
            }
            placeholder if placeholder.starts_with('{') => {
                let name = placeholder.trim_matches(['{', '}', '?']);
                vec![arguments.members().find(|(known, _)| *known == name).map(|(_, value)| text(value))]
            }
            literal => vec![Some(literal.to_owned())],
        };
        variants = inserted
            .iter()
            .flat_map(|text| variants.iter().map(move |before| Some(before.clone()? + text.as_ref()?)))
            .collect();
    }
    variants.into_iter().flatten().collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    fn string(&mut self) -> String {
        let pieces =
            ["", "{bed}", "{", "}}", "-rf", "$(id)", "`", "'", "\"", "\n", " ", "é", "😀", "\\", "x"];
        (0..self.below(6)).map(|_| self.pick(&pieces)).collect()
    }

    fn value(&mut self, w: &mut Writer) {
        match self.below(6) {
            0 => w.raw(self.pick(&["0", "-1.50", "1e400", "true", "null"])),
            1 => w.begin_object().key("k{}").string(&self.string()).end_object(),
            2 => w.raw("[ 1, \"{note}\" ]"),
            _ => w.string(&self.string()),
        };
    }

    fn arguments(&mut self) -> Doc {
        let mut w = Writer::new();
        w.begin_object();
        for (name, always) in properties().names {
            if !always && self.below(2) == 0 {
                continue;
            }
            w.key(&name);
            if name == "tags" {
                w.begin_array();
                for _ in 0..self.below(4) {
                    self.value(&mut w);
                }
                w.end_array();
            } else {
                self.value(&mut w);
            }
        }
        w.end_object();
        Doc::parse(w.as_str()).unwrap()
    }

    fn element(&mut self) -> Vec<&'static str> {
        let literals = ["", "--x=", "{{", "}}", "é", " ", "\\", "$bed"];
        let placeholders = ["{bed}", "{?note}", "{a b}", "{?bed}", "{?tags}"];
        if self.below(4) == 0 {
            return vec![self.pick(&literals), "{tags...}", self.pick(&literals)];
        }
        let piece = |random: &mut Random| match random.below(2) {
            0 => random.pick(&literals),
            _ => random.pick(&placeholders),
        };
        (0..self.below(5)).map(|_| piece(self)).collect()
    }
}

#[test]
fn random_templates_match_naive_expansion() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..20_000 {
        let elements: Vec<_> = (0..1 + random.below(4)).map(|_| random.element()).collect();
        let mut texts = vec!["program".to_owned()];
        texts.extend(elements.iter().map(|pieces| pieces.concat()));
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let argv = Argv::parse(&texts, &properties()).unwrap();
        let arguments = random.arguments();
        let mut expected = vec!["program".to_owned()];
        expected.extend(elements.iter().flat_map(|pieces| naive(pieces, arguments.root())));
        let got: Vec<String> =
            argv.expand(arguments.root()).unwrap().into_iter().map(|a| a.into_string().unwrap()).collect();
        assert_eq!(got, expected, "round {round}: {texts:?} {}", arguments.text());
    }
}
