//! Lists of names, and suggestions for misspelt names.
//!
//! A list is one string with spaces between the names: an array of strings would take eight more
//! bytes for each name.

/// Maximum length of a name that is compared, in characters.
const MAX_LETTERS: usize = 64;

/// Returns whether a list has this name.
pub(crate) fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// Joins texts, with a separator between two of them.
pub(crate) fn join(texts: &mut dyn Iterator<Item = String>, separator: &str) -> String {
    let mut joined = texts.next().unwrap_or_default();
    for text in texts {
        joined.push_str(separator);
        joined.push_str(&text);
    }
    joined
}

/// Returns the most similar known name, if it differs in at most a third of the letters.
pub(crate) fn nearest<'n>(name: &str, known: &mut dyn Iterator<Item = &'n str>) -> Option<&'n str> {
    // Only ASCII letters are compared regardless of case: the table for other letters has 11 kB.
    let folded = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
    };
    let name = folded(name);
    if name.len() > MAX_LETTERS {
        return None;
    }
    let mut best = None;
    for candidate in known {
        let other = folded(candidate);
        if other.len() > MAX_LETTERS {
            continue;
        }
        let distance = distance(&name, &other);
        let most = name.len().max(other.len()).div_ceil(3);
        if distance <= most && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the number of letters to change, add or remove.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let least = (diagonal + usize::from(x != y)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            *cell = least;
            left = least;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_recognized() {
        for (name, expected) in [
            ("descripton", Some("description")),
            ("readonly", Some("readOnly")),
            ("read_only", Some("readOnly")),
            ("rn", Some("run")),
            ("x", None),
            ("", None),
            ("completely-different", None),
        ] {
            assert_eq!(nearest(name, &mut "run description readOnly".split(' ')), expected, "{name}");
        }
        assert_eq!(nearest(&"a".repeat(100_000), &mut "run".split(' ')), None);
    }
}
