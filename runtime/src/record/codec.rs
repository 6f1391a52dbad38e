//! How records are written into a checkpoint when barriers overtake them.

use std::fmt;

use slackwater_mem::{Bytes, Codec, CodecId, Decode, Unencodable, Value};

use super::{Batch, Record};

/// How the records of a stream are written and read back. Without one their barriers keep their places.
pub struct RecordCodec<R: ?Sized> {
    id: CodecId<'static>,
    encode: fn(&R, &mut Vec<u8>) -> Result<(), Unencodable>,
    decode: DecodeRecord<R>,
}

/// Lends the record that some bytes are; none if the codec does not write such.
type DecodeRecord<R> = fn(&[u8], &mut dyn FnMut(&R)) -> Option<()>;

impl<R: ?Sized> Clone for RecordCodec<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ?Sized> Copy for RecordCodec<R> {}

impl<R: ?Sized> fmt::Debug for RecordCodec<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordCodec").field(&self.id).finish()
    }
}

impl<R: Record + ?Sized> RecordCodec<R> {
    /// The one that a codec of states has.
    pub(crate) const fn of<C: Decode<Item = R>>() -> Self {
        Self {
            id: C::ID,
            encode: |record, out| C::encoded(record, |bytes| push_framed(out, bytes))?,
            decode: |bytes, with| {
                let record = C::decode(&Value::from(bytes)).ok()?;
                with(C::borrow(&record));
                Some(())
            },
        }
    }

    /// The records of a batch from some index on: the codec's name, and then each record, with their lengths.
    ///
    /// # Errors
    /// A record has no encoding.
    pub(crate) fn encode(&self, batch: &R::Batch, from: usize) -> Result<Vec<u8>, Unencodable> {
        let mut out = Vec::new();
        push_framed(&mut out, self.id.to_string().as_bytes())?;
        let mut records = (from..batch.len()).filter_map(|index| batch.get(index));
        records.try_for_each(|record| (self.encode)(record, &mut out))?;
        Ok(out)
    }

    /// Reads what [`encode`](Self::encode) has written, record by record.
    ///
    /// # Errors
    /// Another codec has written it, or none.
    pub(crate) fn decode(&self, mut bytes: &[u8], each: &mut dyn FnMut(&R)) -> Result<(), ForeignRecords> {
        let wanted = self.id;
        let foreign =
            |stored: &[u8]| ForeignRecords { stored: String::from_utf8_lossy(stored).into_owned(), wanted };
        let stored = next_framed(&mut bytes).ok_or_else(|| foreign(b"nothing known"))?;
        if stored != wanted.to_string().as_bytes() {
            return Err(foreign(stored));
        }
        while !bytes.is_empty() {
            let decoded = next_framed(&mut bytes).and_then(|record| (self.decode)(record, each));
            decoded.ok_or_else(|| foreign(stored))?;
        }
        Ok(())
    }
}

/// Appends bytes behind their length.
fn push_framed(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Unencodable> {
    let len = u32::try_from(bytes.len());
    let too_long = |_| Unencodable { codec: Bytes::ID, what: "4 GiB of bytes or more" };
    out.extend_from_slice(&len.map_err(too_long)?.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// Takes the next bytes with their length off the front; none if there are fewer.
fn next_framed<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (framed, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    *bytes = rest;
    Some(framed)
}

/// Records in flight were not written by the codec that their stream has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignRecords {
    stored: String,
    wanted: CodecId<'static>,
}

impl fmt::Display for ForeignRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, wanted } = self;
        write!(
            f,
            "records in flight are not what codec {wanted} writes ({stored} wrote them): name that one for the stream"
        )
    }
}

#[cfg(test)]
mod tests {
    use slackwater_mem::Plain;

    use super::*;

    fn encoded<R: Record + ?Sized>(codec: RecordCodec<R>, records: &[&R], from: usize) -> Vec<u8> {
        let mut batch = R::Batch::default();
        records.iter().for_each(|record| batch.push(record));
        codec.encode(&batch, from).unwrap()
    }

    #[test]
    fn u8_the_records_that_are_left_of_a_batch_come_back() {
        let words: [&[u8]; 4] = [b"ebb", b"", b"flood", b"\0"];
        let codec = RecordCodec::of::<Bytes>();
        for from in 0..=words.len() {
            let (bytes, mut back) = (encoded(codec, &words, from), Vec::new());
            codec.decode(&bytes, &mut |word| back.push(word.to_vec())).unwrap();
            assert_eq!(back, words[from..]);
        }
        let numbers = RecordCodec::of::<Plain<u64>>();
        let (bytes, mut back) = (encoded(numbers, &[&7, &u64::MAX], 0), Vec::new());
        numbers.decode(&bytes, &mut |number| back.push(*number)).unwrap();
        assert_eq!(back, [7, u64::MAX]);
    }

    #[test]
    fn what_another_codec_wrote_and_what_is_cut_short_is_refused_by_name() {
        let bytes = encoded(RecordCodec::of::<Plain<u64>>(), &[&7, &8], 0);
        let refused = RecordCodec::of::<Plain<i64>>().decode(&bytes, &mut |_| ()).unwrap_err().to_string();
        assert!(refused.contains("i64 version 1") && refused.contains("u64 version 1"), "{refused}");
        for len in 0..bytes.len() {
            let whole = [0, 12]
                .map(|records| encoded(RecordCodec::of::<Plain<u64>>(), &[&7], 0).len() - 12 + records);
            let read = RecordCodec::of::<Plain<u64>>().decode(&bytes[..len], &mut |_| ());
            assert_eq!(read.is_ok(), whole.contains(&len), "{len}");
        }
    }
}
