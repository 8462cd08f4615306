//! Reader for choices and texts in the bytes of a fuzz input. Missing bytes count as zero, so every
//! input is valid.

pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads up to the next line feed, if the bytes are UTF-8.
    pub fn line(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|b| *b == b'\n').unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        std::str::from_utf8(line).ok()
    }

    /// Reads the remaining bytes, if they are UTF-8.
    pub fn rest(&mut self) -> Option<&'a str> {
        std::str::from_utf8(std::mem::take(&mut self.0)).ok()
    }
}
