//! Cursors of list pages, opaque to clients.
//!
//! A cursor encodes the sequence number of the last entry of a page. So pages stay consistent while
//! entries are added and removed: no entry appears twice, no remaining entry is skipped.
//! Source: MCP server/utilities/pagination.

use base64ct::{Base64UrlUnpadded, Encoding};

use crate::era::List;
use crate::model::Fault;

fn letter(list: List) -> u8 {
    match list {
        List::Tools => b't',
        List::Resources => b'r',
        List::Templates => b'm',
        List::Prompts => b'p',
    }
}

/// Returns the cursor after this entry.
#[cold]
#[inline(never)]
pub(crate) fn cursor(list: List, sequence: u64) -> String {
    let mut bytes = [0; 9];
    bytes[0] = letter(list);
    bytes[1..].copy_from_slice(&sequence.to_be_bytes());
    Base64UrlUnpadded::encode_string(&bytes)
}

/// Returns the sequence number in a cursor; 0 without a cursor.
///
/// # Errors
/// The text is not a cursor of this list.
#[cold]
#[inline(never)]
pub(crate) fn sequence(list: List, cursor: Option<&str>) -> Result<u64, Fault> {
    let Some(cursor) = cursor else { return Ok(0) };
    // A longer text cannot be a cursor and is not decoded.
    let bytes = Base64UrlUnpadded::decode_vec(cursor.get(..13).unwrap_or(cursor)).unwrap_or_default();
    match <[u8; 9]>::try_from(bytes) {
        Ok([kind, number @ ..]) if kind == letter(list) => Ok(u64::from_be_bytes(number)),
        _ => Err(Fault::InvalidParams("cursor is not valid: it must come from a list of this server".into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_cursor_is_valid_in_its_own_list_only() {
        for n in [0, 1, 255, 1 << 31, 1 << 32, u64::MAX] {
            let text = cursor(List::Tools, n);
            assert_eq!(sequence(List::Tools, Some(&text)).unwrap(), n);
            assert!(sequence(List::Prompts, Some(&text)).is_err());
        }
        for bad in ["", "x", "AAAA", "dAAAAAAAAAAAA", "!", "dAAAAAAAAAA=", "dAAAAAAAAAAAAAAA"] {
            assert!(sequence(List::Tools, Some(bad)).is_err(), "{bad}");
        }
        assert_eq!(sequence(List::Tools, None).unwrap(), 0);
    }
}
