//! Push parser for event streams. The input may be split at any byte.

use memchr::memchr2;

/// Maximum length of an id or an event name in bytes. Longer ones are ignored: an id is sent in a
/// header of the next request, and servers reject header lines of more than 8 KiB.
pub(super) const FIELD_BYTES: usize = 4096;
/// Capacity to which the data buffer is shrunk after an event.
const RETAINED_BYTES: usize = 64 << 10;
const BYTE_ORDER_MARK: [u8; 3] = *b"\xEF\xBB\xBF";

/// Parser of one stream. It accepts the bytes in pieces and returns events.
///
/// ```text
/// loop {
///     let mut piece = read();
///     loop { match parser.next(&mut piece) { Step::More => break, … } }
/// }
/// ```
pub(crate) struct Parser {
    state: State,
    /// Name of the field that is being read.
    name: Vec<u8>,
    /// Value of a field that is neither data nor ignored.
    value: Vec<u8>,
    /// Lines of data, each followed by `\n`.
    data: Vec<u8>,
    /// Name of the event.
    kind: Vec<u8>,
    /// Id of the event that is being read. It becomes `last_id` when the event ends.
    id: Option<Vec<u8>>,
    last_id: Vec<u8>,
    retry: Option<u64>,
    limit: usize,
    too_long: bool,
    /// An event was returned. Its data is dropped at the next call.
    taken: bool,
    /// The last line end was a CR. A directly following LF is a part of it.
    after_cr: bool,
    /// Number of bytes of the byte order mark at the start of the stream; 3 after the start.
    mark: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the name of a field, or at the start of a line.
    Name,
    /// After the colon, where one space is skipped.
    Colon(Field),
    Value(Field),
    /// In a comment or in an unknown field.
    Ignore,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
}

/// Result of [`Parser::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'p> {
    /// All input was consumed.
    More,
    /// An event with data.
    Event {
        /// Name of the event, or empty.
        kind: &'p [u8],
        /// Lines of data, joined with `\n`.
        data: &'p [u8],
    },
    /// An event with more data than the limit. It was skipped.
    TooLong {
        /// Beginning of its data, up to the limit.
        head: &'p [u8],
    },
}

