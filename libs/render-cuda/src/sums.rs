//! Checksums of rows by the device, so that no core has to read again what the device wrote.

use xxhash_rust::xxh3::xxh3_64;

use super::arena::{ALIGN_BYTES, Row, Sums, padded};
use super::device::{Device, DeviceError};
use super::error::{ProofError, SUMS_STEP};
use super::launch::{Kernel, Launch};

/// Rows of fewer bytes have checksums of another form, which the kernel does not know.
const ROW_BYTES_MIN: u64 = 241;
/// Bytes of a record of `sum_rows`.
const RECORD_BYTES: u64 = 16;
/// Bytes of a checksum.
const SUM_BYTES: u64 = 8;

/// Threads of a block of `sum_rows`: a warp that puts sums together, and groups of eight that add up blocks.
const THREADS: u32 = 256;
/// Bytes of shared memory for the sums of two times as many blocks as there are such groups.
const SHARED_BYTES: u32 = 2 * 16 * 8 * (THREADS / 8 - 4);

/// Bytes of the list of `rows` rows.
pub(super) fn list_bytes(rows: usize) -> u64 {
    RECORD_BYTES * rows as u64
}

/// Room for the checksums of `rows` rows.
pub(super) fn sums_bytes(rows: usize) -> u64 {
    padded(SUM_BYTES * rows as u64)
}

/// Writes the list that `sum_rows` reads, of rows that lie from `rows_at` on.
pub(super) fn write_list(rows: &[Row], rows_at: u64, bytes: &mut Vec<u8>) {
    for row in rows {
        bytes.extend((rows_at + row.offset).to_le_bytes());
        bytes.extend(row.bytes.to_le_bytes());
    }
}

// === impl Sums ===

impl Sums {
    /// Of rows whose list lies at a place.
    pub(super) fn new(rows: &[Row], list_at: u64, at: u64) -> Self {
        let all_long = rows.iter().all(|row| row.bytes >= ROW_BYTES_MIN);
        let launch = Launch {
            kernel: Kernel::SumRows,
            blocks: rows.len() as u32,
            threads: THREADS,
            shared_bytes: SHARED_BYTES,
            records: [list_at, at],
        };
        Self { at, launch: Some(launch).filter(|_| all_long && !rows.is_empty()) }
    }
}

/// The checksums in bytes that came from [`Sums::at`] on.
pub(super) fn read(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|sum| u64::from_le_bytes(*sum))
}

/// Lengths of the proof's rows: before and behind the ends of stripes and blocks, more blocks than there are groups
/// of threads, places that are no multiple of eight.
const PROOF_ROWS: [u64; 8] = [241, 1023, 1024, 1025, 1089, 28 << 10, (57 << 10) + 13, 100_003];

/// Has a device sum made-up rows and compares the checksums with the host's.
///
/// # Errors
/// One differs, or the device fails.
pub(super) fn prove(device: &mut impl Device) -> Result<(), ProofError> {
    let mut rows = Vec::new();
    let mut end = 0;
    for bytes in PROOF_ROWS {
        rows.push(Row { sample: 0, tensor: 0, view: 0, offset: end, bytes, record: 0 });
        end += bytes;
    }
    let step = |n: u64| n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let made_up = std::iter::successors(Some(1), |n| Some(step(*n))).map(|n| (n >> 56) as u8);
    let bytes: Vec<u8> = made_up.take(end as usize).collect();
    let sums = sums_on(device, &rows, &bytes)
        .map_err(|source| ProofError::Device { step: SUMS_STEP, source })?;
    let sum = |row: &Row| xxh3_64(&bytes[row.offset as usize..][..row.bytes as usize]);
    match rows.iter().zip(&sums).filter(|(row, found)| sum(row) != **found).count() {
        0 => Ok(()),
        differ => Err(ProofError::Sums { differ, rows: rows.len() }),
    }
}

fn sums_on(device: &mut impl Device, rows: &[Row], bytes: &[u8]) -> Result<Vec<u64>, DeviceError> {
    // The list, the checksums, and the rows.
    let sums_at = padded(list_bytes(rows.len()));
    let rows_at = sums_at + sums_bytes(rows.len());
    let mut list = Vec::new();
    write_list(rows, rows_at, &mut list);
    device.upload(0, &list)?;
    device.upload(rows_at, bytes)?;
    if let Some(launch) = Sums::new(rows, 0, sums_at).launch {
        device.launch(&launch)?;
    }
    Ok(read(device.download(sums_at, SUM_BYTES * rows.len() as u64)?).collect())
}

const _: () = assert!(ALIGN_BYTES.is_multiple_of(SUM_BYTES));
