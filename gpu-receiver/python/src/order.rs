//! Lists of samples that a trainer's program has in memory: NumPy's arrays, PyTorch's tensors, lists.

use headwater_receiver::{OrderArrays, RawArray};
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::errors::{ConfigError, raised};

/// Keyword that is the order's name, or a list that is the order.
const ORDER: &str = "order";
/// Keywords that are paths of files, or arrays.
const FILES: [&str; 3] = ["order_list", "order_groups", "order_weights"];

/// Takes arrays out of a loader's keywords and sets `order` to what they need.
///
/// # Errors
/// What is no array, or not one of such numbers.
pub(crate) fn order_arrays(options: &Bound<'_, PyDict>) -> PyResult<OrderArrays> {
    let mut arrays = OrderArrays::default();
    if let Some(order) = taken(options, ORDER)? {
        if options.get_item(FILES[0])?.is_some_and(|list| !list.is_none()) {
            let fault =
                "`order` is a list of samples, and `order_list` is given, too: leave one out";
            return Err(ConfigError::new_err(fault));
        }
        set(&mut arrays, FILES[0], &order)?;
        options.set_item(ORDER, "list")?;
    }
    for key in FILES {
        if let Some(array) = taken(options, key)? {
            set(&mut arrays, key, &array)?;
        }
    }
    Ok(arrays)
}

/// The value of a keyword, where it is neither text nor a path.
fn taken<'py>(options: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(value) = options.get_item(key)? else { return Ok(None) };
    let is_text = value.is_none() || value.is_instance_of::<PyString>();
    if is_text || value.hasattr("__fspath__")? {
        return Ok(None);
    }
    options.del_item(key)?;
    Ok(Some(value))
}

fn set(arrays: &mut OrderArrays, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let (descr, shape, bytes) = described(key, value)?;
    let array = RawArray { descr: &descr, shape: &shape, bytes: bytes.as_bytes() };
    arrays.set(key, array).map_err(raised)
}

/// Type, shape and elements of whatever NumPy takes for an array; without NumPy, of a list.
fn described<'py>(
    key: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<(String, Vec<u64>, Bound<'py, PyBytes>)> {
    let py = value.py();
    let wrong = |error: PyErr| {
        let fault = format!("`{key}` must be a path or an array of numbers: {}", error.value(py));
        PyTypeError::new_err(fault)
    };
    match py.import("numpy") {
        Ok(numpy) => {
            let array = numpy.call_method1("asarray", (value,)).map_err(wrong)?;
            let descr = array.getattr("dtype")?.getattr("str")?.extract()?;
            let shape = array.getattr("shape")?.extract()?;
            Ok((descr, shape, array.call_method0("tobytes")?.cast_into()?))
        }
        Err(error) if error.is_instance_of::<PyImportError>(py) => {
            let (code, descr) = if key == FILES[2] { ("d", "=f8") } else { ("q", "=i8") };
            let array = py.import("array")?.call_method1("array", (code, value)).map_err(wrong)?;
            let shape = vec![array.len()? as u64];
            Ok((descr.to_owned(), shape, array.call_method0("tobytes")?.cast_into()?))
        }
        Err(error) => Err(error),
    }
}
