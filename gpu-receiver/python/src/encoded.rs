//! Encoded images as Python has them.

use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyString;

/// The bytes of an image's file.
pub(crate) enum Encoded {
    /// Of an object, which is kept.
    Shared(PyBackedBytes),
    /// Copied or read.
    Own(Vec<u8>),
}

// === impl Encoded ===

impl Encoded {
    /// Reads a list: each entry is `bytes`, another object with bytes, or the path of a file.
    ///
    /// # Errors
    /// An object that is none of these, or a file that cannot be read.
    pub(crate) fn all(images: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        let one = images.extract::<PyBackedBytes>().is_ok() || images.is_instance_of::<PyString>();
        let Some(images) = images.try_iter().ok().filter(|_| !one) else {
            return Err(PyTypeError::new_err("give a list of images, `[image]` for one"));
        };
        images.enumerate().map(|(at, image)| Self::of(at, &image?)).collect()
    }

    fn of(at: usize, image: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = image.extract::<PyBackedBytes>() {
            return Ok(Self::Shared(bytes));
        }
        if let Ok(path) = image.extract::<PathBuf>() {
            return Ok(Self::Own(std::fs::read(&path).map_err(|error| {
                PyErr::from(std::io::Error::new(
                    error.kind(),
                    format!("image {at}: cannot read `{}`: {error}", path.display()),
                ))
            })?));
        }
        // PyTorch's tensors, as torchvision reads files into.
        let array = match image.hasattr("tobytes")? {
            true => image.clone(),
            false => image.call_method0("numpy").unwrap_or_else(|_| image.clone()),
        };
        let one_axis = array.getattr("ndim").ok().and_then(|axes| axes.extract().ok()) == Some(1);
        let of_bytes =
            array.getattr("itemsize").ok().and_then(|size| size.extract().ok()) == Some(1);
        if one_axis && of_bytes {
            return Ok(Self::Own(array.call_method0("tobytes")?.extract()?));
        }
        let kind = image.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "image {at} is a {kind}: give the bytes of its file, as `bytes` or an array of u8 with one \
             axis, or the file's path"
        )))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

/// One number for each image; `usual` for each if none are given.
///
/// # Errors
/// There are more or fewer.
pub(crate) fn numbers<T>(
    name: &str,
    given: Option<Vec<T>>,
    images: usize,
    usual: impl Fn(usize) -> T,
) -> PyResult<Vec<T>> {
    let Some(given) = given else { return Ok((0..images).map(usual).collect()) };
    if given.len() == images {
        return Ok(given);
    }
    let count = given.len();
    Err(PyValueError::new_err(format!("`{name}` has {count} numbers for {images} images")))
}
