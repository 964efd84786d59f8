//! Entry points of a shard's JPEG images: for each image the places in its bits where decoding can begin.
//!
//! Only the decoder knows what the entries of an image mean, and it proves them while it decodes. Here they
//! are bytes that belong to one field of one sample.

use std::sync::Arc;

/// Maximum bytes of the entries of one image.
pub const ENTRIES_BYTES_MAX: usize = 434;
/// Maximum bytes of the entries of one shard. Images beyond this have no entries.
pub const SHARD_ENTRIES_BYTES_MAX: usize = 64 << 20;

/// Sample, field, and where the entries end: 32 bits each, lowest byte first.
const RECORD_BYTES: usize = 12;

/// The entries of one shard's images. Cheap to clone.
///
/// One run of bytes: the number of records, the records in order of sample and field, and the entries of all
/// of them one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardEntries {
    bytes: Arc<[u8]>,
}

/// Collects the entries of images, in the order of their shard.
#[derive(Debug, Default)]
pub struct ShardEntriesBuilder {
    records: Vec<u8>,
    entries: Vec<u8>,
}

/// Which image, and where its entries end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    image: (u32, u32),
    end: u32,
}

// === impl Record ===

impl Record {
    fn read(bytes: &[u8; RECORD_BYTES]) -> Self {
        let &[s0, s1, s2, s3, f0, f1, f2, f3, e0, e1, e2, e3] = bytes;
        let [sample, field, end] =
            [[s0, s1, s2, s3], [f0, f1, f2, f3], [e0, e1, e2, e3]].map(u32::from_le_bytes);
        Self { image: (sample, field), end }
    }
}

// === impl ShardEntries ===

impl ShardEntries {
    /// The entries in these bytes; `None` if [`ShardEntries::as_bytes`] would not write such
    /// bytes.
    #[must_use]
    pub fn from_bytes(bytes: Arc<[u8]>) -> Option<Self> {
        if bytes.len() > SHARD_ENTRIES_BYTES_MAX {
            return None;
        }
        let (records, entries) = split(&bytes)?;
        let (mut last, mut start) = (None, 0);
        for Record { image, end } in records.iter().map(Record::read) {
            let len = end.checked_sub(start)? as usize;
            if last >= Some(image) || !(1..=ENTRIES_BYTES_MAX).contains(&len) {
                return None;
            }
            (last, start) = (Some(image), end);
        }
        (start as usize == entries.len()).then_some(Self { bytes })
    }

    /// All entries, for [`ShardEntries::from_bytes`].
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many images have entries.
    #[must_use]
    pub fn images(&self) -> usize {
        self.parts().0.len()
    }

    /// The entries of the image that a field of a sample holds, the field by its position among
    /// the sample's fields; empty if there are none.
    #[must_use]
    pub fn of(&self, sample: u32, field: u32) -> &[u8] {
        let (records, entries) = self.parts();
        let at =
            records.binary_search_by_key(&(sample, field), |record| Record::read(record).image);
        let Ok(at) = at else { return &[] };
        let end = |at: usize| Record::read(&records[at]).end as usize;
        let start = at.checked_sub(1).map_or(0, end);
        &entries[start..end(at)]
    }

    /// The entries of those of `samples` samples only that are `wanted`, which are numbered anew.
    #[must_use]
    pub fn only(&self, samples: u32, wanted: impl Fn(u32) -> bool) -> Self {
        let mut numbers = (0..samples).filter(|&sample| wanted(sample)).zip(0..).peekable();
        let (records, entries) = self.parts();
        let (mut builder, mut start) = (ShardEntriesBuilder::default(), 0);
        for Record { image: (sample, field), end } in records.iter().map(Record::read) {
            let of_image = &entries[start..end as usize];
            start = end as usize;
            while numbers.next_if(|(before, _)| *before < sample).is_some() {}
            if let Some((_, number)) = numbers.peek().filter(|(stays, _)| *stays == sample) {
                builder.add(*number, field, of_image);
            }
        }
        builder.finish()
    }

    fn parts(&self) -> (&[[u8; RECORD_BYTES]], &[u8]) {
        split(&self.bytes).unwrap_or_default()
    }
}

fn split(bytes: &[u8]) -> Option<(&[[u8; RECORD_BYTES]], &[u8])> {
    let (count, rest) = bytes.split_first_chunk()?;
    let records_bytes = (u32::from_le_bytes(*count) as usize).checked_mul(RECORD_BYTES)?;
    let (records, entries) = rest.split_at_checked(records_bytes)?;
    Some((records.as_chunks().0, entries))
}

