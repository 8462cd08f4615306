//! URI templates: what a template matches, it expands to again.

use tinymcp::{UriTemplate, Variables};

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
}

/// Values are decoded, so another URI may come of them; the values in that one make the same URI again. Reserved
/// expansion copies what is percent-encoded in a value, which another round decodes or rejects.
fn stable(template: &UriTemplate, uri: &str) {
    let Some(found) = template.matches(uri) else { return };
    let expanded = expand(template, &found);
    let second = template.matches(&expanded);
    if !template.as_str().contains("{+") && !template.as_str().contains("{#") {
        let second = second.unwrap_or_else(|| panic!("{expanded} of {found:?} is no match"));
        assert_eq!(expand(template, &second), expanded, "{found:?} and {second:?}");
    }
}

fn expand(template: &UriTemplate, found: &Variables) -> String {
    template.expand(|name| found.get(name))
}
