//! Position of each tensor of a batch in a slot.

use crate::recipe::{FieldTensor, MX_BLOCK, RawSpec};
use crate::{Dtype, Recipe};

/// Tensors begin at multiples of this many bytes.
pub const TENSOR_ALIGN_BYTES: u64 = 256;

/// A run of bytes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// First byte, counted from the start of the slot.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub len_bytes: u64,
}

/// One tensor of a batch: C order, `views` blocks of `samples` rows of `row_shape`.
///
/// Crop-major, as DINOv2 collates: row `view * samples + sample`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorLayout {
    /// Name, as the recipe gives it; `labels` for the class indices.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Whether its rows are views of images, and not patches, the scales of their blocks, fields or labels.
    pub is_image: bool,
    /// Views of each sample in this tensor; 1 for labels.
    pub views: u32,
    /// Shape of one row: `[3, height, width]` for images, `[1, height, width]` for masks, `[bytes_max]` for
    /// encoded ones, as its recipe says for a field, `[boxes_max, 4]` for boxes, empty for labels.
    pub row_shape: Vec<u32>,
    /// First byte in the slot; a multiple of [`TENSOR_ALIGN_BYTES`].
    pub offset_bytes: u64,
    /// Bytes of one row.
    pub row_bytes: u64,
}

/// All tensors of a batch of a given number of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    samples: u32,
    tensors: Vec<TensorLayout>,
    len_bytes: u64,
}

// === impl TensorLayout ===

impl TensorLayout {
    /// Shape for a batch of `samples`: `[views * samples, row_shape..]`.
    #[must_use]
    pub fn shape(&self, samples: u32) -> Vec<u64> {
        let rows = u64::from(self.views) * u64::from(samples);
        std::iter::once(rows).chain(self.row_shape.iter().map(|&d| u64::from(d))).collect()
    }
}

// === impl Layout ===

impl Layout {
    /// Name of the tensor of class indices, `i64[samples]`, the last of every batch.
    pub const LABELS: &'static str = "labels";

    /// Lays out the tensors of `samples` samples. The recipe's image tensors come first, in its
    /// order, each followed by the scales of its blocks, or by places and validity of its patches, if any. Then come the tensors that follow
    /// them (masks and depth), encoded bytes if the recipe has them, the tensors of fields, boxes,
    /// those of where views lie, and the labels.
    #[must_use]
    pub fn new(recipe: &Recipe, samples: u32) -> Self {
        let mut tensors = Vec::with_capacity(recipe.tensors.len() + 1);
        let mut end = 0u64;
        let mut place = |name: &str, dtype: Dtype, views: u32, row_shape: Vec<u32>| {
            let elements: u64 = row_shape.iter().map(|&d| u64::from(d)).product();
            let row_bytes = elements * dtype.size_bytes();
            let offset_bytes = end.next_multiple_of(TENSOR_ALIGN_BYTES);
            end = offset_bytes + row_bytes * u64::from(views) * u64::from(samples);
            tensors.push(TensorLayout {
                name: name.to_owned(),
                dtype,
                is_image: recipe.tensors.iter().any(|tensor| tensor.name == name)
                    && recipe.sequences_of(name).is_none(),
                views,
                row_shape,
                offset_bytes,
                row_bytes,
            });
        };
        for tensor in &recipe.tensors {
            let (views, height, width) = (tensor.views.len() as u32, tensor.height, tensor.width);
            if let Some(spec) = recipe.sequences_of(&tensor.name) {
                let length = spec.lengths[0];
                let values = 3 * spec.patch_size * spec.patch_size;
                place(&tensor.name, tensor.dtype, views, vec![length, values]);
                place(&spec.coord_name(), Dtype::I64, views, vec![length, 2]);
                place(&spec.valid_name(), Dtype::Bool, views, vec![length]);
                continue;
            }
            place(&tensor.name, tensor.dtype, views, vec![3, height, width]);
            if let Some(scales) = tensor.scales_name() {
                place(&scales, Dtype::E8m0, views, vec![3, height, width.div_ceil(MX_BLOCK)]);
            }
        }
        for aligned in &recipe.aligned {
            let views = recipe.views_of(&aligned.like).len() as u32;
            let shape = vec![aligned.channels, aligned.height, aligned.width];
            place(&aligned.name, aligned.dtype, views, shape);
        }
        if let Some(RawSpec { bytes_max }) = recipe.raw {
            place(RawSpec::BYTES, Dtype::U8, 1, vec![bytes_max]);
            place(RawSpec::SIZES, Dtype::I64, 1, Vec::new());
        }
        for FieldTensor { name, dtype, views, row_shape } in recipe.field_tensors() {
            place(&name, dtype, views, row_shape);
        }
        for boxes in &recipe.boxes {
            let (views, most) = (recipe.views_of(&boxes.like).len() as u32, boxes.boxes_max);
            place(&boxes.name, Dtype::F32, views, vec![most, 4]);
            place(&boxes.count_name(), Dtype::I64, views, Vec::new());
            place(&boxes.index_name(), Dtype::I64, views, vec![most]);
            if let Some(labels) = boxes.labels_name() {
                place(&labels, Dtype::I64, views, vec![most]);
            }
        }
        for geometry in &recipe.geometry {
            let views = recipe.views_of(&geometry.like).len() as u32;
            place(&geometry.name, Dtype::F32, views, vec![2, 3]);
            place(&geometry.box_name(), Dtype::F32, views, vec![4]);
            place(&geometry.flip_name(), Dtype::U8, views, vec![2]);
            place(&geometry.size_name(), Dtype::I64, 1, vec![2]);
        }
        place(Self::LABELS, Dtype::I64, 1, Vec::new());
        Self { samples, tensors, len_bytes: end.next_multiple_of(TENSOR_ALIGN_BYTES) }
    }

