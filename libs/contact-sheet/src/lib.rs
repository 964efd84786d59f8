//! A picture of what came out: a row for each sample, with all its views side by side, then its masks and
//! depth. Patches are put together again. Boxes are drawn on the views that they follow; texts, such as captions, stand under the row.
//!
//! Deliberately absent: where batches come from, and what becomes of the picture.
#![deny(unsafe_code)]

mod boxes;
mod captions;
mod glyphs;
mod levels;
mod patches;

use boxes::{Boxes, Drawn};
use captions::Captions;
use half::{bf16, f16};
use headwater_core::recipe::MX_BLOCK;
use headwater_core::{Dtype, Layout, Recipe, TensorLayout};

/// Pixels between views.
const GAP: usize = 4;
/// Grey of the paper.
const PAPER: u8 = 32;
/// Grey of texts.
const INK: u8 = 224;

/// Samples that can be drawn.
pub trait Pictured {
    /// Why a tensor's bytes are not available.
    type Error;

    /// Dtypes, shapes and places of the tensors.
    fn layout(&self) -> &Layout;

    /// A tensor's bytes, in C order.
    ///
    /// # Errors
    /// They lie on a GPU that does not give them back.
    fn tensor_bytes(&self, tensor: &TensorLayout) -> Result<Vec<u8>, Self::Error>;

    /// What an FP8 tensor's elements are multiplied by; `None` for other types.
    fn fp8_scale_inv(&self, tensor: &TensorLayout) -> Option<f32>;
}

/// An RGB picture.
#[derive(Debug)]
pub struct Sheet {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// What turns stored elements back into values from 0 to 255.
struct Scale {
    mean: [f32; 3],
    std: [f32; 3],
    fp8_scale_inv: f32,
}

// === impl Sheet ===

impl Sheet {
    /// Draws the first samples of a batch, at most `samples`.
    ///
    /// # Errors
    /// The batch lies on a GPU that does not give it back.
    pub fn draw<P: Pictured>(batch: &P, recipe: &Recipe, samples: usize) -> Result<Self, P::Error> {
        let batch_samples = batch.layout().samples() as usize;
        let samples = samples.min(batch_samples);
        let mut tensors = Vec::new();
        for tensor in batch.layout().tensors() {
            if let Some(sequences) = recipe.sequences_of(&tensor.name) {
                let drawn = patches::picture(batch, recipe, sequences, tensor, samples)?;
                tensors.extend(drawn.map(|(tensor, bytes)| (tensor, bytes, samples)));
            } else if is_picture(recipe, tensor) {
                let (tensor, bytes) = picture(batch, tensor)?;
                tensors.push((tensor, bytes, batch_samples));
            }
        }
        let tallest = tensors.iter().map(|(tensor, ..)| sides(tensor)[0]).max().unwrap_or(0);
        let columns = |(tensor, ..): &(TensorLayout, Vec<u8>, usize)| {
            let per_column = stacked(tensor, tallest);
            (tensor.views as usize).div_ceil(per_column) * (sides(tensor)[1] + GAP)
        };
        let width = GAP + tensors.iter().map(columns).sum::<usize>();
        let captions = Captions::of(batch, recipe, samples, width - GAP)?;
        let row = tallest + GAP + captions.height();
        let height = if tensors.is_empty() { 0 } else { GAP + samples * row };
        let mut sheet = Self { width, height, pixels: vec![PAPER; width * height * 3] };
        let mut left = GAP;
        for drawn in &tensors {
            let (tensor, bytes, of_view) = drawn;
            let scale = Scale::of(recipe, batch.fp8_scale_inv(tensor));
            let [view_height, view_width] = sides(tensor);
            let per_column = stacked(tensor, tallest);
            let boxes = Boxes::of(batch, recipe, &tensor.name)?;
            for view in 0..tensor.views as usize {
                let x = left + view / per_column * (view_width + GAP);
                let y = GAP + view % per_column * (view_height + GAP);
                for sample in 0..samples {
                    // Crop-major: all samples of the first view, then of the next.
                    let start = (view * of_view + sample) * tensor.row_bytes as usize;
                    let pixels = &bytes[start..start + tensor.row_bytes as usize];
                    let (top, number) = (y + sample * row, view * batch_samples + sample);
                    sheet.place(x, top, tensor, pixels, &scale);
                    for drawn in boxes.iter().flat_map(|boxes| boxes.in_row(number)) {
                        sheet.outline([x, top], [view_width, view_height], &drawn);
                    }
                }
            }
            left += columns(drawn);
        }
        if !sheet.is_empty() {
            (0..samples)
                .for_each(|sample| sheet.write(&captions, sample, GAP + sample * row + tallest));
        }
        Ok(sheet)
    }

    /// The texts of a sample, from a row of pixels on.
    fn write(&mut self, captions: &Captions, sample: usize, top: usize) {
        for [left, below] in captions.dots(sample) {
            for at in 0..captions.dot * captions.dot {
                let (x, y) = (left + at % captions.dot, below + at / captions.dot);
                // As far from the views as these from one another.
                self.dot(GAP + x, top + GAP + y, [INK; 3]);
            }
        }
    }

