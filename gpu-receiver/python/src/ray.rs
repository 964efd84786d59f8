//! The keyword `ray`: a service on a Ray cluster, which `headwater.ray` finds by its name and follows.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::ConfigError;
use crate::options::ADDRESSES;

/// The keyword that names the service.
pub(crate) const RAY: &str = "ray";

/// A service that is followed for as long as this is held: its addresses stand in files, which the receiver reads
/// again and again.
pub(crate) struct Following(Py<PyAny>);

// === impl Following ===

impl Following {
    /// Begins to follow the service that the keywords name, and adds where its addresses stand to them.
    pub(crate) fn begin(options: &Bound<'_, PyDict>) -> PyResult<Option<Self>> {
        let Some(name) = options.get_item(RAY)?.filter(|name| !name.is_none()) else {
            return Ok(None);
        };
        for key in ADDRESSES {
            if options.get_item(key)?.is_some_and(|given| !given.is_none()) {
                return Err(ConfigError::new_err(format!(
                    "`ray` and `{key}` are both given: the service on Ray has addresses of its own; leave one out"
                )));
            }
        }
        let following =
            options.py().import("headwater.ray._following")?.call_method1("follow", (name,))?;
        for key in ADDRESSES {
            options.set_item(key, following.getattr(key)?)?;
        }
        Ok(Some(Self(following.unbind())))
    }

    /// An error once the service has ended.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call_method0(py, "check").map(drop)
    }
}