    /// The layout of the bucket whose batches have the most bytes, of `samples` samples in the first one; of a recipe of one
    /// size its own.
    #[must_use]
    pub fn largest(recipe: &Recipe, samples: u32) -> Self {
        let layouts = recipe
            .each_bucket()
            .zip(0..)
            .map(|(of, bucket)| Self::new(&of, recipe.samples_in_bucket(bucket, samples)));
        layouts.max_by_key(Self::len_bytes).expect("there is one bucket at least")
    }

    /// Samples of the batch.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// The tensors in the order of their offsets.
    #[must_use]
    pub fn tensors(&self) -> &[TensorLayout] {
        &self.tensors
    }

    /// Bytes of a slot that holds the batch; a multiple of [`TENSOR_ALIGN_BYTES`].
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The bytes of one whole tensor.
    #[must_use]
    pub fn tensor_region(&self, tensor: &TensorLayout) -> Region {
        let rows = u64::from(tensor.views) * u64::from(self.samples);
        Region { offset_bytes: tensor.offset_bytes, len_bytes: rows * tensor.row_bytes }
    }

    /// The bytes that the samples `first .. first + count` own: one region per tensor and view,
    /// tensors in order, views in order within a tensor. Row `k` of a region is sample
    /// `first + k`. Regions of disjoint ranges are disjoint; together they leave out only the
    /// padding between tensors.
    ///
    /// # Panics
    /// The range goes beyond the batch.
    #[must_use]
    pub fn part_regions(&self, first: u32, count: u32) -> Vec<Region> {
        assert!(
            first.checked_add(count).is_some_and(|end| end <= self.samples),
            "part {first}+{count} of a batch of {} samples",
            self.samples
        );
        let view_region = |tensor: &TensorLayout, view: u32| {
            let row = u64::from(view) * u64::from(self.samples) + u64::from(first);
            Region {
                offset_bytes: tensor.offset_bytes + row * tensor.row_bytes,
                len_bytes: u64::from(count) * tensor.row_bytes,
            }
        };
        self.tensors
            .iter()
            .flat_map(|tensor| (0..tensor.views).map(move |view| view_region(tensor, view)))
            .collect()
    }
}