// === impl ShardEntriesBuilder ===

impl ShardEntriesBuilder {
    /// Adds the entries of an image. An image without entries is skipped, and so is one for which
    /// there is no room. Returns whether they were added.
    ///
    /// # Panics
    /// The entries are of more than [`ENTRIES_BYTES_MAX`] bytes.
    pub fn add(&mut self, sample: u32, field: u32, entries: &[u8]) -> bool {
        assert!(entries.len() <= ENTRIES_BYTES_MAX, "{} bytes of entries", entries.len());
        let bytes = 4 + self.records.len() + RECORD_BYTES + self.entries.len() + entries.len();
        if entries.is_empty() || bytes > SHARD_ENTRIES_BYTES_MAX {
            return false;
        }
        self.entries.extend(entries);
        for word in [sample, field, self.entries.len() as u32] {
            self.records.extend(word.to_le_bytes());
        }
        true
    }

    /// The entries of all images added.
    #[must_use]
    pub fn finish(self) -> ShardEntries {
        let count = ((self.records.len() / RECORD_BYTES) as u32).to_le_bytes();
        ShardEntries { bytes: [&count[..], &self.records, &self.entries].concat().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> ShardEntries {
        let mut builder = ShardEntriesBuilder::default();
        assert!(builder.add(1, 0, b"first"));
        assert!(builder.add(1, 2, &[7; ENTRIES_BYTES_MAX]));
        assert!(!builder.add(2, 0, b""));
        assert!(builder.add(9, 0, b"last"));
        builder.finish()
    }

    #[test]
    fn each_image_has_its_own_entries_and_others_have_none() {
        let entries = three();
        assert_eq!(entries.images(), 3);
        assert_eq!(entries.of(1, 0), b"first");
        assert_eq!(entries.of(1, 2), [7; ENTRIES_BYTES_MAX]);
        assert_eq!(entries.of(9, 0), b"last");
        for (sample, field) in [(0, 0), (1, 1), (2, 0), (9, 1), (10, 0)] {
            assert_eq!(entries.of(sample, field), b"", "{sample} {field}");
        }
        let none = ShardEntriesBuilder::default().finish();
        assert_eq!((none.images(), none.of(0, 0)), (0, &b""[..]));
    }

    #[test]
    fn the_entries_of_some_samples_go_with_them() {
        let some = three().only(10, |sample| sample != 0 && sample != 5);
        assert_eq!((some.images(), some.of(0, 0), some.of(7, 0)), (3, &b"first"[..], &b"last"[..]));
        assert_eq!(some.of(0, 2), [7; ENTRIES_BYTES_MAX]);
        let last = three().only(10, |sample| sample == 9);
        assert_eq!((last.images(), last.of(0, 0)), (1, &b"last"[..]));
        assert_eq!(three().only(10, |_| true), three());
        assert_eq!(three().only(10, |sample| sample == 3).images(), 0);
    }

    #[test]
    fn entries_come_back_and_no_part_of_them_does() {
        for entries in [three(), ShardEntriesBuilder::default().finish()] {
            let bytes = entries.as_bytes();
            assert_eq!(ShardEntries::from_bytes(bytes.into()).as_ref(), Some(&entries));
            for cut in 0..bytes.len() {
                assert_eq!(ShardEntries::from_bytes(bytes[..cut].into()), None, "{cut}");
            }
            assert_eq!(ShardEntries::from_bytes([bytes, &[0]].concat().into()), None);
        }
    }

    /// For any bytes: `of` reads only within them, and no more than an image may have.
    #[test]
    fn a_changed_byte_is_refused_or_harmless() {
        let bytes = three().as_bytes().to_vec();
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] ^= change;
                let Some(read) = ShardEntries::from_bytes(broken.into()) else { continue };
                let images =
                    (0..1 << 9).flat_map(|sample| (0..4).map(move |field| (sample, field)));
                for (sample, field) in images {
                    assert!(read.of(sample, field).len() <= ENTRIES_BYTES_MAX);
                }
            }
        }
    }

    #[test]
    fn records_out_of_order_are_refused() {
        let mut builder = ShardEntriesBuilder::default();
        builder.add(2, 0, b"a");
        builder.add(1, 0, b"b");
        assert_eq!(ShardEntries::from_bytes(builder.finish().as_bytes().into()), None);
    }
}