    /// One view, channels apart as they lie in the tensor.
    fn place(&mut self, left: usize, top: usize, of: &TensorLayout, bytes: &[u8], scale: &Scale) {
        let [height, width] = sides(of);
        if levels::has_levels(of) {
            for (at, colour) in levels::colours(of.dtype, bytes).into_iter().enumerate() {
                self.dot(left + at % width, top + at / width, colour);
            }
            return;
        }
        let element_bytes = of.dtype.size_bytes() as usize;
        for (at, element) in bytes.chunks_exact(element_bytes).enumerate() {
            let (channel, pixel) = (at / (height * width), at % (height * width));
            let (x, y) = (left + pixel % width, top + pixel / width);
            self.pixels[(y * self.width + x) * 3 + channel] =
                scale.grey(of.dtype, channel, element);
        }
    }

    /// The outline of a box in a view of `width` columns and `height` rows.
    fn outline(&mut self, [left, top]: [usize; 2], [width, height]: [usize; 2], drawn: &Drawn) {
        let colour = levels::class(drawn.index + 1);
        let [x0, y0, x1, y1] = drawn.corners;
        // Saturating, and the last pixel is that before the box's end.
        let at = |place: f32, side: usize| (place as usize).min(side - 1);
        let (x0, x1) = (at(x0, width), at(x1 - 1.0, width));
        let (y0, y1) = (at(y0, height), at(y1 - 1.0, height));
        for x in x0..=x1 {
            self.dot(left + x, top + y0, colour);
            self.dot(left + x, top + y1, colour);
        }
        for y in y0..=y1 {
            self.dot(left + x0, top + y, colour);
            self.dot(left + x1, top + y, colour);
        }
    }

    fn dot(&mut self, x: usize, y: usize, colour: [u8; 3]) {
        self.pixels[(y * self.width + x) * 3..][..3].copy_from_slice(&colour);
    }

    /// Pixels from left to right.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Pixels from top to bottom.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Pixels from the top of one sample to the top of the next, of a picture of `samples` samples. The
    /// first one's top is as far from the edge as one's end is from the next.
    #[must_use]
    pub fn row_pixels(&self, samples: usize) -> usize {
        self.height.saturating_sub(GAP) / samples.max(1)
    }

    /// Whether there is nothing to see: the recipe makes no images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    /// It is empty.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut png = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        png.set_color(png::ColorType::Rgb);
        png.set_depth(png::BitDepth::Eight);
        let mut writer = png.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(file)
    }
}

fn is_picture(recipe: &Recipe, tensor: &TensorLayout) -> bool {
    tensor.is_image || recipe.aligned.iter().any(|aligned| aligned.name == tensor.name)
}

/// A tensor and its bytes; elements in blocks as binary32 under their scales.
fn picture<P: Pictured>(
    batch: &P,
    tensor: &TensorLayout,
) -> Result<(TensorLayout, Vec<u8>), P::Error> {
    let bytes = batch.tensor_bytes(tensor)?;
    if tensor.dtype != Dtype::Mxfp8E4m3 {
        return Ok((tensor.clone(), bytes));
    }
    let name = format!("{}_scales", tensor.name);
    let scales = batch.layout().tensors().iter().find(|scales| scales.name == name);
    let scales = scales.map(|scales| batch.tensor_bytes(scales)).transpose()?.unwrap_or_default();
    let rows = bytes.chunks(sides(tensor)[1]);
    let blocks = rows.flat_map(|row| row.chunks(MX_BLOCK as usize)).zip(scales);
    let values = blocks.flat_map(|(block, scale)| {
        let scale = 2f32.powi(i32::from(scale) - 127);
        block.iter().flat_map(move |&element| (e4m3(element) * scale).to_le_bytes())
    });
    let wide =
        TensorLayout { dtype: Dtype::F32, row_bytes: 4 * tensor.row_bytes, ..tensor.clone() };
    Ok((wide, values.collect()))
}

/// Views of a tensor that fit one above the other beside the tallest one.
fn stacked(tensor: &TensorLayout, tallest: usize) -> usize {
    ((tallest + GAP) / (sides(tensor)[0] + GAP)).max(1)
}

fn sides(tensor: &TensorLayout) -> [usize; 2] {
    [tensor.row_shape[1] as usize, tensor.row_shape[2] as usize]
}

// === impl Scale ===

impl Scale {
    fn of(recipe: &Recipe, fp8_scale_inv: Option<f32>) -> Self {
        let fp8_scale_inv = fp8_scale_inv.unwrap_or(1.0);
        Self { mean: recipe.mean, std: recipe.std, fp8_scale_inv }
    }

    fn grey(&self, dtype: Dtype, channel: usize, element: &[u8]) -> u8 {
        let value = match (dtype, element) {
            (Dtype::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
            (Dtype::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
            (Dtype::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Dtype::Fp8E4m3, &[byte]) => e4m3(byte) * self.fp8_scale_inv,
            (Dtype::U8, &[byte]) => return byte,
            _ => return 0,
        };
        // Saturating: what lies outside is white or black.
        ((value * self.std[channel] + self.mean[channel]) * 255.0).round() as u8
    }
}

/// Value of an E4M3 byte: sign, 4 bits of exponent with bias 7, 3 bits of mantissa.
fn e4m3(byte: u8) -> f32 {
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(byte >> 3 & 0xF), f32::from(byte & 7) / 8.0);
    let magnitude = match exponent {
        0 => mantissa * 2f32.powi(-6),
        _ => (1.0 + mantissa) * 2f32.powi(exponent - 7),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests;
