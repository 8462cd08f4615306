//! Dates, times and durations of RFC 3339.
//!
//! Invariant: only ASCII digits count as digits.

/// Removes exactly `count` digits from the front.
fn number(text: &mut &[u8], count: usize) -> Option<u32> {
    let (digits, rest) = text.split_at_checked(count)?;
    *text = rest;
    digits.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
}

fn take(text: &mut &[u8], wanted: u8) -> Option<()> {
    match text.split_first() {
        Some((b, rest)) if b.eq_ignore_ascii_case(&wanted) => {
            *text = rest;
            Some(())
        }
        _ => None,
    }
}

fn date(text: &mut &[u8]) -> Option<()> {
    let year = number(text, 4)?;
    take(text, b'-')?;
    let month = number(text, 2)?;
    take(text, b'-')?;
    let day = number(text, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 0,
    };
    (1..=days).contains(&day).then_some(())
}

fn time(text: &mut &[u8]) -> Option<()> {
    let hour = number(text, 2)?;
    take(text, b':')?;
    let minute = number(text, 2)?;
    take(text, b':')?;
    let second = number(text, 2)?;
    if take(text, b'.').is_some() {
        let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
        *text = text.get(digits..).filter(|_| digits > 0)?;
    }
    // Minutes east of UTC.
    let offset = if take(text, b'Z').is_some() {
        0
    } else {
        let west = take(text, b'-').is_some();
        if !west {
            take(text, b'+')?;
        }
        let hours = number(text, 2).filter(|h| *h < 24)?;
        take(text, b':')?;
        let minutes = (hours * 60 + number(text, 2).filter(|m| *m < 60)?) as i32;
        if west { -minutes } else { minutes }
    };
    let in_utc = ((hour * 60 + minute) as i32 - offset).rem_euclid(24 * 60);
    // A leap second is the last second of a day in UTC.
    let seconds = if in_utc == 24 * 60 - 1 { 61 } else { 60 };
    (hour < 24 && minute < 60 && second < seconds).then_some(())
}

fn whole(text: &str, parse: impl Fn(&mut &[u8]) -> Option<()>) -> bool {
    let mut rest = text.as_bytes();
    parse(&mut rest).is_some() && rest.is_empty()
}

/// full-date
pub(super) fn is_date(text: &str) -> bool {
    whole(text, date)
}

/// full-time
pub(super) fn is_time(text: &str) -> bool {
    whole(text, time)
}

/// date-time
pub(super) fn is_date_time(text: &str) -> bool {
    whole(text, |text| {
        date(text)?;
        take(text, b'T')?;
        time(text)
    })
}

/// RFC 3339 appendix A: units in order and without gaps, or weeks alone.
pub(super) fn is_duration(text: &str) -> bool {
    let Some(text) = text.strip_prefix('P') else { return false };
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    match time {
        None => units(date, "W") || units(date, "YMD"),
        Some(time) => (date.is_empty() || units(date, "YMD")) && units(time, "HMS"),
    }
}

/// One or more numbers, each with a unit, in consecutive order.
fn units(text: &str, names: &str) -> bool {
    let mut rest = text;
    let mut last = None;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = rest.as_bytes().get(digits).and_then(|unit| names.bytes().position(|name| name == *unit));
        match (digits, unit, last) {
            (1.., Some(at), None) => last = Some(at),
            (1.., Some(at), Some(before)) if at == before + 1 => last = Some(at),
            _ => return false,
        }
        rest = rest.get(digits + 1..).unwrap_or_default();
    }
    last.is_some()
}
