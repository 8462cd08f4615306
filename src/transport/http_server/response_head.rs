//! Response heads: status line, header fields, date.
//!
//! # Invariants
//! - A field value cannot end its line: a value with a control character is omitted.

use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that most heads need.
const HEAD_BYTES: usize = 256;

/// A header field: name and value.
pub(crate) type Field<'a> = (&'a str, &'a str);

/// Properties of a request that its response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseOptions {
    pub http_10: bool,
    /// The request is HEAD: the response has no body.
    pub head_only: bool,
    /// The connection stays open after the response.
    pub keep_alive: bool,
}

impl ResponseOptions {
    /// Options of a response to an unreadable request.
    pub(super) const CLOSE: ResponseOptions =
        ResponseOptions { http_10: false, head_only: false, keep_alive: false };
}

/// Returns whether responses with this status have neither body nor length (RFC 9110, 8.6).
pub(super) fn is_bodiless(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// Returns a response head with its empty line. A body without a `length` is chunked, or ends with
/// the connection for HTTP/1.0.
pub(super) fn response_head<'f>(
    status: u16,
    date: &[u8; DATE_BYTES],
    fields: impl Iterator<Item = Field<'f>>,
    length: Option<usize>,
    options: ResponseOptions,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(code_and_reason(status).as_bytes());
    head.extend_from_slice(b"\r\ndate: ");
    head.extend_from_slice(date);
    for (name, value) in fields {
        // Values may come from handlers or peers. They must not begin a new line.
        let valid = !value.bytes().fold(false, |found, b| found | (b < b' ' && b != b'\t') | (b == 0x7f));
        debug_assert!(valid, "{name} has a control character");
        if valid {
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
        }
    }
    match length {
        Some(_) if is_bodiless(status) => {}
        Some(length) => {
            head.extend_from_slice(b"\r\ncontent-length: ");
            write_decimal(&mut head, length);
        }
        None if options.http_10 => {}
        None => head.extend_from_slice(b"\r\ntransfer-encoding: chunked"),
    }
    head.extend_from_slice(match options {
        options if !options.keep_alive => b"\r\nconnection: close\r\n\r\n",
        // HTTP/1.0 closes by default.
        options if options.http_10 => b"\r\nconnection: keep-alive\r\n\r\n",
        _ => b"\r\n\r\n".as_slice(),
    });
    head
}

fn write_decimal(into: &mut Vec<u8>, mut n: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

/// Returns the line that begins a chunk of `n` bytes, and the length of the line.
pub(super) fn chunk_size(mut n: usize) -> ([u8; 18], usize) {
    let mut line = [0; 18];
    let digits = (n.max(1).ilog2() / 4 + 1) as usize;
    for at in (0..digits).rev() {
        line[at] = b"0123456789abcdef"[n & 15];
        n >>= 4;
    }
    line[digits] = b'\r';
    line[digits + 1] = b'\n';
    (line, digits + 2)
}

fn code_and_reason(status: u16) -> &'static str {
    match status {
        200 => "200 OK",
        202 => "202 Accepted",
        204 => "204 No Content",
        304 => "304 Not Modified",
        400 => "400 Bad Request",
        401 => "401 Unauthorized",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Method Not Allowed",
        406 => "406 Not Acceptable",
        408 => "408 Request Timeout",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        414 => "414 URI Too Long",
        413 => "413 Content Too Large",
        415 => "415 Unsupported Media Type",
        417 => "417 Expectation Failed",
        429 => "429 Too Many Requests",
        431 => "431 Request Header Fields Too Large",
        501 => "501 Not Implemented",
        503 => "503 Service Unavailable",
        505 => "505 HTTP Version Not Supported",
        // No code of this crate uses another status.
        _ => "500 Internal Server Error",
    }
}

/// Length of a date.
pub(super) const DATE_BYTES: usize = 29;

/// Cache of the current date, formatted once a second.
pub(super) struct Date {
    second: u64,
    text: [u8; DATE_BYTES],
}

impl Date {
    pub(super) fn new() -> Date {
        Date { second: 0, text: date(0) }
    }

    pub(super) fn now(&mut self) -> [u8; DATE_BYTES] {
        // A single-board computer without a battery may start before 1970.
        let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        if second != self.second {
            (self.second, self.text) = (second, date(second));
        }
        self.text
    }
}

/// Formats a time as in `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
fn date(second: u64) -> [u8; DATE_BYTES] {
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let (days, second) = (second / 86_400, second % 86_400);
    // Counted from March, the leap day is the last day of the year, and every five months have 153
    // days.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let month_day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month >= 10);
    let name = |names: &'static [u8; 36], n: u64| names.chunks(3).nth(n as usize).unwrap_or(b"???");
    text[..3].copy_from_slice(name(b"ThuFriSatSunMonTueWed               ", days % 7));
    text[8..11].copy_from_slice(name(b"MarAprMayJunJulAugSepOctNovDecJanFeb", month));
    for (at, n) in [(5, month_day), (12, year / 100), (14, year), (17, second / 3600), (20, second / 60 % 60)]
    {
        write_two_digits(&mut text, at, n);
    }
    write_two_digits(&mut text, 23, second % 60);
    text
}

fn write_two_digits(text: &mut [u8; DATE_BYTES], at: usize, n: u64) {
    text[at] = b'0' + (n / 10 % 10) as u8;
    text[at + 1] = b'0' + (n % 10) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (second, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_600, "Wed, 01 Jan 2025 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&date(second)), Ok(text));
        }
    }

    #[test]
    fn chunk_sizes_are_hexadecimal_lines() {
        for n in [0, 1, 9, 10, 15, 16, 255, 256, 4095, 65_535, 1 << 20, usize::MAX] {
            let (line, len) = chunk_size(n);
            assert_eq!(std::str::from_utf8(&line[..len]), Ok(format!("{n:x}\r\n").as_str()));
        }
    }
}
