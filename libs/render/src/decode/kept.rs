//! An image as the decoded cache has it: planes of rows, each band of rows with a sum.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use headwater_cache::{Cached, EntryWriter, Unavailable};
use headwater_core::draw::Extent;
use headwater_jpeg::Layout;
use xxhash_rust::xxh3::xxh3_64;

use headwater_pixels::image::RgbImage;

/// Rows of a plane that have a sum.
const BAND_ROWS: usize = 32;
/// Planes of an image at most.
const PLANES_MAX: usize = 3;
/// Bytes of an entry's meta before the sums: a number for the form, and what it says.
const FORM_BYTES: usize = 4 + 12;
const COLOURS: u32 = 0;
const SAMPLES: u32 = 1;

/// What is kept of an image. All else follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Planes R, G, B, with rows as [`RgbImage`] has them.
    Colours(Extent),
    /// The samples of a JPEG's components, where they are fewer bytes than that.
    Samples(Layout),
}

/// An image that is there.
#[derive(Debug)]
pub(super) struct Kept {
    entry: Cached,
    form: Form,
}

#[derive(Clone, Copy, Debug, Default)]
struct Plane {
    stride: usize,
    rows: usize,
}

// === impl Plane ===

impl Plane {
    fn bytes(&self) -> usize {
        self.rows * self.stride
    }

    fn bands(&self) -> usize {
        self.rows.div_ceil(BAND_ROWS)
    }
}

// === impl Form ===

impl Form {
    /// The samples of a JPEG, or its colours where these take no more.
    pub(super) fn of_jpeg(layout: &Layout) -> Self {
        let extent = Extent { width: layout.width(), height: layout.height() };
        let (samples, colours) = (Self::Samples(*layout), Self::Colours(extent));
        if samples.bytes() < colours.bytes() { samples } else { colours }
    }

    /// Size of the image.
    pub(super) fn extent(&self) -> Extent {
        match self {
            Self::Colours(extent) => *extent,
            Self::Samples(layout) => Extent { width: layout.width(), height: layout.height() },
        }
    }

    /// Bytes of all planes.
    pub(super) fn bytes(&self) -> usize {
        self.planes().iter().map(Plane::bytes).sum()
    }

    /// Writes planes, which begin with their first rows; the entry's meta.
    pub(super) fn put<'a>(
        &self,
        planes: impl Iterator<Item = &'a [u8]>,
        writer: &mut EntryWriter<'_>,
    ) -> Result<Vec<u8>, Unavailable> {
        let mut meta = self.encode().to_vec();
        for (plane, from) in self.planes().iter().zip(planes) {
            let rows = &from[..plane.bytes()];
            let sums = rows.chunks(BAND_ROWS * plane.stride).map(xxh3_64);
            sums.for_each(|sum| meta.extend(sum.to_le_bytes()));
            writer.write_all(rows)?;
        }
        Ok(meta)
    }

    /// Those beyond the last have no rows.
    fn planes(&self) -> [Plane; PLANES_MAX] {
        let mut planes = [Plane::default(); PLANES_MAX];
        match self {
            Self::Colours(extent) => {
                let stride = RgbImage::stride_of(*extent);
                planes.fill(Plane { stride, rows: extent.height as usize });
            }
            Self::Samples(layout) => {
                for (plane, of) in planes.iter_mut().zip(layout.planes()) {
                    *plane = Plane { stride: of.stride, rows: of.rows };
                }
            }
        }
        planes
    }

    fn encode(&self) -> [u8; FORM_BYTES] {
        let mut bytes = [0; FORM_BYTES];
        let (number, said) = bytes.split_at_mut(4);
        match self {
            Self::Colours(Extent { width, height }) => {
                number.copy_from_slice(&COLOURS.to_le_bytes());
                said[..4].copy_from_slice(&width.to_le_bytes());
                said[4..8].copy_from_slice(&height.to_le_bytes());
            }
            Self::Samples(layout) => {
                number.copy_from_slice(&SAMPLES.to_le_bytes());
                said.copy_from_slice(&layout.write());
            }
        }
        bytes
    }

    fn decode(bytes: &[u8; FORM_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        match word(0) {
            COLOURS => Some(Self::Colours(Extent { width: word(4), height: word(8) })),
            SAMPLES => {
                Layout::read(&std::array::from_fn(|byte| bytes[4 + byte])).map(Self::Samples)
            }
            _ => None,
        }
    }
}

// === impl Kept ===

impl Kept {
    /// # Errors
    /// The entry, where it is not an image as this release writes it.
    pub(super) fn of(entry: Cached) -> Result<Self, Box<Cached>> {
        match form_of(&entry) {
            Some(form) => Ok(Self { entry, form }),
            None => Err(Box::new(entry)),
        }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn entry(&self) -> &Cached {
        &self.entry
    }

    /// Reads rows of a plane, which begins with its first row, and those in the same bands. Returns `false` where
    /// they are not what was written.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn read_rows(
        &self,
        number: usize,
        rows: Range<usize>,
        plane: &mut [u8],
    ) -> io::Result<bool> {
        let planes = self.form.planes();
        let (before, Plane { stride, rows: rows_all }) = (&planes[..number], planes[number]);
        let bands = rows.start / BAND_ROWS..rows.end.div_ceil(BAND_ROWS);
        let rows = bands.start * BAND_ROWS..(bands.end * BAND_ROWS).min(rows_all);
        let bytes = &mut plane[rows.start * stride..rows.end * stride];
        let offset = before.iter().map(Plane::bytes).sum::<usize>() + rows.start * stride;
        self.entry.file().read_exact_at(bytes, self.entry.payload_offset() + offset as u64)?;
        let first = before.iter().map(Plane::bands).sum::<usize>();
        let (sums, _) = self.entry.meta()[FORM_BYTES..].as_chunks();
        let sums = &sums[first + bands.start..first + bands.end];
        let mut read = bytes.chunks(BAND_ROWS * stride).zip(sums);
        Ok(read.all(|(rows, sum)| xxh3_64(rows) == u64::from_le_bytes(*sum)))
    }
}

fn form_of(entry: &Cached) -> Option<Form> {
    let (form, sums) = entry.meta().split_first_chunk()?;
    let form = Form::decode(form)?;
    let bands: usize = form.planes().iter().map(Plane::bands).sum();
    let is_ours =
        sums.len() == bands * size_of::<u64>() && entry.payload_bytes() == form.bytes() as u64;
    is_ours.then_some(form)
}
