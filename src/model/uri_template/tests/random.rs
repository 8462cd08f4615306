//! Templates: seeded random texts against an oracle that only expands, and bounds on work.

use super::super::matcher::Search;
use super::{UriTemplate, expand, pairs, template};

/// Deterministic numbers (SplitMix64); a failure names the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn text(&mut self, alphabet: &[&str], longest: usize) -> String {
        let length = self.below(longest + 1);
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

/// Tries all values; of those that expand to the URI, returns the leftmost-greedy ones.
fn oracle(template: &UriTemplate, exprs: &[(char, Vec<&str>)], uri: &str) -> Option<Vec<Option<String>>> {
    let mut choices: Vec<Option<&str>> = vec![None, Some("")];
    for from in 0..uri.len() {
        choices.extend((from + 1..=uri.len()).map(|to| Some(&uri[from..to])));
    }
    choices.sort();
    choices.dedup();
    let names: Vec<&str> = template.variables().collect();
    let mut best: Option<(Vec<isize>, Vec<Option<String>>)> = None;
    for number in 0..choices.len().pow(names.len() as u32) {
        let pick = |i: usize| choices[number / choices.len().pow(i as u32) % choices.len()];
        let value = |name: &str| pick(names.iter().position(|n| *n == name).unwrap());
        let canonical = exprs.iter().all(|(op, vars)| {
            let named = ";?&".contains(*op);
            let bare = " +".contains(*op);
            let gap = vars.windows(2).any(|w| value(w[0]).is_none() && value(w[1]).is_some());
            let defined: Vec<&str> = vars.iter().filter_map(|v| value(v)).collect();
            (named || !gap) && !(bare && defined == [""])
        });
        if !canonical || template.expand(value) != uri {
            continue;
        }
        let values: Vec<Option<&str>> = (0..names.len()).map(pick).collect();
        let length = |v: &Option<&str>| v.map_or(-1, |v| v.len() as isize);
        let rank: Vec<isize> = values.iter().map(length).collect();
        if best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
            best = Some((rank, values.iter().map(|v| v.map(str::to_owned)).collect()));
        }
    }
    best.map(|(_, values)| values)
}

