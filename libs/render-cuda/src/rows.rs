//! Rows as the kernels leave them, and where they go: elements to the part's memory, and what lies
//! behind them to whom it concerns.
//!
//! Where the device can reach the part's memory it writes the rows there by itself; else they come by way of
//! memory of the device's own.

use headwater_core::cast::Normalise;
use headwater_core::{Dtype, Recipe};
use headwater_part_rows::{DeviceBytes, Pins};
use headwater_pixels::ops::amax;
use headwater_render::{RenderError, ViewSink, check_row};

use super::arena::Row;
use super::job::Job;

/// A row that a device writes to its place by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectRow {
    /// Place of its first byte in the arena.
    pub(super) offset: u64,
    /// Where it goes; as many bytes as it has.
    pub(super) to: DeviceBytes,
    /// Whose row: number of the sample, tensor, view.
    pub(super) of: (usize, usize, usize),
}

/// Rows that a device writes to their sinks by itself: to memory that its own pins have pinned or to a receiver's GPU, no two
/// of them to the same bytes. Until that is done nobody asks the sinks for them, as the sinks are borrowed for the whole of
/// `render_all`.
#[derive(Debug)]
pub struct DirectRows(Vec<DirectRow>);

// === impl DirectRows ===

impl DirectRows {
    /// All rows of a load, which lies at `rows_at`, by the pins of the device that has it; `None` where something lies
    /// behind elements, or one of them goes where the device cannot reach. Rows in a receiver's GPU cannot be summed
    /// by the host: without `summed` there are none.
    pub(super) fn all(
        pins: &dyn Pins,
        recipe: &Recipe,
        (rows, rows_at): (&[Row], u64),
        summed: bool,
        sinks: &mut [&mut dyn ViewSink],
    ) -> Option<Self> {
        let is_bare = |dtype| !matches!(dtype, Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3);
        if !recipe.tensors.iter().all(|tensor| is_bare(tensor.dtype)) {
            return None;
        }
        let direct = |row: &Row| {
            let to = sinks[row.sample].device_row(row.tensor, row.view, pins)?;
            let (to, offset) = (to.bytes(), rows_at + row.offset);
            let fits = to.len_bytes() == row.bytes && (summed || !in_window(&to));
            let of = (row.sample, row.tensor, row.view);
            fits.then_some(DirectRow { offset, to, of })
        };
        rows.iter().map(direct).collect::<Option<_>>().map(Self)
    }

    /// Those of some samples, where `rows` are the rows that they were made of.
    pub(super) fn of_samples(&self, rows: &[Row], samples: &[usize]) -> Self {
        let all = rows.iter().zip(&self.0);
        Self(
            all.filter(|(row, _)| samples.contains(&row.sample))
                .map(|(_, direct)| *direct)
                .collect(),
        )
    }

    /// Whether any lies in a receiver's GPU. Such a row must be final before it is copied.
    pub(super) fn are_in_windows(&self) -> bool {
        self.0.iter().any(|row| in_window(&row.to))
    }

    /// Those of the samples that `is_final` is true of. Their sinks know that they are on their way from here on.
    pub(super) fn begun(
        &self,
        sinks: &mut [&mut dyn ViewSink],
        is_final: impl Fn(usize) -> bool,
    ) -> Self {
        let good: Vec<_> = self.0.iter().copied().filter(|row| is_final(row.of.0)).collect();
        for &DirectRow { of: (sample, tensor, view), .. } in &good {
            sinks[sample].device_begins(tensor, view);
        }
        Self(good)
    }

    pub(super) fn rows(&self) -> &[DirectRow] {
        &self.0
    }
}

/// Passes on a row as kernels have left it, or its checksum where the device has written the bytes to their place.
pub(super) fn deliver(job: &mut Job<'_, '_>, row: &Row, Left { bytes, sum }: Left<'_>) {
    let Row { sample, tensor, view, .. } = *row;
    let ended = match (bytes, sum) {
        (Some(bytes), _) => hand_out(job.recipe, row, bytes, &mut *job.sinks[sample]),
        (None, Some(sum)) => {
            job.sinks[sample].device_summed(tensor, view, sum);
            Ok(())
        }
        (None, None) => Ok(()),
    };
    if let Err(error) = ended {
        job.note(sample, Err(error));
    }
}

/// What kernels have left of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left<'a> {
    /// `None` where the device has written them to their place.
    pub(super) bytes: Option<&'a [u8]>,
    /// `None` where the host computes it.
    pub(super) sum: Option<u64>,
}

fn in_window(to: &DeviceBytes) -> bool {
    matches!(to, DeviceBytes::Window { .. })
}

/// Hands out a row.
///
/// # Errors
/// The sink gave memory of another length than the recipe says.
fn hand_out(
    recipe: &Recipe,
    row: &Row,
    bytes: &[u8],
    out: &mut dyn ViewSink,
) -> Result<(), RenderError> {
    let Row { tensor, view, .. } = *row;
    let spec = &recipe.tensors[tensor];
    let values = 3 * u64::from(spec.width) * u64::from(spec.height);
    let (elements, behind) = bytes.split_at((values * spec.dtype.size_bytes()) as usize);
    let to = out.row(tensor, view);
    check_row(tensor, view, elements.len(), to.len())?;
    to.copy_from_slice(elements);
    match spec.dtype {
        Dtype::Fp8E4m3 => {
            let ranges = [0, 2, 4].map(|at| [behind[at], behind[at + 1]]);
            out.fp8_amax(tensor, amax::of_ranges(&ranges, &Normalise::of(recipe)));
        }
        Dtype::Mxfp8E4m3 => {
            let to = out.block_scales(tensor, view);
            check_row(tensor, view, behind.len(), to.len())?;
            to.copy_from_slice(behind);
        }
        _ => {}
    }
    Ok(())
}
