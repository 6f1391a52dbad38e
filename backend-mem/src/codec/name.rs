use super::CodecId;

/// The longest name put together from others, in bytes.
const LEN_MAX: usize = 256;

/// A codec's name put together when the program is compiled: `outer(first.1,second.3)`, each part with its
/// version, so that a codec made of others is another one when one of them is.
#[derive(Debug)]
pub(crate) struct Name {
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl Name {
    /// # Panics
    /// While compiling, if the name is too long.
    pub(crate) const fn new(outer: &str, parts: &[CodecId<'_>]) -> Self {
        let mut name = Self { bytes: [0; LEN_MAX], len: 0 }.with(outer.as_bytes());
        let mut index = 0;
        while index < parts.len() {
            name = name.with(if index == 0 { b"(" } else { b"," });
            name = name.with(parts[index].name.as_bytes()).with(b".").with_number(parts[index].version);
            index += 1;
        }
        name.with(b")")
    }

    const fn with(mut self, bytes: &[u8]) -> Self {
        let mut index = 0;
        while index < bytes.len() {
            self.bytes[self.len] = bytes[index];
            self.len += 1;
            index += 1;
        }
        self
    }

    const fn with_number(self, number: u16) -> Self {
        let name = if number >= 10 { self.with_number(number / 10) } else { self };
        name.with(&[b'0' + (number % 10) as u8])
    }

    pub(crate) const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(name) => name,
            Err(_) => "",
        }
    }
}
