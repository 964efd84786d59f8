//! The scan of a tar archive's headers.
//!
//! ustar, GNU long names and PAX headers are read. Left out are members that are no regular files,
//! names that start with a dot, and names without a dot, as WebDataset does. A field's name is all
//! that follows the first dot of the file name; members that follow each other and are equal up to
//! that dot are one sample. A sparse member's bytes do not lie in one piece: it is a fault.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use headwater_core::shard_index::ShardIndexError;
use headwater_core::{ShardIndex, ShardIndexBuilder, pluralize};
use headwater_storage_client::{Object, ObjectReader};

use crate::StorageError;

const BLOCK_BYTES: u64 = 512;
/// How far behind the end marker another archive is looked for.
const JOINED_SEARCH_BYTES: u64 = 1 << 20;

/// What was found in a shard.
#[derive(Debug)]
pub(super) struct Scan {
    /// The samples that are whole.
    pub(super) index: ShardIndex,
    /// Where each sample may be said to start.
    pub(super) starts: Vec<Start>,
    /// Why the rest of the shard is not in the index.
    pub(super) fault: Option<Fault>,
}

/// A sample's first member: tools disagree whether it starts with its own header or with the long
/// name or PAX header before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// First byte after the member before.
    pub(super) earliest: u64,
    /// Its own header.
    pub(super) header: u64,
}

/// Where and why a shard ends too early.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: u64,
    pub(super) what: String,
}

// === impl Fault ===

impl Fault {
    /// As an error of the shard.
    pub(super) fn of(&self, object: &dyn Object) -> StorageError {
        StorageError::BrokenTar { name: object.name(), at: self.at, fault: self.what.clone() }
    }
}

/// The sample whose members are being gathered.
struct Pending {
    key: String,
    start: Start,
    fields: Vec<(String, u64, u64)>,
}

#[derive(Default)]
struct Samples {
    index: ShardIndexBuilder,
    starts: Vec<Start>,
    /// Names of the last whole sample's fields.
    last_fields: Vec<String>,
    pending: Option<Pending>,
    /// The last sample of each key, by the key's hash.
    seen: HashMap<u64, u32>,
    hasher: RandomState,
}

/// Why the members that were found make no samples.
enum Refusal {
    Samples(ShardIndexError),
    /// One sample's members lie apart.
    Apart {
        key: String,
        at: u64,
    },
}

impl From<ShardIndexError> for Refusal {
    fn from(error: ShardIndexError) -> Self {
        Self::Samples(error)
    }
}

/// Scans a shard. Waits for the disk.
///
/// # Errors
/// A file that cannot be read; samples that cannot be distinguished, or too many samples. A shard
/// that breaks off is not an error here: see [`Scan::fault`].
pub(super) fn scan(object: &dyn Object) -> Result<Scan, StorageError> {
    let head = ObjectReader::new(object, 0).peek(0, BLOCK_BYTES)?;
    if head.is_empty() {
        return Err(StorageError::EmptyFile { name: object.name() });
    }
    if head.starts_with(b"PK\x03\x04") {
        let reason = "it is a zip archive: unpack it, and make shards of its files with `headwater datasets pack`";
        return Err(StorageError::Unserved { name: object.name(), reason: reason.to_owned() });
    }
    compressed(&head, object).map_or_else(|| scan_from(object, 0), Err)
}

/// First bytes of files that a compressor wrote: its name, and the command that undoes it. None of
/// them begins a tar archive, which has a file's name there and a checksum behind it.
const COMPRESSORS: [(&[u8], &str, &str); 4] = [
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"\xfd7zXZ\0", "xz", "unxz"),
    (b"BZh", "bzip2", "bunzip2"),
];

fn compressed(bytes: &[u8], object: &dyn Object) -> Option<StorageError> {
    let magic = |(magic, ..): &&(&[u8], _, _)| bytes.starts_with(magic);
    let (_, form, undo) = COMPRESSORS.iter().find(magic)?;
    // A member may be called `BZh..`: then a header stands there all the same.
    if bytes.get(257..262) == Some(b"ustar") {
        return None;
    }
    let name = object.name();
    let command = format!("{undo} {name}");
    Some(StorageError::Compressed { name, form, command })
}

