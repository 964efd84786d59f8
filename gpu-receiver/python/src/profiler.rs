//! Ranges in the profiles of `torch.profiler`.

use pyo3::intern;
use pyo3::prelude::*;

/// A range that is open in the profile under way, where there is one.
pub(crate) struct Range<'py> {
    open: Option<Bound<'py, PyAny>>,
}

// === impl Range ===

impl<'py> Range<'py> {
    /// Begins a range of that name. Where nobody has imported PyTorch, or nothing is being profiled, this is
    /// two look-ups in dicts.
    pub(crate) fn begin(py: Python<'py>, name: &str) -> PyResult<Self> {
        let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
        let Ok(profiler) = modules.get_item(intern!(py, "torch.autograd.profiler")) else {
            return Ok(Self { open: None });
        };
        let enabled = profiler.getattr_opt(intern!(py, "_is_profiler_enabled"))?;
        if !enabled.is_some_and(|enabled| enabled.is_truthy().unwrap_or(false)) {
            return Ok(Self { open: None });
        }
        let range = profiler.getattr(intern!(py, "record_function"))?.call1((name,))?;
        range.call_method0(intern!(py, "__enter__"))?;
        Ok(Self { open: Some(range) })
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> PyResult<()> {
        self.close()
    }

    fn close(&mut self) -> PyResult<()> {
        let Some(range) = self.open.take() else { return Ok(()) };
        let py = range.py();
        range.call_method1(intern!(py, "__exit__"), (py.None(), py.None(), py.None()))?;
        Ok(())
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        // An exception is on its way already.
        let _ = self.close();
    }
}
