//! A shard's index as bytes, for files that keep one.

use crate::{Digest, Digester, ShardIndex, ShardIndexBuilder};

/// Stands for the offset of a value that is in the index itself.
const INLINE: u64 = u64::MAX;

/// What a shard's entry in a host's cache is asked for by: its digest in the manifest, and the version
/// that its source had.
#[must_use]
pub fn cached_shard_key(shard: Digest, version: Digest) -> Digest {
    let mut digester = Digester::new("headwater cached shard 1");
    digester.bytes(&shard.to_bytes()).bytes(&version.to_bytes()).finish()
}

// === impl ShardIndex ===

impl ShardIndex {
    /// The whole index, for [`ShardIndex::from_bytes`]. Numbers have 64 bits, little-endian; each
    /// text has its length before it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |bytes: &mut Vec<u8>, value: u64| bytes.extend(value.to_le_bytes());
        let text = |bytes: &mut Vec<u8>, text: &str| {
            number(bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        };
        let names = self.field_names();
        number(&mut bytes, names.len() as u64);
        names.iter().for_each(|name| text(&mut bytes, name));
        number(&mut bytes, self.samples().into());
        for sample in 0..self.samples() {
            text(&mut bytes, self.key(sample).unwrap_or_default());
            number(&mut bytes, self.fields(sample).len() as u64);
            for field in self.fields(sample) {
                let name = names.iter().position(|name| name == field.name).unwrap_or_default();
                number(&mut bytes, name as u64);
                number(&mut bytes, field.inline.map_or(field.offset, |_| INLINE));
                number(&mut bytes, field.bytes);
                bytes.extend(field.inline.unwrap_or_default());
            }
        }
        bytes
    }

    /// The index in these bytes; `None` if they are not an index.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut names = Vec::new();
        for _ in 0..number(&mut rest)? {
            names.push(text(&mut rest)?.to_owned());
        }
        let mut builder = ShardIndexBuilder::default();
        for _ in 0..number(&mut rest)? {
            builder.sample(text(&mut rest)?).ok()?;
            for _ in 0..number(&mut rest)? {
                let name = names.get(usize::try_from(number(&mut rest)?).ok()?)?;
                let (offset, bytes) = (number(&mut rest)?, number(&mut rest)?);
                match offset {
                    INLINE => builder.inline(name, piece(&mut rest, bytes)?).ok()?,
                    _ => builder.field(name, offset, bytes).ok()?,
                }
            }
        }
        rest.is_empty().then(|| builder.finish())
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*word))
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let len = number(rest)?;
    std::str::from_utf8(piece(rest, len)?).ok()
}

fn piece<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (piece, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = after;
    Some(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_comes_back_and_no_part_of_it_does() {
        let mut builder = ShardIndexBuilder::default();
        for key in ["a", "", "b/c"] {
            builder.sample(key).unwrap();
            builder.field("jpg", 512, 10).unwrap();
            builder.inline("cls", key.as_bytes()).unwrap();
        }
        let index = builder.finish();
        let bytes = index.to_bytes();
        assert_eq!(ShardIndex::from_bytes(&bytes), Some(index));
        for cut in 0..bytes.len() {
            assert_eq!(ShardIndex::from_bytes(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(ShardIndex::from_bytes(&[bytes, vec![0]].concat()), None);
        assert_eq!(ShardIndex::from_bytes(&[0xff; 64]), None);
    }
}
