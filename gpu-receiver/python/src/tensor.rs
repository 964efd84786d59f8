//! One tensor of a batch, and its ways out: DLPack, NumPy's interface, PyTorch.

use std::sync::Arc;

use headwater_core::Dtype;
use headwater_receiver::{Batch, Fp8Meta};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::device::{Order, order};
use crate::dlpack::{CPU, CUDA, Device, Export};
use crate::memory::{Aligned, Memory, dtype_of};

/// What NumPy asks for.
const INTERFACE: &str = "__array_interface__";

/// A tensor in the receiver's memory or on its GPU. The memory is not used again while the tensor
/// lives. Labels, and all tensors with one axis or of less than 64 KiB, have memory of their own.
///
/// C order. What you write to it changes this batch and its `digest`, and nothing else; of a copy, not the `digest`.
#[pyclass(frozen, module = "headwater")]
#[derive(Clone)]
pub(crate) struct Tensor {
    memory: Memory,
    dtype: Dtype,
    /// Of FP8 tensors only.
    fp8: Option<Fp8Meta>,
}

// === impl Tensor ===

impl Tensor {
    /// `index`: of the layout's tensors.
    pub(crate) fn new(batch: Batch, index: usize) -> Self {
        let tensor = &batch.layout().tensors()[index];
        let (dtype, fp8) = (dtype_of(&batch, index), batch.fp8(tensor));
        Self { memory: Memory::Slot { batch, index }, dtype, fp8 }
    }

    /// Whether it is so small that a copy is handed out.
    pub(crate) fn is_small_on_host(&self) -> bool {
        self.memory.is_small() && self.memory.on_device().is_none()
    }

    /// The same in memory of its own.
    pub(crate) fn copied(&self) -> PyResult<Self> {
        let (name, shape) = (self.memory.name().to_owned(), self.memory.shape());
        let bytes = Arc::new(self.memory.copy()?);
        Ok(Self::owning(name, self.dtype, shape, bytes).with_fp8(self.fp8))
    }

    /// A tensor that lies in no slot.
    pub(crate) fn owning(name: String, dtype: Dtype, shape: Vec<u64>, bytes: Arc<Aligned>) -> Self {
        Self { memory: Memory::Own { name, shape, bytes }, dtype, fp8: None }
    }

    /// The same with the scales of FP8 elements.
    pub(crate) fn with_fp8(self, fp8: Option<Fp8Meta>) -> Self {
        Self { fp8, ..self }
    }

    /// `bf16[64, 3, 224, 224]`.
    pub(crate) fn summary(&self) -> String {
        format!("{}{:?}", self.dtype, self.memory.shape())
    }

    /// DLPack's type and number of the device.
    fn device(&self) -> Device {
        self.memory.on_device().map_or(CPU, |device| (CUDA, device.ordinal() as i32))
    }

    /// Refuses what only a tensor in the host's memory can do.
    fn on_host(&self) -> Result<(), String> {
        match self.device() {
            CPU => Ok(()),
            (_, ordinal) => Err(format!(
                "`{}` is on cuda:{ordinal}: take `.torch()` or another library's `from_dlpack`, and \
                 copy it from there",
                self.memory.name()
            )),
        }
    }

