//! Stub: patterns passed to the engine as they are.
use super::SchemaLimits;
pub(crate) struct Pattern(regex_automata::meta::Regex);
pub(crate) type PatternError = String;
impl Pattern {
    pub(crate) fn compile(source: &str, _limits: &SchemaLimits) -> Result<Pattern, PatternError> {
        regex_automata::meta::Regex::new(source).map(Pattern).map_err(|e| e.to_string())
    }
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}
pub(crate) fn is_pattern(source: &str) -> bool {
    Pattern::compile(source, &SchemaLimits::default()).is_ok()
}
