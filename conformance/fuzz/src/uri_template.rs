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
    if let Some(found) = template.matches(uri) {
        let expanded = expand(&template, &found);
        let second = template.matches(&expanded).unwrap_or_else(|| panic!("{expanded} of {found:?} is no match"));
        assert_eq!(expand(&template, &second), expanded, "{found:?} and {second:?}");
    }
    // Values of any text: what is read back makes the same URI.
    let values: Vec<&str> = uri.split('|').collect();
    let names: Vec<&str> = template.variables().collect();
    let expanded = template.expand(|name| {
        let at = names.iter().position(|known| *known == name)?;
        values.get(at).copied().filter(|value| *value != "-")
    });
    if let Some(found) = template.matches(&expanded) {
        assert_eq!(expand(&template, &found), expanded, "{found:?}");
    }
}

fn expand(template: &UriTemplate, found: &Variables) -> String {
    template.expand(|name| found.get(name))
}