    fn torch_itself<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let torch = py.import("torch")?;
        // PyTorch before 2.11 does not know DLPack's FP8 types; older ones do not know booleans.
        let viewed = match self.dtype {
            Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3 => "float8_e4m3fn",
            Dtype::E8m0 => "float8_e8m0fnu",
            Dtype::Bool => "bool",
            _ => return torch.call_method1("from_dlpack", (self.clone(),)),
        };
        let bytes = Self { dtype: Dtype::U8, ..self.clone() };
        let bytes = torch.call_method1("from_dlpack", (bytes,))?;
        bytes.call_method1("view", (torch.getattr(viewed)?,))
    }

    fn export(&self) -> Export {
        Export {
            data: self.memory.as_ptr(),
            device: self.device(),
            shape: self.memory.shape().into_iter().map(|dim| dim as i64).collect(),
            dtype: self.dtype,
            keeper: Box::new(self.memory.clone()),
            copied: false,
        }
    }

    fn export_copy(&self) -> PyResult<Export> {
        let mut copy = self.memory.copy()?;
        Ok(Export {
            data: copy.as_mut_ptr(),
            keeper: Box::new(copy),
            copied: true,
            ..self.export()
        })
    }

    /// Makes the consumer's stream wait for the work that made the tensor.
    fn put_in_order(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<()> {
        let Some(device) = self.memory.on_device() else {
            // -1 says that the consumer wants no synchronisation; the CPU has no streams.
            if stream.is_some_and(|stream| !matches!(stream.extract::<i64>(), Ok(-1))) {
                let problem = "a tensor on the CPU has no stream to wait for";
                return Err(PyBufferError::new_err(problem));
            }
            return Ok(());
        };
        if copy == Some(true) {
            let problem = self.on_host().err().unwrap_or_default();
            return Err(PyBufferError::new_err(problem));
        }
        let done = match order(stream)? {
            Order::For(stream) => device.hand_to(stream),
            Order::Nothing => py.detach(|| device.wait()),
        };
        done.map_err(|error| PyBufferError::new_err(error.to_string()))
    }

    /// NumPy's array interface, version 3, with elements of the given type.
    fn interface<'py>(&self, py: Python<'py>, typestr: &str) -> PyResult<Bound<'py, PyDict>> {
        let address = self.memory.as_ptr() as usize;
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("shape", PyTuple::new(py, self.memory.shape())?)?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }

    /// Why there is no such interface.
    fn without_interface(&self) -> PyErr {
        let without = || format!("NumPy has no {}", self.dtype);
        PyAttributeError::new_err(self.on_host().err().unwrap_or_else(without))
    }

    /// The array of bits as `stand_in`, viewed as a type of the package `ml_dtypes`.
    fn numpy_by_ml_dtypes<'py>(
        slf: &Bound<'py, Self>,
        stand_in: &str,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let dtype = slf.get().dtype;
        let types = py.import("ml_dtypes").map_err(|_| {
            PyTypeError::new_err(format!(
                "NumPy has no {dtype}: install `ml_dtypes`, or take `.torch()`"
            ))
        })?;
        let exposed = PyDict::new(py);
        exposed.set_item("__array_interface__", slf.get().interface(py, stand_in)?)?;
        exposed.set_item("owner", slf)?;
        let holder = py.import("types")?.getattr("SimpleNamespace")?.call((), Some(&exposed))?;
        let bits = py.import("numpy")?.call_method1("asarray", (holder,))?;
        bits.call_method1("view", (types.getattr(name)?,))
    }
}

#[pymethods]
impl Tensor {
    /// Name, as the recipe gives it.
    #[getter]
    pub(crate) fn name(&self) -> &str {
        self.memory.name()
    }

