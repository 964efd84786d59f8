//! Plain data between Python and serde, through Python's own `json`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::Serialize;
use serde_json::Value;

/// PyTorch's names of the element types that a recipe can have.
const TORCH_DTYPES: [(&str, &str); 5] = [
    ("torch.bfloat16", "bf16"),
    ("torch.float16", "f16"),
    ("torch.float32", "f32"),
    ("torch.uint8", "u8"),
    ("torch.float8_e4m3fn", "fp8_e4m3"),
];

/// Dictionaries, lists, strings and numbers; also paths, PyTorch's dtypes, and whatever has `__index__` or
/// `__float__`, such as NumPy's numbers.
pub(crate) fn from_python(data: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = data.py();
    let arguments = PyDict::new(py);
    arguments.set_item("default", wrap_pyfunction!(plain, py)?)?;
    arguments.set_item("allow_nan", true)?;
    let dumps = py.import("json")?.getattr("dumps")?;
    let text: String = dumps.call((data,), Some(&arguments))?.extract()?;
    serde_json::from_str(&text).map_err(|error| PyTypeError::new_err(error.to_string()))
}

/// The data as dictionaries, lists, strings and numbers.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    data: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(data).map_err(|e| PyTypeError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// What `json` should write for an object that it does not know.
#[pyfunction]
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let kind = object.get_type();
    if kind.name()? == "dtype" && kind.module()? == "torch" {
        let name = object.str()?.to_string();
        let ours = TORCH_DTYPES.iter().find(|(torch, _)| *torch == name).map(|(_, ours)| *ours);
        return Ok(PyString::new(object.py(), ours.unwrap_or(&name)).into_any());
    }
    for (module, function) in [("operator", "index"), ("os", "fspath"), ("builtins", "float")] {
        if let Ok(plain) = object.py().import(module)?.call_method1(function, (object,)) {
            return Ok(plain);
        }
    }
    let kind = kind.name()?;
    Err(PyTypeError::new_err(format!("a {kind} cannot be part of a configuration or a state")))
}
