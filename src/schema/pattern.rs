//! Stub: patterns passed to the engine as they are.
pub(crate) struct Pattern(regex_automata::meta::Regex);
impl Pattern {
    pub(crate) fn compile(source: &str) -> Result<Pattern, String> {
        regex_automata::meta::Regex::new(source).map(Pattern).map_err(|e| e.to_string())
    }
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
    pub(crate) fn steps(&self, bytes: usize) -> usize {
        1 + bytes / 8
    }
}
pub(crate) fn is_pattern(source: &str) -> bool {
    Pattern::compile(source).is_ok()
}