    /// Elements along each axis; crop-major: row `view * samples + sample`.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.memory.shape())
    }

    /// `bf16`, `f16`, `f32`, `u8`, `fp8_e4m3`, `mxfp8_e4m3`, `e8m0`, `i64` or `bool`; of a field also `f64`,
    /// `i8`, `i16`, `i32`, `u16` or `u32`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// `cpu`, or `cuda:0` and so on.
    #[getter(device)]
    fn device_name(&self) -> String {
        match self.device() {
            CPU => "cpu".to_owned(),
            (_, ordinal) => format!("cuda:{ordinal}"),
        }
    }

    /// Number of bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    /// The factor by which values of `fp8_e4m3` were multiplied before rounding; 1 for other
    /// types.
    #[getter]
    fn scale(&self) -> f32 {
        self.fp8.map_or(1.0, |fp8| fp8.scale)
    }

    /// The factor that turns elements of `fp8_e4m3` back into normalised values, 1 / `scale`; 1
    /// for other types.
    #[getter]
    fn scale_inv(&self) -> f32 {
        self.fp8.map_or(1.0, |fp8| fp8.scale_inv())
    }

    /// The largest magnitude of the values of `fp8_e4m3` in this batch, before they were scaled;
    /// `None` for other types.
    #[getter]
    fn amax(&self) -> Option<f32> {
        self.fp8.map(|fp8| fp8.amax)
    }

    /// `(1, 0)`: the CPU; `(2, n)`: GPU number n.
    fn __dlpack_device__(&self) -> Device {
        self.device()
    }

    /// A DLPack capsule of the tensor itself, read-only, or of a copy if `copy` is true. It keeps
    /// the memory until its consumer drops it. Raises `BufferError` if the request cannot be met.
    ///
    /// On a GPU, later work on `stream` runs after the batch has arrived. With -1, the call itself
    /// waits for the arrival, and the consumer must have finished with the tensor when it drops
    /// it.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = self.device();
        if let Some(device) = dl_device.filter(|&device| device != own) {
            return Err(PyBufferError::new_err(format!(
                "the tensor is on device {own:?}, and is not copied to {device:?}"
            )));
        }
        self.put_in_order(py, stream.as_ref(), copy)?;
        let export = match copy {
            Some(true) => self.export_copy()?,
            _ => self.export(),
        };
        export.into_capsule(py, max_version.is_some_and(|(major, _)| major >= 1))
    }

    /// NumPy's array interface; there is none for types that NumPy does not have.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match typestr(self.dtype).filter(|_| self.on_host().is_ok()) {
            Some(typestr) => self.interface(py, typestr),
            None => Err(self.without_interface()),
        }
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = PyDict::new(slf.py());
        options.set_item("copy", copy)?;
        let array = (Self::numpy(slf)?, dtype);
        slf.py().import("numpy")?.getattr("array")?.call(array, Some(&options))
    }

    /// The tensor as a read-only NumPy array, without a copy; `bf16`, `fp8_e4m3`, `mxfp8_e4m3` and
    /// `e8m0` have types of the package `ml_dtypes`.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().on_host().map_err(PyTypeError::new_err)?;
        match slf.get().dtype {
            Dtype::Bf16 => Self::numpy_by_ml_dtypes(slf, "<u2", "bfloat16"),
            Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3 => {
                Self::numpy_by_ml_dtypes(slf, "|u1", "float8_e4m3fn")
            }
            Dtype::E8m0 => Self::numpy_by_ml_dtypes(slf, "|u1", "float8_e8m0fnu"),
            _ => slf.py().import("numpy")?.call_method1("asarray", (slf,)),
        }
    }

    /// The tensor as a `torch.Tensor`, without a further copy.
    pub(crate) fn torch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.torch_itself(py)?;
        // As on the host.
        let is_copied = self.memory.on_device().is_some() && self.memory.is_small();
        if is_copied { tensor.call_method0("clone") } else { Ok(tensor) }
    }

    fn __getattr__(&self, name: &str) -> PyResult<()> {
        // Python asks here once more for what is there and has raised this error.
        if name == INTERFACE {
            return Err(self.without_interface());
        }
        Err(PyAttributeError::new_err(format!(
            "a headwater.Tensor has no `{name}`: take `.torch()`, which is a torch.Tensor, or `.numpy()`"
        )))
    }

    fn __repr__(&self) -> String {
        format!("<headwater.Tensor {} {}>", self.memory.name(), self.summary())
    }
}

/// NumPy's name of a type; all machines that this runs on are little-endian.
fn typestr(dtype: Dtype) -> Option<&'static str> {
    match dtype {
        Dtype::F16 => Some("<f2"),
        Dtype::F32 => Some("<f4"),
        Dtype::F64 => Some("<f8"),
        Dtype::U8 => Some("|u1"),
        Dtype::U16 => Some("<u2"),
        Dtype::U32 => Some("<u4"),
        Dtype::I8 => Some("|i1"),
        Dtype::I16 => Some("<i2"),
        Dtype::I32 => Some("<i4"),
        Dtype::I64 => Some("<i8"),
        Dtype::Bool => Some("|b1"),
        Dtype::Bf16 | Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3 | Dtype::E8m0 => None,
    }
}