impl Parser {
    /// Creates a parser at the start of a stream, for events of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Parser {
        Parser {
            state: State::Name,
            name: Vec::new(),
            value: Vec::new(),
            data: Vec::new(),
            kind: Vec::new(),
            id: None,
            last_id: Vec::new(),
            retry: None,
            limit,
            too_long: false,
            taken: false,
            after_cr: false,
            mark: 0,
        }
    }

    /// Returns the id of the last complete event with an id, with data or without. Empty if there
    /// was no such event.
    pub(crate) fn last_id(&self) -> &[u8] {
        &self.last_id
    }

    /// Returns the last reconnection time (`retry`) of the stream, in milliseconds.
    pub(crate) fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Prepares for the stream's next connection: drops an incomplete event, keeps the last id and
    /// the reconnection time.
    pub(crate) fn restart(&mut self) {
        let last_id = std::mem::take(&mut self.last_id);
        *self = Parser { last_id, retry: self.retry, ..Parser::new(self.limit) };
    }

    /// Returns the capacity of all buffers in bytes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let id = self.id.as_ref().map_or(0, Vec::capacity);
        let short = self.name.capacity() + self.value.capacity() + self.kind.capacity() + id;
        self.data.capacity() + self.last_id.capacity() + short
    }

    /// Consumes the bytes of `piece` up to the end of the next event.
    pub(crate) fn next(&mut self, piece: &mut &[u8]) -> Step<'_> {
        if std::mem::take(&mut self.taken) {
            self.data.clear();
            self.data.shrink_to(RETAINED_BYTES);
            self.kind.clear();
        }
        while let Some(&byte) = piece.first() {
            if self.mark < BYTE_ORDER_MARK.len() {
                if BYTE_ORDER_MARK.get(self.mark) == Some(&byte) {
                    self.mark += 1;
                    *piece = piece.get(1..).unwrap_or_default();
                    continue;
                }
                if self.mark > 0 {
                    // A part of a byte order mark begins an unknown field.
                    self.state = State::Ignore;
                }
                self.mark = BYTE_ORDER_MARK.len();
            }
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                *piece = piece.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr2(b'\n', b'\r', piece);
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            self.text(line);
            let Some(&end) = rest.first() else {
                *piece = rest;
                return Step::More;
            };
            *piece = rest.get(1..).unwrap_or_default();
            self.after_cr = end == b'\r';
            if self.state == State::Name && self.name.is_empty() {
                if let Some(found) = self.dispatch() {
                    return found.step(self);
                }
            } else {
                self.end_line();
            }
        }
        Step::More
    }

    /// Consumes a part of one line.
    fn text(&mut self, mut text: &[u8]) {
        while let Some(&first) = text.first() {
            match self.state {
                State::Name => {
                    let colon = memchr::memchr(b':', text);
                    let name = text.get(..colon.unwrap_or(text.len())).unwrap_or_default();
                    if self.name.len() + name.len() > "event".len() {
                        self.state = State::Ignore;
                        return;
                    }
                    self.name.extend_from_slice(name);
                    let Some(colon) = colon else { return };
                    text = text.get(colon + 1..).unwrap_or_default();
                    // An empty name starts a comment.
                    self.state = self.field().map_or(State::Ignore, State::Colon);
                }
                State::Colon(field) => {
                    self.state = State::Value(field);
                    if first == b' ' {
                        text = text.get(1..).unwrap_or_default();
                    }
                }
                State::Value(field) => {
                    let (kept, limit) = match field {
                        Field::Data => (&mut self.data, self.limit),
                        _ => (&mut self.value, FIELD_BYTES),
                    };
                    if field == Field::Data && self.too_long {
                        return;
                    }
                    if kept.len() + text.len() <= limit {
                        kept.extend_from_slice(text);
                    } else if field == Field::Data {
                        self.too_long = true;
                        let room = limit.saturating_sub(kept.len());
                        kept.extend_from_slice(text.get(..room).unwrap_or_default());
                    } else {
                        self.state = State::Ignore;
                    }
                    return;
                }
                State::Ignore => return,
            }
        }
    }

    fn field(&self) -> Option<Field> {
        match &*self.name {
            b"data" => Some(Field::Data),
            b"event" => Some(Field::Event),
            b"id" => Some(Field::Id),
            b"retry" => Some(Field::Retry),
            _ => None,
        }
    }

    /// Handles the end of a line that is not blank.
    fn end_line(&mut self) {
        let field = match self.state {
            // A line without a colon is a field without a value.
            State::Name => self.field(),
            State::Colon(field) | State::Value(field) => Some(field),
            State::Ignore => None,
        };
        match field {
            // The last line end does not count against the limit.
            Some(Field::Data) if self.too_long => {}
            Some(Field::Data) if self.data.len() <= self.limit => self.data.push(b'\n'),
            Some(Field::Data) => self.too_long = true,
            Some(Field::Event) => std::mem::swap(&mut self.kind, &mut self.value),
            Some(Field::Id) if !self.value.contains(&0) => self.id = Some(std::mem::take(&mut self.value)),
            Some(Field::Retry) => {
                let digits = std::str::from_utf8(&self.value).ok();
                let digits = digits.filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
                // A time beyond 64 bits means "never"; the caller has its own upper bound.
                self.retry = digits.map(|d| d.parse().unwrap_or(u64::MAX)).or(self.retry);
            }
            _ => {}
        }
        self.name.clear();
        self.value.clear();
        self.state = State::Name;
    }

    /// Handles a blank line, which ends the event.
    fn dispatch(&mut self) -> Option<Found> {
        if let Some(id) = self.id.take() {
            self.last_id = id;
        }
        self.taken = true;
        if std::mem::take(&mut self.too_long) {
            return Some(Found::TooLong);
        }
        // The line end after the last line is not part of the data.
        self.data.pop();
        if !self.data.is_empty() {
            return Some(Found::Event);
        }
        self.taken = false;
        self.kind.clear();
        None
    }
}

/// Like [`Step`], without borrowed data.
enum Found {
    Event,
    TooLong,
}

impl Found {
    fn step(self, parser: &Parser) -> Step<'_> {
        match self {
            Found::Event => Step::Event { kind: &parser.kind, data: &parser.data },
            Found::TooLong => Step::TooLong { head: &parser.data },
        }
    }
}
