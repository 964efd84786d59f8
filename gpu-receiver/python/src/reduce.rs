//! The trainer's own way of bringing the ranks' amaxes together, as a function in Python.

use std::error::Error;

use headwater_receiver::AmaxReduce;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Name of the keyword.
const KEYWORD: &str = "amax_reduce";

/// Takes the function out of a loader's keywords, where it was given.
///
/// # Errors
/// What was given cannot be called.
pub(crate) fn amax_reduce(options: &Bound<'_, PyDict>) -> PyResult<Option<AmaxReduce>> {
    let Some(given) = options.get_item(KEYWORD)? else { return Ok(None) };
    options.del_item(KEYWORD)?;
    if given.is_none() {
        return Ok(None);
    }
    if !given.is_callable() {
        let problem = format!("`{KEYWORD}` must be a function of a list of numbers");
        return Err(PyTypeError::new_err(problem));
    }
    let function = given.unbind();
    Ok(Some(Box::new(move |amaxes: &mut [f32]| {
        // The trainer's thread has let go of the interpreter's lock while it waits for a batch. What the function
        // raises stays what it is: it is raised again where the batch was asked for.
        let reduced = Python::attach(|py| -> Result<Vec<f32>, Box<dyn Error + Send + Sync>> {
            let reduced = function.bind(py).call1((amaxes.to_vec(),))?;
            reduced.extract().map_err(|error: PyErr| error.to_string().into())
        })?;
        if reduced.len() != amaxes.len() {
            let (got, wanted) = (reduced.len(), amaxes.len());
            return Err(format!("it gave {got} numbers for {wanted}").into());
        }
        amaxes.copy_from_slice(&reduced);
        Ok(())
    })))
}
