//! GPUs in Python: streams of consumers, and allocators of frameworks.
#![allow(unsafe_code)]

use std::error::Error;

use headwater_cuda::{ConsumerStream, DeviceAllocator, DeviceMemory};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Name of the keyword.
const KEYWORD: &str = "device_allocator";
/// PyTorch's caching allocator.
const TORCH: &str = "torch";

/// What DLPack's `stream` asks of a tensor on a GPU.
pub(crate) enum Order {
    /// That the stream may use the tensor from now on.
    For(ConsumerStream),
    /// Nothing: the consumer orders its own work.
    Nothing,
}

/// What was raised; the loader or the iteration raises it again.
type Refusal = Box<dyn Error + Send + Sync>;

/// A function that takes a number of bytes and returns an array on the GPU.
struct Function(Py<PyAny>);

/// `torch.empty` on the slot's GPU.
struct Torch;

/// DLPack's rule for CUDA: no stream means the legacy default stream, 1 and 2 the two default streams,
/// -1 no order. 0 is ambiguous. Everything else is a stream's handle.
///
/// # Errors
/// The number is not a stream.
pub(crate) fn order(stream: Option<&Bound<'_, PyAny>>) -> PyResult<Order> {
    let Some(stream) = stream.filter(|stream| !stream.is_none()) else {
        return Ok(Order::For(ConsumerStream::LEGACY));
    };
    match stream.extract::<i64>() {
        Ok(-1) => Ok(Order::Nothing),
        // SAFETY: the protocol has the consumer give a stream of the tensor's GPU, which it goes on to
        // use the tensor with.
        Ok(handle @ 1..) => Ok(Order::For(unsafe { ConsumerStream::from_handle(handle as u64) })),
        _ => Err(PyBufferError::new_err(format!(
            "{stream} is no stream of CUDA's: give its handle, 1 for the legacy default stream, 2 for \
             the thread's own, or -1 for no order"
        ))),
    }
}

/// Takes the allocator out of a loader's keywords, where it was given.
///
/// # Errors
/// What was given is neither `"torch"` nor a function.
pub(crate) fn allocator(options: &Bound<'_, PyDict>) -> PyResult<Option<Box<dyn DeviceAllocator>>> {
    let Some(given) = options.get_item(KEYWORD)? else { return Ok(None) };
    options.del_item(KEYWORD)?;
    if given.is_none() {
        return Ok(None);
    }
    if given.extract::<String>().is_ok_and(|name| name == TORCH) {
        return Ok(Some(Box::new(Torch)));
    }
    if !given.is_callable() {
        let problem = format!(
            "`{KEYWORD}` must be \"{TORCH}\", or a function of a number of bytes that gives an array \
             on the GPU"
        );
        return Err(PyTypeError::new_err(problem));
    }
    Ok(Some(Box::new(Function(given.unbind()))))
}

/// The memory of an array on a GPU, by `__cuda_array_interface__`, which PyTorch, CuPy and Numba have.
fn memory_of(array: &Bound<'_, PyAny>, len_bytes: u64) -> PyResult<DeviceMemory> {
    let interface = array.getattr("__cuda_array_interface__")?;
    let interface = interface.cast::<PyDict>().map_err(PyErr::from)?;
    let item = |name| {
        let missing = || PyTypeError::new_err(format!("its interface has no `{name}`"));
        interface.get_item(name)?.ok_or_else(missing)
    };
    let (address, read_only): (u64, bool) = item("data")?.extract()?;
    let shape: Vec<u64> = item("shape")?.extract()?;
    let typestr: String = item("typestr")?.extract()?;
    let element_bytes: u64 = typestr.get(2..).and_then(|bytes| bytes.parse().ok()).unwrap_or(1);
    let given = shape.iter().product::<u64>() * element_bytes;
    let strided = interface.get_item("strides")?.is_some_and(|strides| !strides.is_none());
    if read_only || strided || given < len_bytes {
        let problem = format!(
            "the array has {given} bytes, read-only: {read_only}, with strides: {strided}; wanted are \
             {len_bytes} bytes in a row that may be written to"
        );
        return Err(PyTypeError::new_err(problem));
    }
    let keeper = Box::new(array.clone().unbind());
    // SAFETY: the array's own interface says that its bytes lie there, and that they are at least as many
    // as the caller takes; it lives as long as the keeper, and whoever gave it has given it away for that
    // long.
    Ok(unsafe { DeviceMemory::kept_by(address, keeper) })
}

/// The memory of what an allocator gave. Only what it raises stays an exception of the trainer's.
fn given(array: &Bound<'_, PyAny>, len_bytes: u64) -> Result<DeviceMemory, Refusal> {
    memory_of(array, len_bytes).map_err(|error| format!("{KEYWORD}: {error}").into())
}

impl DeviceAllocator for Function {
    fn allocate(&self, _ordinal: u32, len_bytes: u64) -> Result<DeviceMemory, Refusal> {
        Python::attach(|py| given(&self.0.bind(py).call1((len_bytes,))?, len_bytes))
    }
}

impl DeviceAllocator for Torch {
    fn allocate(&self, ordinal: u32, len_bytes: u64) -> Result<DeviceMemory, Refusal> {
        Python::attach(|py| {
            let torch = py.import("torch")?;
            let options = PyDict::new(py);
            options.set_item("dtype", torch.getattr("uint8")?)?;
            options.set_item("device", format!("cuda:{ordinal}"))?;
            let array = torch.call_method("empty", (len_bytes,), Some(&options))?;
            given(&array, len_bytes)
        })
    }
}
