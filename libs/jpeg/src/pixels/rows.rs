//! From planes of samples to rows of colours: which method upsamples a component, and what it reads at the edges.

use std::ops::Range;

use headwater_simd::Simd;

use super::{colour, upsample};

/// One component's samples. A row beyond `height` or a column beyond `width` is never read, though blocks fill them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component<'a> {
    /// Row y begins at `plane[y * stride]`.
    pub(crate) plane: &'a [u8],
    pub(crate) stride: usize,
    /// Samples of a row: the image's width times `h` over the largest `h`, rounded up.
    pub(crate) width: usize,
    /// Rows: the image's height times `v` over the largest `v`, rounded up.
    pub(crate) height: usize,
    /// The sampling factors of the file.
    pub(crate) h: usize,
    pub(crate) v: usize,
}

/// A part of the image, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First column.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// The components of an image, by what they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Components<'a> {
    /// Brightness: red, green and blue alike.
    Gray(Component<'a>),
    /// Brightness, blue and red difference.
    Ycc([Component<'a>; 3]),
    /// Red, green, blue.
    Rgb([Component<'a>; 3]),
}

/// Where the rows of a window go; row y begins `y * stride` bytes after the first.
#[derive(Debug)]
pub enum Output<'a> {
    /// A byte for each pixel in each plane.
    Planes {
        /// Red.
        red: &'a mut [u8],
        /// Green.
        green: &'a mut [u8],
        /// Blue.
        blue: &'a mut [u8],
        /// Bytes from a row to the next one.
        stride: usize,
    },
    /// Three bytes for each pixel: R, G, B.
    Rgb {
        /// The pixels.
        pixels: &'a mut [u8],
        /// Bytes from a row to the next one.
        stride: usize,
    },
}

/// Upsamples and converts; keeps memory for a row of each component.
#[derive(Debug)]
pub(crate) struct Upsampler {
    simd: Simd,
    buffers: [Vec<u8>; 3],
}

/// How libjpeg-turbo upsamples a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Full,
    /// Fancy, of half the width.
    H2V1,
    /// Fancy, of half the height.
    H1V2,
    /// Fancy, of half the width and height.
    H2V2,
    /// Each sample is repeated so often in a row, each row so often.
    Replicate(usize, usize),
}

/// A component, how its rows come about and memory for one of them.
#[derive(Debug)]
struct Source<'a, 'b> {
    component: Component<'a>,
    method: Method,
    buffer: &'b mut Vec<u8>,
}

/// One row of an output.
#[derive(Debug)]
enum Row<'a> {
    Planes([&'a mut [u8]; 3]),
    Rgb(&'a mut [u8]),
}

// === impl Upsampler ===

impl Upsampler {
    pub(crate) fn new(simd: Simd) -> Self {
        Self { simd, buffers: Default::default() }
    }

    /// Writes the rows of `window`. Of a component's plane it reads the samples below the window and one more on
    /// each side where that is inside the component.
    ///
    /// Panics if the window is not within the image, the output or a plane is too small, or the factors
    /// are not supported.
    pub(crate) fn convert(
        &mut self,
        components: Components<'_>,
        window: Window,
        mut output: Output<'_>,
    ) {
        let simd = self.simd;
        let [first, second, third] = self.buffers.each_mut();
        match components {
            Components::Gray(gray) => each_row(simd, [gray], [first], window, |y, [gray]| {
                match output.row(y, window.width) {
                    Row::Planes(planes) => {
                        planes.into_iter().for_each(|out| out.copy_from_slice(gray))
                    }
                    Row::Rgb(pixels) => colour::gray(simd, gray, pixels),
                }
            }),
            Components::Ycc(ycc) => {
                each_row(simd, ycc, [first, second, third], window, |y, ycc| {
                    match output.row(y, window.width) {
                        Row::Planes(planes) => colour::ycc_to_planes(simd, ycc, planes),
                        Row::Rgb(pixels) => colour::ycc_to_rgb(simd, ycc, pixels),
                    }
                })
            }
            Components::Rgb(rgb) => {
                each_row(simd, rgb, [first, second, third], window, |y, rgb| {
                    match output.row(y, window.width) {
                        Row::Planes(planes) => {
                            planes
                                .into_iter()
                                .zip(rgb)
                                .for_each(|(out, row)| out.copy_from_slice(row));
                        }
                        Row::Rgb(pixels) => colour::interleave(simd, rgb, pixels),
                    }
                })
            }
        }
    }
}

/// Calls `put` with each row of the window and its samples in all components.
fn each_row<const N: usize>(
    simd: Simd,
    components: [Component<'_>; N],
    buffers: [&mut Vec<u8>; N],
    window: Window,
    mut put: impl FnMut(usize, [&[u8]; N]),
) {
    if window.width == 0 {
        return;
    }
    let (h_max, v_max) = largest(components.iter().map(|component| (component.h, component.v)));
    let mut buffers = buffers.into_iter();
    let mut sources = components.map(|component| Source {
        method: Method::of(&component, h_max, v_max),
        buffer: buffers.next().expect("a buffer for each component"),
        component,
    });
    for y in 0..window.height {
        put(y, sources.each_mut().map(|source| source.row(simd, window, window.top + y)));
    }
}

/// The largest factors of all components.
fn largest(factors: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    factors.fold((1, 1), |(h_max, v_max), (h, v)| (h_max.max(h), v_max.max(v)))
}

// === impl Method ===

impl Method {
    /// The choice of libjpeg-turbo's jdsample.c with fancy upsampling switched on.
    fn of(component: &Component<'_>, h_max: usize, v_max: usize) -> Self {
        let Component { h, v, width, .. } = *component;
        assert!(
            h_max.is_multiple_of(h) && v_max.is_multiple_of(v),
            "factors {h}, {v} of {h_max}, {v_max}"
        );
        match (h_max / h, v_max / v) {
            (1, 1) => Self::Full,
            (2, 1) if width > 2 => Self::H2V1,
            (1, 2) => Self::H1V2,
            (2, 2) if width > 2 => Self::H2V2,
            (h_times, v_times) => Self::Replicate(h_times, v_times),
        }
    }
}

// === impl Source ===

impl Source<'_, '_> {
    /// The samples of row `y` of the image in the window's columns.
    fn row(&mut self, simd: Simd, window: Window, y: usize) -> &[u8] {
        let Window { left, width, .. } = window;
        let component = self.component;
        match self.method {
            Method::Full => component.row(y, left..left + width),
            Method::H2V1 => {
                let columns = component.columns_beside(window);
                let out = of_length(self.buffer, 2 * columns.len());
                upsample::h2v1(simd, component.row(y, columns.clone()), out);
                &out[left - 2 * columns.start..][..width]
            }
            Method::H1V2 => {
                let out = of_length(self.buffer, width);
                let (near, far) = component.rows_beside(y, left..left + width);
                upsample::h1v2(simd, near, far, y.is_multiple_of(2), out);
                out
            }
            Method::H2V2 => {
                let columns = component.columns_beside(window);
                let out = of_length(self.buffer, 2 * columns.len());
                let (near, far) = component.rows_beside(y, columns.clone());
                upsample::h2v2(simd, near, far, out);
                &out[left - 2 * columns.start..][..width]
            }
            Method::Replicate(h_times, v_times) => {
                let columns = left / h_times..(left + width).div_ceil(h_times);
                let out = of_length(self.buffer, h_times * columns.len());
                upsample::replicate(
                    simd,
                    component.row(y / v_times, columns.clone()),
                    h_times,
                    out,
                );
                &out[left - h_times * columns.start..][..width]
            }
        }
    }
}

/// The first `len` bytes of a buffer that grows.
fn of_length(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

// === impl Component ===

impl<'a> Component<'a> {
    fn row(&self, y: usize, columns: Range<usize>) -> &'a [u8] {
        assert!(y < self.height && columns.end <= self.width, "window outside the image");
        &self.plane[y * self.stride..][columns]
    }

    /// The row of half as many that row `y` of the image is part of, and the one on its other side.
    fn rows_beside(&self, y: usize, columns: Range<usize>) -> (&'a [u8], &'a [u8]) {
        let near = y / 2;
        let far = if y.is_multiple_of(2) {
            near.saturating_sub(1)
        } else {
            (near + 1).min(self.height - 1)
        };
        (self.row(near, columns.clone()), self.row(far, columns))
    }

    /// The columns of half as many that are part of the window, and one on each side.
    fn columns_beside(&self, window: Window) -> Range<usize> {
        let first = (window.left / 2).saturating_sub(1);
        first..((window.left + window.width).div_ceil(2) + 1).min(self.width)
    }
}

// === impl Output ===

impl Output<'_> {
    fn row(&mut self, y: usize, width: usize) -> Row<'_> {
        match self {
            Self::Planes { red, green, blue, stride } => {
                Row::Planes([red, green, blue].map(|plane| &mut plane[y * *stride..][..width]))
            }
            Self::Rgb { pixels, stride } => Row::Rgb(&mut pixels[y * *stride..][..3 * width]),
        }
    }
}