/// As [`scan`], of a file that is an archive, or the end of one, from a byte on. Offsets count from
/// there.
pub(super) fn scan_from(object: &dyn Object, base: u64) -> Result<Scan, StorageError> {
    let refusal = |refusal| match refusal {
        Refusal::Samples(source) => StorageError::Samples { name: object.name(), source },
        Refusal::Apart { key, at } => StorageError::Unserved {
            name: object.name(),
            reason: format!(
                "the members of sample `{key}` lie apart, the second part from byte {at} on: write the archive in \
                 the order of its names (`tar --sort=name`), or make shards of the unpacked images with `headwater \
                 datasets pack`",
                key = key.escape_debug(),
            ),
        },
    };
    let bytes = ObjectReader::new(object, base);
    let mut samples = Samples::default();
    let mut archive = tar::Archive::new(&bytes);
    let mut end = 0;
    let mut fault = None;
    let entries = archive.entries_with_seek().expect("a fresh archive is at its start");
    for entry in entries {
        let member =
            entry.map_err(|e| broken_header(bytes.len(), end, &e)).and_then(|mut entry| {
                let sparse = is_sparse(&mut entry);
                Member::of(&entry, sparse, end, bytes.len()).map(|m| (m, after(&entry)))
            });
        if let Some(fault) = bytes.take_fault() {
            // Whatever the parser makes of it: it is not the archive that is at fault.
            return Err(fault.into());
        }
        match member {
            Ok((member, after)) => {
                end = after;
                if let Some(member) = member {
                    samples.add(member).map_err(refusal)?;
                }
            }
            Err((key, found)) => {
                fault = Some(found);
                samples.drop_if_cut(key.as_deref());
                break;
            }
        }
    }
    if fault.is_none() {
        fault = bad_end(&bytes, end)?;
        if fault.as_ref().is_some_and(|fault| fault.at == bytes.len()) {
            samples.drop_if_cut(None);
        }
    }
    samples.flush().map_err(refusal)?;
    Ok(Scan { index: samples.index.finish(), starts: samples.starts, fault })
}

/// A member that belongs to a sample.
struct Member {
    key: String,
    field: String,
    start: Start,
    offset: u64,
    bytes: u64,
}

type ShardEntry<'a, 'b> = tar::Entry<'a, &'b ObjectReader<'b>>;

// === impl Member ===

impl Member {
    /// The member, unless it is left out. A member that is cut off is a fault, with its key.
    fn of(
        entry: &ShardEntry<'_, '_>,
        sparse: bool,
        earliest: u64,
        shard_bytes: u64,
    ) -> Result<Option<Self>, (Option<String>, Fault)> {
        let header = entry.raw_header_position();
        let (offset, bytes) = (entry.raw_file_position(), entry.size());
        let path = entry.path_bytes();
        let kind = entry.header().entry_type();
        let regular = kind.is_file() || kind.is_contiguous();
        let Ok(path) = std::str::from_utf8(&path) else {
            let name = String::from_utf8_lossy(&path).into_owned();
            if !regular || split(&name).is_none() {
                return Ok(None);
            }
            let what = format!("the name of `{name}` is not UTF-8");
            return Err((None, Fault { at: header, what }));
        };
        let split = split(path);
        // First: its size is that of the whole, holes included.
        if sparse {
            let what = format!("`{path}` is stored sparse; write it without `--sparse`");
            return Err((split.map(|(key, _)| key.to_owned()), Fault { at: header, what }));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > shard_bytes) {
            let what = format!(
                "`{path}` has {} from byte {offset}, but the file ends at {shard_bytes}",
                pluralize(bytes, "byte")
            );
            let key = split.map(|(key, _)| key.to_owned());
            return Err((key, Fault { at: header, what }));
        }
        Ok(split.filter(|_| regular).map(|(key, field)| Self {
            key: key.to_owned(),
            field: field.to_owned(),
            start: Start { earliest, header },
            offset,
            bytes,
        }))
    }
}

/// Key and field name, unless the name is hidden or has no dot.
fn split(path: &str) -> Option<(&str, &str)> {
    let base = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base + path[base..].find('.')?;
    let (key, field) = (&path[..dot], &path[dot + 1..]);
    (dot > base && !field.is_empty()).then_some((key, field))
}

