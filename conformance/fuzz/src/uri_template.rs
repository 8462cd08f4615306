//! URI templates: values that a template matches expand to the same URI again, and an unambiguous template gives back
//! the values that it was expanded with.

use std::collections::BTreeSet;

use tinymcp::{UriTemplate, Variables, fuzzing};

use crate::input::Input;

pub fn run(bytes: &[u8]) {
    if bytes.len() > 512 {
        return;
    }
    let mut input = Input(bytes);
    let (Some(template), Some(uri)) = (input.line(), input.line()) else { return };
    let Ok(template) = UriTemplate::parse(template) else { return };
    let again = UriTemplate::parse(template.as_str()).expect("a template is its own text");
    assert_eq!(again, template);
    stable(&template, uri);
    let values: Vec<&str> = uri.split('|').collect();
    let names: Vec<&str> = template.variables().collect();
    let expanded = template.expand(|name| {
        let at = names.iter().position(|known| *known == name)?;
        values.get(at).copied().filter(|value| *value != "-")
    });
    stable(&template, &expanded);
    exact(&template, &values);
}

/// All variables are defined, and no value can contain a literal: the values come back.
fn exact(template: &UriTemplate, values: &[&str]) {
    let mut inside = false;
    let sharp = template.as_str().chars().all(|c| {
        inside = c == '{' || inside && c != '}';
        inside || "}:@!$'()*".contains(c)
    });
    let reserved = template.as_str().contains("{+") || template.as_str().contains("{#");
    if !sharp || reserved || fuzzing::is_ambiguous(template) {
        return;
    }
    let names: Vec<&str> = template.variables().collect();
    let value = |n: usize| values.get(n).copied().filter(|value| !value.is_empty()).unwrap_or("v");
    let put: Vec<(&str, &str)> = names.iter().enumerate().map(|(n, name)| (*name, value(n))).collect();
    let uri = template.expand(|name| put.iter().find(|(known, _)| *known == name).map(|(_, value)| *value));
    if uri.len() <= UriTemplate::MAX_URI {
        let found = template.matches(&uri);
        let found: Option<Vec<(&str, &str)>> = found.as_ref().map(|found| found.iter().collect());
        assert_eq!(found, Some(put), "{uri}");
    }
}

/// Values are decoded, so they may expand to another URI; the values of that one expand to it again. Reserved expansion
/// copies percent-encoded characters of a value, which another round decodes or rejects. A decoded value may contain a
/// literal or touch another variable; then two occurrences of a variable may differ.
fn stable(template: &UriTemplate, uri: &str) {
    let Some(found) = template.matches(uri) else { return };
    let expanded = expand(template, &found);
    let second = template.matches(&expanded);
    if !template.as_str().contains("{+") && !template.as_str().contains("{#") && !repeats(template) {
        let second = second.unwrap_or_else(|| panic!("{expanded} of {found:?} is no match"));
        assert_eq!(expand(template, &second), expanded, "{found:?} and {second:?}");
    }
}

fn expand(template: &UriTemplate, found: &Variables) -> String {
    template.expand(|name| found.get(name))
}

/// A variable may occur twice.
fn repeats(template: &UriTemplate) -> bool {
    let mut seen = BTreeSet::new();
    let expressions = template.as_str().split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let mut names = expressions.flat_map(|e| e.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','));
    !names.all(|name| seen.insert(name))
}