#[test]
fn matching_is_the_inverse_of_expansion() {
    let mut dice = Random(6570);
    let mut matched = 0;
    for round in 0..400 {
        let mut unused = vec!["x", "y", "z"];
        let mut exprs: Vec<(char, Vec<&str>)> = Vec::new();
        let mut text = String::new();
        while !unused.is_empty() {
            text += &dice.text(&["a", "/", ".", ","], 1);
            let op = [' ', '+', '#', '.', '/', ';', '?', '&'][dice.below(8)];
            // The oracle tries one order of parameters only, so an expression with names gets one
            // parameter.
            let most = if ";?&".contains(op) { 1 } else { unused.len() };
            let vars: Vec<&str> = unused.drain(..1 + dice.below(most)).collect();
            text += &format!("{{{}{}}}", op.to_string().trim(), vars.join(","));
            exprs.push((op, vars));
            if dice.below(3) == 0 {
                break;
            }
        }
        let template = template(&text);
        let alphabet = ["a", "x", "y", ".", ",", "/", "?", "#", ";", "=", "&"];
        let uri = if dice.below(4) == 0 {
            dice.text(&alphabet, 5)
        } else {
            let values: Vec<String> = (0..3).map(|_| dice.text(&alphabet[..6], 2)).collect();
            let defined = dice.below(8);
            template.expand(|name| {
                let i = ["x", "y", "z"].iter().position(|n| *n == name)?;
                (defined >> i & 1 == 1).then_some(&*values[i])
            })
        };
        if uri.len() > 6 || uri.contains('%') {
            continue;
        }
        let expected = oracle(&template, &exprs, &uri);
        let found = template.matches(&uri).map(|found| {
            let value = |name| found.get(name).map(str::to_owned);
            template.variables().map(value).collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "round {round}: {text} on {uri}");
        matched += usize::from(expected.is_some());
    }
    assert!(matched > 100, "{matched}");
}

#[test]
fn a_repeated_variable_never_accepts_what_expansion_cannot_give() {
    let mut dice = Random(2);
    let mut matched = 0;
    for round in 0..4000 {
        let mut text = String::new();
        for _ in 0..2 + dice.below(2) {
            text += &dice.text(&["a", "/", ".", ","], 1);
            let op = ["", "+", "#", ".", "/", ";", "?", "&"][dice.below(8)];
            let vars = if ";?&".contains(op) && !op.is_empty() {
                ["x", "y"][dice.below(2)]
            } else {
                ["x", "y", "x,y", "y,x", "x,x"][dice.below(5)]
            };
            text += &format!("{{{op}{vars}}}");
        }
        let template = template(&text);
        let alphabet = ["a", "x", ".", ",", "/", "?", "#", ";", "=", "&"];
        let uri = if dice.below(4) == 0 {
            dice.text(&alphabet, 6)
        } else {
            let values = [dice.text(&["a", "."], 1), dice.text(&["a", "."], 1)];
            let defined = dice.below(4);
            template.expand(|name| {
                let i = usize::from(name == "y");
                (defined >> i & 1 == 1).then_some(&*values[i])
            })
        };
        if let Some(found) = template.matches(&uri) {
            assert_eq!(expand(&template, &pairs(&found)), uri, "round {round}: {text}");
            matched += 1;
        }
    }
    assert!(matched > 1000, "{matched}");
}

#[test]
fn unambiguous_templates_give_back_what_was_put_in() {
    let mut dice = Random(1);
    let any = [
        "a", "Z", "7", "-", ".", "_", "~", "/", "?", "#", "%", "%41", " ", "\u{0}", "é", "🦀", "&", "=", "+",
        ",",
    ];
    let no_percent = ["a", "/", "?", "#", " ", "\u{0}", "é", "🦀", "&", "=", "+", ","];
    for (text, optional) in [
        ("db://{a}/{b}{/c}{?d,e}{#g}", "cdeg"),
        ("{a}/{b}{;c,d}{/e}", "cde"),
        ("x:{a,b}?k{&c,d,e}{#g}", "cdeg"),
        ("{+g}", ""),
    ] {
        let template = template(text);
        for round in 0..300 {
            let mut put: Vec<(&str, String)> = Vec::new();
            for name in template.variables() {
                let needed = !optional.contains(name);
                if !needed && dice.below(2) == 0 {
                    continue;
                }
                let alphabet: &[&str] = if name == "g" { &no_percent } else { &any };
                let mut value = dice.text(alphabet, 6);
                if needed && value.is_empty() {
                    value.push('0');
                }
                put.push((name, value));
            }
            let put: Vec<(&str, &str)> = put.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let uri = expand(&template, &put);
            let found = template.matches(&uri);
            let found = found.as_ref().map(pairs);
            assert_eq!(found, Some(put), "round {round}: {text} on {uri}");
        }
    }
}

#[test]
fn arbitrary_text_never_panics() {
    let mut dice = Random(3);
    let pieces = [
        "{", "}", "{+", "{?", "{;x,", "x}", "x", "y", "é", ":", "*", ",", "%", "%C3", "%A9", "%f0", "4", "=",
        "&", ";", "?", "#", "/", ".", " ", "{x}", "{?x,y}", "{&y}", "{;x}", "{#x,y}",
    ];
    let mut parsed = 0;
    for _ in 0..40_000 {
        let text = dice.text(&pieces, 5);
        let uri = dice.text(&pieces, 8);
        match UriTemplate::parse(&text) {
            Ok(template) => {
                let _ = template.matches(&uri);
                let written = template.expand(|_| Some(&uri));
                assert!(written.is_ascii(), "{text} with {uri}: {written}");
                parsed += 1;
            }
            Err(error) => assert!(text.is_char_boundary(error.offset), "{text}: {error}"),
        }
    }
    assert!(parsed > 1000, "{parsed}");
}

#[test]
fn work_is_bounded_by_template_times_uri() {
    let name = |i: usize| "a".repeat(i % 8 + 1) + &i.to_string();
    let names = (0..32).map(name).collect::<Vec<_>>();
    let many = names.join(",");
    let each = |op: &str, after: &str| {
        let one = |n: &String| format!("{{{op}{n}}}{after}");
        names.iter().map(one).collect::<String>()
    };
    let parameters = |mark: &str, value: &str| {
        let one = |n: &String| format!("{mark}{n}{value}");
        names.iter().map(one).collect::<String>()
    };
    let templates = [
        each("+", ""),
        each("", "."),
        each(".", ""),
        each("?", ""),
        each("&", "aab"),
        each("", "aaaaaaaaaaaaaaab"),
        format!("{{{many}}}"),
        format!("{{+{many}}}!"),
        format!("{{.{many}}}{{+z}}").replacen(",aaaaaaaa31", "", 1),
        format!("{{;{many}}}"),
        format!("{{?{many}}}"),
        format!("{{&{many}}}"),
    ];
    let fillings = [
        "a".to_owned(),
        ".".to_owned(),
        ",".to_owned(),
        "?".to_owned(),
        ";a;aa".to_owned(),
        "%F0%9F%A6%80".to_owned(),
        "%".to_owned(),
        parameters("&", "="),
        parameters(";", ""),
        parameters("?", "=a"),
        parameters("&", "=aaaa"),
    ];
    for text in &templates {
        let template = template(text);
        for filling in &fillings {
            let uri = filling.repeat(2048 / filling.len() + 1);
            let mut search = Search::new(&template.parts, &template.names, uri.as_bytes());
            search.find();
            let steps = search.steps.get();
            let most = 2 * (text.len() + 1) * (uri.len() + 1);
            assert!(steps <= most, "{text} on {filling}…: {steps} steps, {most} allowed");
        }
    }
    // Beyond the limit of `matches`, the search itself keeps its bound.
    let template = template(&templates[0]);
    let uri = "a".repeat(64 * 1024);
    assert!(template.matches(&uri).is_none());
    let mut search = Search::new(&template.parts, &template.names, uri.as_bytes());
    assert!(search.find());
    // Two rows to each expression, and each position of the first value.
    assert!(search.steps.get() <= uri.len() + 4 * 65, "{}", search.steps.get());
}
