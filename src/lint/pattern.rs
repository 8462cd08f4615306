//! Upper bound on the length of strings that match a pattern.
//!
//! A pattern is bounded if it is anchored at both ends and has no unbounded repetition. Any
//! construct that is not recognised counts as unbounded.
//!
//! Invariant: one pass over the text.

/// Returns `true` if all strings that match the pattern have a bounded length.
pub(super) fn is_bounded(pattern: &str) -> bool {
    let Some(body) = pattern.strip_prefix('^') else { return false };
    let mut chars = body.chars().peekable();
    let (mut class, mut depth) = (false, 0_u32);
    let mut end = false;
    while let Some(c) = chars.next() {
        end = false;
        match c {
            '\\' => {
                chars.next();
            }
            ']' => class = false,
            _ if class => {}
            '[' => class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '*' | '+' => return false,
            // An alternative outside of all groups may have no anchor.
            '|' if depth == 0 => return false,
            '{' => {
                let mut open = false;
                for c in chars.by_ref() {
                    if c == '}' {
                        break;
                    }
                    open = c == ',';
                }
                if open {
                    return false;
                }
            }
            '$' => end = depth == 0,
            _ => {}
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::is_bounded;

    #[test]
    fn length_is_bounded_where_anchors_and_counts_say_so() {
        for yes in ["^a$", "^[0-9a-f]{8}$", "^(a|b)?c{1,3}$", r"^\d{4}\+$", "^[*+]$", "^$", "^a{2}$"] {
            assert!(is_bounded(yes), "{yes}");
        }
        for no in ["a", "^a", "a$", "^a*$", "^a+$", "^a{2,}$", "^a|b$", r"^a\$", "^(a$)", "^[a$]", "^a$b"] {
            assert!(!is_bounded(no), "{no}");
        }
    }
}
