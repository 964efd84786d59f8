//! A field of texts or bytes in Python.

use std::sync::Arc;

use headwater_core::Dtype;
use headwater_core::recipe::FieldSpec;
use headwater_receiver::Packed as Received;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice, PyString, PyTuple, PyType};

use crate::memory::Aligned;
use crate::tensor::Tensor;

/// The texts or the bytes of a batch's samples, as a list: `field[3]`, `field[1:5]`, `len(field)`, `list(field)`.
///
/// They lie one after the other in one tensor. A Python object is made only when you ask for it.
#[pyclass(frozen, sequence, module = "headwater")]
#[derive(Clone)]
pub(crate) struct Packed {
    name: String,
    is_text: bool,
    bytes: Arc<Aligned>,
    ends: Arc<[i64]>,
}

// === impl Packed ===

impl Packed {
    pub(crate) fn new(spec: &FieldSpec, received: &Received) -> Self {
        let (name, is_text) = (spec.name.clone(), spec.is_text());
        let bytes = Arc::new(Aligned::of(&received.data));
        Self { name, is_text, bytes, ends: received.offsets.as_slice().into() }
    }

    /// Its name in the recipe.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Names of its tensors.
    pub(crate) fn tensors(&self) -> [Tensor; 2] {
        [self.data(), self.offsets()]
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Sample `at`, which must exist.
    fn object<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let (start, end) = (self.ends[at] as usize, self.ends[at + 1] as usize);
        let bytes = &self.bytes.as_slice()[start..end];
        if !self.is_text {
            return Ok(PyBytes::new(py, bytes).into_any());
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            PyValueError::new_err(format!("`{}` of sample {at} is not UTF-8: {error}", self.name))
        })?;
        Ok(PyString::new(py, text).into_any())
    }
}

#[pymethods]
impl Packed {
    /// A field of this name from the bytes of all samples, and where each one's begin and the last one's end.
    #[new]
    fn from_parts(name: String, is_text: bool, data: &[u8], offsets: Vec<i64>) -> PyResult<Self> {
        let ends = offsets.last().copied();
        if offsets.first() != Some(&0)
            || !offsets.is_sorted()
            || ends != i64::try_from(data.len()).ok()
        {
            return Err(PyValueError::new_err(format!(
                "`{name}`: offsets begin with 0, do not fall, and end with the number of bytes, {}",
                data.len()
            )));
        }
        let bytes = Arc::new(Aligned::of(data));
        Ok(Self { name, is_text, bytes, ends: offsets.into() })
    }

    /// For `pickle` and `copy`.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let (py, field) = (slf.py(), slf.get());
        let data = PyBytes::new(py, field.bytes.as_slice());
        let parts = (&field.name, field.is_text, data, field.ends.to_vec());
        Ok((slf.get_type(), parts.into_pyobject(py)?))
    }

    /// The bytes of all samples, one after the other: `u8[bytes]`.
    #[getter]
    fn data(&self) -> Tensor {
        let shape = vec![self.bytes.as_slice().len() as u64];
        Tensor::owning(format!("{}_data", self.name), Dtype::U8, shape, Arc::clone(&self.bytes))
    }

    /// Offsets at which each sample's bytes begin, and the end of the last one: `i64[samples +
    /// 1]`.
    #[getter]
    fn offsets(&self) -> Tensor {
        let bytes: Vec<u8> = self.ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        let (name, shape) = (format!("{}_offsets", self.name), vec![self.ends.len() as u64]);
        Tensor::owning(name, Dtype::I64, shape, Arc::new(Aligned::of(&bytes)))
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    /// A sample as `str` or `bytes`; for a slice, a list of them.
    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        if let Ok(slice) = index.cast::<PySlice>() {
            let slice = slice.indices(self.len() as isize)?;
            let at = |number: usize| (slice.start + number as isize * slice.step) as usize;
            let objects = (0..slice.slicelength).map(|number| self.object(py, at(number)));
            let objects: Vec<_> = objects.collect::<PyResult<_>>()?;
            return Ok(PyList::new(py, objects)?.into_any());
        }
        let Ok(at) = index.extract::<isize>() else {
            let kind = index.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "an index is a number or a slice, not {kind}"
            )));
        };
        let at = if at < 0 { at + self.len() as isize } else { at };
        match usize::try_from(at) {
            Ok(at) if at < self.len() => self.object(py, at),
            _ => Err(PyIndexError::new_err(format!("`{}` has {} samples", self.name, self.len()))),
        }
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let all = slf.get_item(PySlice::full(slf.py()))?;
        Ok(all.try_iter()?.into_any())
    }

    fn __repr__(&self) -> String {
        let kind = if self.is_text { "texts" } else { "bytes" };
        format!("<headwater.Packed {} {kind}[{}]>", self.name, self.len())
    }
}
