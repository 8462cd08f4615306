//! Names that are similar to an unknown one: misspelt, without its prefix, or with its words in
//! another order.

/// Number of bytes of a name that are compared.
const MAX_COMPARED: usize = 64;
/// Minimum similarity, from 0 to 1000.
const MIN_SIMILARITY: usize = 500;

/// Returns at limit `limit` names of the hub that are similar to `wanted`, the limit similar first.
/// Each name has its name at the server, which is compared as well.
pub(super) fn nearest<'n>(
    wanted: &str,
    names: impl Iterator<Item = (&'n str, &'n str)>,
    limit: usize,
) -> Vec<&'n str> {
    let wanted = folded(wanted);
    let rated = names.map(|(name, there)| {
        let best = similarity(&wanted, &folded(name)).max(similarity(&wanted, &folded(there)));
        (best, name)
    });
    let mut near: Vec<(usize, &str)> =
        rated.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY).collect();
    near.sort_by_key(|(similarity, _)| std::cmp::Reverse(*similarity));
    near.into_iter().take(limit).map(|(_, name)| name).collect()
}

/// Returns a name in lower case and without punctuation.
fn folded(name: &str) -> Vec<u8> {
    let letters = name.bytes().filter(|b| b.is_ascii_alphanumeric() || !b.is_ascii());
    letters.take(MAX_COMPARED).map(|b| b.to_ascii_lowercase()).collect()
}

/// Returns the share of equal letters or of equal pairs of letters, from 0 to 1000. Names with the
/// same words in another order have many equal pairs.
fn similarity(a: &[u8], b: &[u8]) -> usize {
    let mut pairs: Vec<&[u8]> = b.windows(2).collect();
    let all = a.windows(2).count() + pairs.len();
    let shared = a.windows(2).filter(|pair| match pairs.iter().position(|other| other == pair) {
        Some(at) => !pairs.swap_remove(at).is_empty(),
        None => false,
    });
    let shared = shared.count() * 2000 / all.max(1);
    let longer = a.len().max(b.len()).max(1);
    shared.max((longer - distance(a, b)) * 1000 / longer)
}

/// Returns the edit distance: the number of letters to change, add or remove.
fn distance(a: &[u8], b: &[u8]) -> usize {
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

    const NAMES: [(&str, &str); 5] = [
        ("board__led_set", "led_set"),
        ("board__led_get", "led_get"),
        ("board__reboot", "reboot"),
        ("notes__search", "search"),
        ("notes__echo", "echo"),
    ];

    #[test]
    fn names_are_found_misspelt_without_prefix_and_in_another_order() {
        for (wanted, first) in [
            ("board__led_set", "board__led_set"),
            ("led_set", "board__led_set"),
            ("board.ledSet", "board__led_set"),
            ("set_led", "board__led_set"),
            ("get-led", "board__led_get"),
            ("ehco", "notes__echo"),
            ("files__search", "notes__search"),
            ("notes__serach", "notes__search"),
            ("REBOOT", "board__reboot"),
        ] {
            assert_eq!(nearest(wanted, NAMES.into_iter(), 5).first(), Some(&first), "{wanted}");
        }
    }

    #[test]
    fn only_similar_names_are_returned_the_most_similar_first() {
        assert_eq!(nearest("led", NAMES.into_iter(), 5), ["board__led_set", "board__led_get"]);
        assert_eq!(nearest("led", NAMES.into_iter(), 1), ["board__led_set"]);
        for wanted in ["", "_", "xyz", "größe", &"x".repeat(1000)] {
            assert!(nearest(wanted, NAMES.into_iter(), 5).is_empty(), "{wanted}");
        }
    }
}
