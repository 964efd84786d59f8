//! The first page of an entry's file.
//!
//! | offset | bytes | content, numbers little-endian |
//! | --- | --- | --- |
//! | 0 | 8 | magic, 0xDEADBEEFCAFEF00D |
//! | 8 | 4 | version of the format, 1 |
//! | 12 | 4 | offset of the payload, 4096 |
//! | 16 | 16 | key |
//! | 32 | 8 | bytes of the payload |
//! | 40 | 8 | bytes of the meta, which follows it |
//! | 48 | 16 | XXH3-128 of the payload |
//! | 64 | 16 | XXH3-128 of the meta |
//! | 80 | 8 | time of change that the file is given, in seconds since 1970 |
//! | 88 | 3992 | zero |
//! | 4080 | 16 | XXH3-128 of the 4080 bytes before |

use xxhash_rust::xxh3::xxh3_128;

use crate::Key;

/// Where the payload begins: a page, so that it can be mapped.
pub(crate) const HEADER_BYTES: usize = 4096;
const MAGIC: u64 = 0xDEAD_BEEF_CAFE_F00D;
const VERSION: u32 = 1;
const CHECKSUM_AT: usize = HEADER_BYTES - 16;

/// What the first page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key: Key,
    pub(crate) payload_bytes: u64,
    pub(crate) meta_bytes: u64,
    pub(crate) payload_checksum: u128,
    pub(crate) meta_checksum: u128,
    /// Whole seconds since 1970, which every file system keeps: a later write leaves another time.
    pub(crate) sealed_at: u64,
}

// === impl Header ===

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut page = [0; HEADER_BYTES];
        page[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        page[16..32].copy_from_slice(self.key.bytes());
        page[32..40].copy_from_slice(&self.payload_bytes.to_le_bytes());
        page[40..48].copy_from_slice(&self.meta_bytes.to_le_bytes());
        page[48..64].copy_from_slice(&self.payload_checksum.to_le_bytes());
        page[64..80].copy_from_slice(&self.meta_checksum.to_le_bytes());
        page[80..88].copy_from_slice(&self.sealed_at.to_le_bytes());
        let checksum = xxh3_128(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// What is wrong with the page, if something is.
    pub(crate) fn decode(page: &[u8; HEADER_BYTES], key: &Key) -> Result<Self, String> {
        let number = |at: usize| u64::from_le_bytes(array(page, at));
        if number(0) != MAGIC {
            return Err("it does not begin as an entry does".to_owned());
        }
        if u128::from_le_bytes(array(page, CHECKSUM_AT)) != xxh3_128(&page[..CHECKSUM_AT]) {
            return Err("its header does not have its checksum".to_owned());
        }
        let version = u32::from_le_bytes(array(page, 8));
        if (version, u32::from_le_bytes(array(page, 12))) != (VERSION, HEADER_BYTES as u32) {
            return Err(format!("it is of version {version} of the format, not {VERSION}"));
        }
        let found = Key::new(array(page, 16));
        if found != *key {
            return Err(format!("it is the entry of key {found}"));
        }
        Ok(Self {
            key: found,
            payload_bytes: number(32),
            meta_bytes: number(40),
            payload_checksum: u128::from_le_bytes(array(page, 48)),
            meta_checksum: u128::from_le_bytes(array(page, 64)),
            sealed_at: number(80),
        })
    }

    /// Bytes of the file; `None` if that is more than any file can have.
    pub(crate) fn file_bytes(&self) -> Option<u64> {
        (HEADER_BYTES as u64).checked_add(self.payload_bytes)?.checked_add(self.meta_bytes)
    }
}

fn array<const N: usize>(page: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|byte| page[at + byte])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key::new([7; 16]);

    fn header() -> Header {
        Header {
            key: KEY,
            payload_bytes: 1 << 33,
            meta_bytes: 9,
            payload_checksum: 3,
            meta_checksum: u128::MAX,
            sealed_at: 5,
        }
    }

    #[test]
    fn a_page_is_read_as_it_was_written_and_a_changed_byte_is_noticed() {
        let page = header().encode();
        assert_eq!(page[..8], [0x0D, 0xF0, 0xFE, 0xCA, 0xEF, 0xBE, 0xAD, 0xDE]);
        assert_eq!(Header::decode(&page, &KEY), Ok(header()));
        for at in 0..HEADER_BYTES {
            let mut page = page;
            page[at] ^= 0x10;
            assert!(Header::decode(&page, &KEY).is_err(), "byte {at}");
        }
    }

    #[test]
    fn another_key_and_another_version_are_named() {
        let mut page = header().encode();
        let fault = Header::decode(&page, &Key::new([8; 16])).unwrap_err();
        assert!(fault.contains(&KEY.to_string()), "{fault}");
        page[8] = 2;
        let checksum = xxh3_128(&page[..CHECKSUM_AT]).to_le_bytes();
        page[CHECKSUM_AT..].copy_from_slice(&checksum);
        assert!(Header::decode(&page, &KEY).unwrap_err().contains("version 2"));
        let endless = Header { payload_bytes: u64::MAX - 100, ..header() };
        assert_eq!(endless.file_bytes(), None);
    }
}
