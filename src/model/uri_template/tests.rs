//! Templates: grammar, expansion and matching, as tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use super::{TemplateErrorKind, UriTemplate, Variables};

fn template(text: &str) -> UriTemplate {
    UriTemplate::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn expand(template: &UriTemplate, values: &[(&str, &str)]) -> String {
    let value = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    template.expand(value)
}

fn pairs(variables: &Variables) -> Vec<(&str, &str)> {
    variables.iter().collect()
}

/// The variables in the order of the template, as one line: `a=1 b=2`.
fn read(text: &str, uri: &str) -> Option<String> {
    let found = template(text).matches(uri)?;
    let line = pairs(&found).iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>();
    Some(line.join(" "))
}

/// The variables of RFC 6570 section 3.2 that are strings; `undef` and `bar` are undefined.
const RFC: &[(&str, &str)] = &[
    ("var", "value"),
    ("hello", "Hello World!"),
    ("half", "50%"),
    ("who", "fred"),
    ("dub", "me/too"),
    ("base", "http://example.com/home/"),
    ("path", "/foo/bar"),
    ("v", "6"),
    ("x", "1024"),
    ("y", "768"),
    ("empty", ""),
];

/// Examples of RFC 6570 (sections 1.2 and 3.2) for levels 1 to 3: `template expansion` per line.
const EXAMPLES: &str = "
{var} value
{hello} Hello%20World%21
{half} 50%25
{base}index http%3A%2F%2Fexample.com%2Fhome%2Findex
O{empty}X OX
O{undef}X OX
{x,y} 1024,768
map?{x,y} map?1024,768
{x,hello,y} 1024,Hello%20World%21,768
?{x,empty} ?1024,
?{x,undef} ?1024
?{undef,y} ?768
{+var} value
{+hello} Hello%20World!
{+half} 50%25
{+base}index http://example.com/home/index
O{+empty}X OX
O{+undef}X OX
{+path}/here /foo/bar/here
here?ref={+path} here?ref=/foo/bar
up{+path}{var}/here up/foo/barvalue/here
{+x,hello,y} 1024,Hello%20World!,768
{+path,x}/here /foo/bar,1024/here
{#var} #value
{#hello} #Hello%20World!
{#half} #50%25
X{#var} X#value
X{#hello} X#Hello%20World!
foo{#empty} foo#
foo{#undef} foo
{#x,hello,y} #1024,Hello%20World!,768
{#path,x}/here #/foo/bar,1024/here
{.who} .fred
{.who,who} .fred.fred
{.half,who} .50%25.fred
X{.var} X.value
X{.x,y} X.1024.768
X{.empty} X.
X{.undef} X
{/who} /fred
{/who,who} /fred/fred
{/half,who} /50%25/fred
{/who,dub} /fred/me%2Ftoo
{/var} /value
{/var,empty} /value/
{/var,undef} /value
{/var,x}/here /value/1024/here
{;who} ;who=fred
{;half} ;half=50%25
{;empty} ;empty
{;v,empty,who} ;v=6;empty;who=fred
{;v,bar,who} ;v=6;who=fred
{;x,y} ;x=1024;y=768
{;x,y,empty} ;x=1024;y=768;empty
{;x,y,undef} ;x=1024;y=768
{?who} ?who=fred
{?half} ?half=50%25
{?x,y} ?x=1024&y=768
{?x,y,empty} ?x=1024&y=768&empty=
{?x,y,undef} ?x=1024&y=768
{&who} &who=fred
{&half} &half=50%25
?fixed=yes{&x} ?fixed=yes&x=1024
{&x,y,empty} &x=1024&y=768&empty=
{&x,y,undef} &x=1024&y=768
'{var}' 'value'
";

#[test]
fn examples_of_the_rfc_expand_and_are_read_back() {
    let mut seen = 0;
    for line in EXAMPLES.lines().filter(|line| !line.is_empty()) {
        let (text, uri) = line.split_once(' ').unwrap();
        let template = template(text);
        assert_eq!(expand(&template, RFC), uri, "{text}");
        seen += 1;
        // The only example with a variable that occurs twice in an ambiguous template: the first
        // occurrence takes all text.
        if text == "{.who,who}" {
            assert!(template.matches(uri).is_none() && template.ambiguity().is_some());
            continue;
        }
        let found = template.matches(uri).unwrap_or_else(|| panic!("{text} on {uri}"));
        assert_eq!(expand(&template, &pairs(&found)), uri, "{text}: {found:?}");
    }
    assert_eq!(seen, 66);
}

#[test]
fn expansion_encodes_whatever_a_uri_cannot_hold() {
    for (text, value, uri) in [
        ("{x}", "é\u{0}\"", "%C3%A9%00%22"),
        ("{+x}", "é%C3%A9%zz%4", "%C3%A9%C3%A9%25zz%254"),
        ("{x}", "%41", "%2541"),
        ("caf\u{e9}/%c3{x}", "", "caf%C3%A9/%c3"),
        ("{?x}", "a&b=c+d", "?x=a%26b%3Dc%2Bd"),
        ("{x}", "-._~", "-._~"),
        ("{+x}", ":/?#[]@!$&'()*+,;=", ":/?#[]@!$&'()*+,;="),
    ] {
        assert_eq!(expand(&template(text), &[("x", value)]), uri, "{text}");
    }
}

#[test]
fn variables_come_once_in_order_of_appearance() {
    let template = template("{b}/{a,b}{?a.c,%41_1}");
    assert_eq!(template.variables().collect::<Vec<_>>(), ["b", "a", "a.c", "%41_1"]);
    assert_eq!(template.as_str(), "{b}/{a,b}{?a.c,%41_1}");
    assert_eq!(template.to_string(), template.as_str());
}

#[test]
fn invalid_templates_are_rejected_with_the_byte_offset() {
    use TemplateErrorKind::*;
    for (text, kind, offset) in [
        ("a{", Unclosed, 1),
        ("é{x", Unclosed, 2),
        ("{x}{", Unclosed, 3),
        ("a}", StrayClose, 1),
        ("{x}}", StrayClose, 3),
        ("{}", EmptyName, 1),
        ("{+}", EmptyName, 2),
        ("{x,}", EmptyName, 3),
        ("{x,,y}", EmptyName, 3),
        ("{?x,}", EmptyName, 4),
        ("{x{y}}", Name, 2),
        ("{ x}", Name, 1),
        ("{x }", Name, 2),
        ("{x-y}", Name, 2),
        ("{é}", Name, 1),
        ("{x.}", Name, 2),
        ("{..x}", Name, 2),
        ("{x..y}", Name, 3),
        ("{++x}", Name, 2),
        ("{?&x}", Name, 2),
        ("{$x}", Name, 1),
        ("{:3}", Name, 1),
        ("{*}", Name, 1),
        ("{=x}", ReservedOperator, 1),
        ("{,x}", ReservedOperator, 1),
        ("{!x}", ReservedOperator, 1),
        ("{@x}", ReservedOperator, 1),
        ("{|x}", ReservedOperator, 1),
        ("{x:3}", Modifier, 2),
        ("{x*}", Modifier, 2),
        ("{/x,list*}", Modifier, 8),
        ("{%41:3}", Modifier, 4),
        ("{%4}", Percent, 1),
        ("{x%}", Percent, 2),
        ("a%4", Percent, 1),
        ("%zz", Percent, 0),
        ("a b", Literal, 1),
        ("a\"", Literal, 1),
        ("<a>", Literal, 0),
        ("a\\b", Literal, 1),
        ("^", Literal, 0),
        ("`", Literal, 0),
        ("|", Literal, 0),
        ("a\nb", Literal, 1),
        ("a\u{0}", Literal, 1),
        ("a\u{7f}", Literal, 1),
        ("a\u{85}", Literal, 1),
        ("a\u{fdd0}", Literal, 1),
        ("a\u{1ffff}", Literal, 1),
    ] {
        let error = UriTemplate::parse(text).expect_err(text);
        assert_eq!((error.kind, error.offset), (kind, offset), "{text:?}");
        assert!(error.to_string().contains(&format!("byte {offset}:")), "{error}");
    }
    for text in ["", "a", "{x}", "{x.y}", "{_}", "{0}", "{.x.y}", "a'b", "\u{a0}\u{e000}\u{10000}"] {
        assert_eq!(UriTemplate::parse(text).map(|t| t.as_str().to_owned()).as_deref(), Ok(text));
    }
}

#[test]
fn bounds_hold_at_their_last_value_and_not_past_it() {
    let longest = "a".repeat(UriTemplate::MAX_LENGTH);
    assert!(UriTemplate::parse(&longest).is_ok());
    let error = UriTemplate::parse(&(longest + "a")).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::TooLong);
    assert!(error.to_string().contains(&UriTemplate::MAX_LENGTH.to_string()));

    let most = "{x,y}".repeat(UriTemplate::MAX_VARIABLES / 2);
    assert!(UriTemplate::parse(&most).is_ok());
    let error = UriTemplate::parse(&(most.clone() + "/{x}")).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::TooManyVariables);
    assert_eq!(error.offset, most.len() + 2);
    assert!(error.to_string().contains(&UriTemplate::MAX_VARIABLES.to_string()));

    let uri = "a".repeat(UriTemplate::MAX_URI);
    assert_eq!(template("{x}").matches(&uri).unwrap().get("x"), Some(&*uri));
    assert!(template("{x}").matches(&(uri + "a")).is_none());
}

#[test]
fn the_leftmost_variable_takes_the_longest_text() {
    for (text, uri, expected) in [
        // Plain literals, and characters that a value cannot contain.
        ("a/b", "a/b", Some("")),
        ("a/b", "a/bc", None),
        ("", "", Some("")),
        ("", "a", None),
        ("gpio://pin/{n}", "gpio://pin/7", Some("n=7")),
        ("gpio://pin/{n}", "gpio://pin/", Some("")),
        ("gpio://pin/{n}", "gpio://pin/7/8", None),
        ("gpio://pin/{n}", "gpio://pi", None),
        ("gpio://pin/{n}", "GPIO://pin/7", None),
        ("{x}", "a+b", None),
        ("{x}", "a b", None),
        ("{x}", "é", None),
        ("{+x}", "é", None),
        ("{+x}", "a/b?c#d[e]", Some("x=a/b?c#d[e]")),
        ("{+x}", "a|b", None),
        // Percent-encoding.
        ("{x}", "%C3%A9%41%2f", Some("x=éA/")),
        ("{x}", "..%2F..%2Fetc", Some("x=../../etc")),
        ("{x}", "a%00b", Some("x=a\u{0}b")),
        ("{x}", "%", None),
        ("{x}", "%4", None),
        ("{x}", "%4g", None),
        ("{x}", "%C3", None),
        ("{x}", "%A9", None),
        ("{x}", "%C0%80", None),
        ("{x}", "%ED%A0%80", None),
        ("{x}", "%F4%90%80%80", None),
        ("{x}", "%F0%9F%A6%80", Some("x=🦀")),
        ("{x}{y}", "%C3%A9", Some("x=é")),
        ("{+x}", "%2F%25", Some("x=/%")),
        ("é%c3{x}", "%c3%a9%C3a", Some("x=a")),
        ("é%c3{x}", "%c3%a9%C3%A9", None),
        ("%4aa", "%4AA", None),
        // Lists.
        ("{x,y}", "1,2", Some("x=1 y=2")),
        ("{x,y}", "1", Some("x=1")),
        ("{x,y}", ",2", Some("x= y=2")),
        ("{x,y}", ",", Some("x= y=")),
        ("{x,y}", "1,2,3", None),
        ("{+x,y}", "1,2,3", Some("x=1,2,3")),
        ("{#x,y}", "#1", Some("x=1")),
        ("{#x,y}", "1", None),
        ("{/x,y}", "/1/2", Some("x=1 y=2")),
        ("{/x,y}", "/1/", Some("x=1 y=")),
        ("{/x,y}", "", Some("")),
        ("{/x,y}", "/1/2/3", None),
        ("{.x,y}", ".1.2.3", Some("x=1.2.3")),
        // A literal that a value may contain.
        ("{name}.{ext}", "a.tar.gz", Some("name=a.tar ext=gz")),
        ("{name}.{ext}", "a", None),
        ("{a}.{b}.{c}", "1.2.3.4", Some("a=1.2 b=3 c=4")),
        ("{a}.{b}.{c}", "1.%2e.%C3%A9.4", Some("a=1.. b=é c=4")),
        ("{a}%C3%A9{b}x", "é%C3%A9x", None),
        ("{a}%C3%A9{b}x", "1%C3%A9%C3%A9%C3%A9x", Some("a=1éé")),
        ("{x}.json", "a.json.json", Some("x=a.json")),
        ("{+path}/{name}", "a/b/c", Some("path=a/b name=c")),
        ("{a}/{+b}", "1/2/3", Some("a=1 b=2/3")),
        // Ambiguous templates.
        ("{a}{b}", "xyz", Some("a=xyz")),
        ("{a}{b}", "x", Some("a=x")),
        ("{name}{.ext}", "a.tar.gz", Some("name=a.tar.gz")),
        ("{name}{.ext}", "a", Some("name=a")),
        ("{+path}{?line}", "a/b?line=3", Some("path=a/b?line=3")),
        ("{+path}{?line}", "a/b?lime=3", Some("path=a/b?lime=3")),
        ("{+path}{#at}", "a#b#c", Some("path=a#b#c")),
        ("{+a}{?x}", "?x=1&x=2", Some("a=?x=1&x=2")),
        ("{?x}{+a}", "?x=1&x=2", Some("x=1 a=&x=2")),
        // Parameters with names.
        ("s{?x,y}", "s", Some("")),
        ("s{?x,y}", "s?y=2", Some("y=2")),
        ("s{?x,y}", "s?y=2&x=1", Some("x=1 y=2")),
        ("s{?x,y}", "s?x=&y=", Some("x= y=")),
        ("s{?x,y}", "s?x", None),
        ("s{?x,y}", "s?", None),
        ("s{?x,y}", "s?x=1&", None),
        ("s{?x,y}", "s?x=1&z=2", None),
        ("s{?x,y}", "s?x=1&x=1", None),
        ("s{?x,y}", "s?x=1;y=2", None),
        ("s{?x,y}", "s?x=1/&y=2", None),
        ("s{?x,y}", "s?x=1?y=2", None),
        ("s{?x,y}", "s?x=1+2", None),
        ("s{?x,y}", "s&x=1", None),
        ("s{?x}{&y}", "s&y=2", Some("y=2")),
        ("s{?x}{&y}", "s?x=1&y=2", Some("x=1 y=2")),
        ("s?k=v{&x,y}", "s?k=v&y=2&x=1", Some("x=1 y=2")),
        ("s{?x}.json", "s?x=1.json", Some("x=1")),
        ("{?x,xy}", "?xy=1&x=2", Some("x=2 xy=1")),
        ("{?%41}", "?%41=1", Some("%41=1")),
        ("{;x,y}", ";y;x=1", Some("x=1 y=")),
        ("{;x,y}", ";x=", None),
        ("{;x,xy}", ";xy", Some("xy=")),
        ("{;x,y}", ";x=;y=1", None),
        ("{;x,y}", ";xz;y=1", None),
        ("{;x}y", ";xy", Some("x=")),
        ("{;x}.json", ";x.json", Some("x=")),
        // One variable at several places.
        ("{x}/{x}", "a/a", Some("x=a")),
        ("{x}/{x}", "a/b", None),
        ("{x}/{x}", "a/", None),
        ("{x}/{x}", "/", Some("")),
        ("{x}/{x}", "/a", None),
        ("{x}{?x}", "?x=", Some("x=")),
        ("{?x}/{x}", "?x=/", Some("x=")),
        ("{x}{?x}", "", Some("")),
        ("{.x}/{x}", "/", Some("")),
        ("{x}{?x}", "a?x=%61", Some("x=a")),
        ("{x,x}", "a", None),
        ("{.x}{/x}", ".", None),
        ("{?x,x}", "?x=1&x=1", Some("x=1")),
        ("{?x,x}", "?x=1", None),
    ] {
        assert_eq!(read(text, uri).as_deref(), expected, "{text} on {uri}");
    }
}

#[test]
fn a_template_is_ambiguous_if_two_variables_touch() {
    for (text, reason) in [
        ("x:{a}{b}", "no literal is between {a} and {b}"),
        ("x:{a,b}{+c}", "no literal is between {a,b} and {+c}"),
        ("x:{a}{/b}{c}", "no literal is between {a} and {c}"),
        ("x:{/a}{b}", "no literal is between {/a} and {b}"),
        ("x:{?a}{b}", "no literal is between {?a} and {b}"),
        ("{name}{.ext}", "no literal is between {name} and {.ext}, and a value of {name} may contain '.'"),
        ("{;p}{.ext}", "no literal is between {;p} and {.ext}, and a value of {;p} may contain '.'"),
        (
            "{+path}{?line}",
            "no literal is between {+path} and {?line}, and a value of {+path} may contain '?'",
        ),
        ("{#x}{#y}", "no literal is between {#x} and {#y}, and a value of {#x} may contain '#'"),
        ("{+x,y}", "a value of {+x,y} may contain ',', which separates its variables"),
        ("{#x,y}", "a value of {#x,y} may contain ',', which separates its variables"),
        ("{.x,y}", "a value of {.x,y} may contain '.', which separates its variables"),
    ] {
        assert_eq!(template(text).ambiguity().as_deref(), Some(reason), "{text}");
    }
    for text in [
        "",
        "a",
        "{a}",
        "{+a}",
        "{a,b}",
        "{/a,b}",
        "{;a,b}",
        "{?a,b}",
        "{&a,b}",
        "{a}/{b}",
        "{+a}/{+b}",
        "{a}.{b}",
        "{dir}{/file}{?line}",
        "{a}{/b}{;c}{?d}{&e}{#f}",
        "{a}{/b,c}{?d,e}{#f}",
        "{/a}{/b}",
        "{.a}{/b}",
        "{a}x{b}",
    ] {
        assert_eq!(template(text).ambiguity(), None, "{text}");
    }
}