/// In GNU's old form, by type, or in its PAX forms, whose type is that of any file.
fn is_sparse(entry: &mut ShardEntry<'_, '_>) -> bool {
    let said = |key: &[u8]| key.starts_with(b"GNU.sparse.");
    entry.header().entry_type().is_gnu_sparse()
        || entry.pax_extensions().ok().flatten().is_some_and(|mut extensions| {
            extensions.any(|extension| extension.is_ok_and(|e| said(e.key_bytes())))
        })
}

fn after(entry: &ShardEntry<'_, '_>) -> u64 {
    let sparse = entry.header().entry_type().is_gnu_sparse();
    let stored = entry.header().entry_size().ok().filter(|_| sparse).unwrap_or(entry.size());
    entry.raw_file_position().saturating_add(stored).next_multiple_of(BLOCK_BYTES)
}

fn broken_header(len: u64, end: u64, error: &std::io::Error) -> (Option<String>, Fault) {
    let what = if len.saturating_sub(end) < BLOCK_BYTES {
        format!("the file ends at {len}, within a header")
    } else {
        format!("no tar header there ({error})")
    };
    (None, Fault { at: end.min(len), what })
}

/// What is wrong with the end of an archive whose members are all whole.
fn bad_end(bytes: &ObjectReader<'_>, end: u64) -> Result<Option<Fault>, StorageError> {
    let rest = bytes.peek(end, JOINED_SEARCH_BYTES)?;
    if rest.len() < BLOCK_BYTES as usize {
        let what = "the end marker is missing, so samples may be too".to_owned();
        return Ok(Some(Fault { at: bytes.len(), what }));
    }
    let mut blocks = rest.chunks_exact(BLOCK_BYTES as usize).enumerate();
    let filled = blocks.find(|(_, block)| block.iter().any(|&byte| byte != 0));
    Ok(filled.filter(|(_, block)| block[257..].starts_with(b"ustar")).map(|(zeros, _)| Fault {
        at: end + zeros as u64 * BLOCK_BYTES,
        what: "a second archive follows the end marker of the first; join them with `tar -A`"
            .to_owned(),
    }))
}

// === impl Samples ===

impl Samples {
    fn add(&mut self, member: Member) -> Result<(), Refusal> {
        let field = (member.field, member.offset, member.bytes);
        match &mut self.pending {
            Some(pending) if pending.key == member.key => pending.fields.push(field),
            _ => {
                self.flush()?;
                let fields = vec![field];
                self.pending = Some(Pending { key: member.key, start: member.start, fields });
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
        self.index.sample(&pending.key)?;
        for (name, offset, bytes) in &pending.fields {
            self.index.field(name, *offset, *bytes)?;
        }
        self.starts.push(pending.start);
        self.last_fields = pending.fields.into_iter().map(|(name, ..)| name).collect();
        let index = self.index.so_far();
        let hash = self.hasher.hash_one(&pending.key);
        let before = self.seen.insert(hash, index.samples() - 1);
        let Some(before) = before.filter(|sample| index.key(*sample) == Some(&pending.key)) else {
            return Ok(());
        };
        // Shards that were joined have samples of one key, with the same fields. Of all images and then all labels each
        // would make a sample of its own.
        let mut fields = index.fields(before);
        if fields.any(|field| self.last_fields.iter().any(|name| name == field.name)) {
            return Ok(());
        }
        Err(Refusal::Apart { key: pending.key, at: pending.start.earliest })
    }

    /// Forgets the last sample if the cut may have taken fields of it: the member that was cut is
    /// of the same key, or is not known and the sample has other fields than the one before.
    fn drop_if_cut(&mut self, cut_key: Option<&str>) {
        let last_fields = &self.last_fields;
        self.pending.take_if(|pending| match cut_key {
            Some(key) => pending.key == key,
            None => !pending.fields.iter().map(|(name, ..)| name).eq(last_fields),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_field_is_all_after_the_first_dot_of_the_file_name() {
        assert_eq!(split("a/b.c/000.seg.png"), Some(("a/b.c/000", "seg.png")));
        assert_eq!(split("000.jpg"), Some(("000", "jpg")));
        assert_eq!(split("./000.jpg"), Some(("./000", "jpg")));
        for left_out in [".hidden.jpg", "a/.hidden", "README", "a.b/README", "000.", "a/"] {
            assert_eq!(split(left_out), None, "{left_out}");
        }
    }
}
