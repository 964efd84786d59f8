//! What a stream of a GPU is to the rest: memory, copies, launches.

use std::fmt;

use headwater_core::draw::Extent;
use headwater_part_rows::Pins;

use super::launch::Launch;
use super::rows::DirectRows;

/// One stream with its memory, the arena.
///
/// Contract: calls take effect in the order in which they are made, each after the one before it
/// has ended, though none but [`Device::download`] need wait for that. After an error nothing that
/// the device holds means anything, and every later call fails too. Places are offsets in bytes from
/// the start of the arena, which lies at a multiple of 256 bytes.
pub trait Device: Send {
    /// Name of the device for logs.
    fn name(&self) -> String;

    /// Bytes of the arena.
    fn arena_bytes(&self) -> u64;

    /// Bytes of shared memory that a block may ask for.
    fn shared_bytes_max(&self) -> u32;

    /// Copies `bytes` to the arena; they may be changed as soon as this returns.
    ///
    /// # Errors
    /// The device failed, now or before.
    ///
    /// # Panics
    /// The place is not within the arena.
    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// As [`Device::upload`] of pieces that lie one behind the other there.
    ///
    /// # Errors
    /// The device failed, now or before.
    ///
    /// # Panics
    /// The place is not within the arena.
    fn upload_pieces(&mut self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let mut at = offset;
        for piece in pieces {
            self.upload(at, piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Decodes JPEGs to the arena by the device's own decoder; of each whether that was done. What
    /// was not, the caller decodes. The files stay as they are until the next [`Device::download`].
    /// `engine_load`: share of the images that are tried on the device's engines.
    ///
    /// # Errors
    /// The device failed, now or before, or has no decoder; or an image needs more memory than
    /// that decoder has.
    ///
    /// # Panics
    /// A place is not within the arena.
    fn decode_jpegs(
        &mut self,
        _images: &[JpegImage<'_>],
        _engine_load: f64,
    ) -> Result<Vec<bool>, JpegError> {
        let doing = "decode JPEGs".to_owned();
        Err(DeviceError { doing, reason: "it has no decoder".to_owned() }.into())
    }

    /// Runs a kernel.
    ///
    /// # Errors
    /// The device failed, now or before.
    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError>;

    /// What makes memory of the host reachable for [`Device::download_rows`]; `None`: nothing does.
    fn pins(&self) -> Option<&dyn Pins> {
        None
    }

    /// Writes rows to their places, and then does as [`Device::download`].
    ///
    /// # Errors
    /// The device failed, now or before.
    ///
    /// # Panics
    /// A place is not within the arena, or the device has no [`Device::pins`].
    fn download_rows(
        &mut self,
        _rows: &DirectRows,
        _offset: u64,
        _bytes: u64,
    ) -> Result<&[u8], DeviceError> {
        unreachable!("a device without pins is given no rows")
    }

    /// Waits for all calls before and gives bytes of the arena.
    ///
    /// # Errors
    /// The device failed, now or before.
    ///
    /// # Panics
    /// The place is not within the arena.
    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError>;
}

/// A JPEG and where its pixels go.
#[derive(Clone, Copy, Debug)]
pub struct JpegImage<'a> {
    /// The file.
    pub encoded: &'a [u8],
    /// Its size in pixels.
    pub extent: Extent,
    /// Place of the first pixel; they are interleaved RGB without padding.
    pub offset: u64,
}

/// A device that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DeviceError {
    /// What was done: `launch finish_views`.
    pub doing: String,
    /// What the driver said.
    pub reason: String,
}

// === impl DeviceError ===

/// Why a device has not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JpegError {
    /// An image needs more memory than its decoder has, the sentence says which and what to do. It
    /// has not failed: other images may be decoded.
    Memory(String),
    /// It has failed.
    Device(DeviceError),
}

impl From<DeviceError> for JpegError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.reason)
    }
}
