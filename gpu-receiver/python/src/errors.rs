//! The receiver's errors as Python's exceptions, which `headwater/errors.py` defines.

use std::error::Error;
use std::iter::successors;

use headwater_core::escape_control;
use headwater_local::{LocalError, LocalErrorKind};
use headwater_receiver::ReceiverError;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

#[allow(missing_docs, reason = "documented where they are defined")]
mod imported {
    use pyo3::import_exception;

    import_exception!(headwater.errors, BusyError);
    import_exception!(headwater.errors, ClosedError);
    import_exception!(headwater.errors, ConfigError);
    import_exception!(headwater.errors, DeviceError);
    import_exception!(headwater.errors, ForkError);
    import_exception!(headwater.errors, ImageError);
    import_exception!(headwater.errors, LinkError);
    import_exception!(headwater.errors, SlotsError);
    import_exception!(headwater.errors, StateError);
    import_exception!(headwater.errors, StorageError);
    import_exception!(headwater.errors, WorkerError);
}

pub(crate) use imported::*;

/// The exception for an error. One that a function of the trainer's has raised is itself raised.
pub(crate) fn raised(error: ReceiverError) -> PyErr {
    let own = successors(error.source(), |&cause| cause.source())
        .find_map(|cause| cause.downcast_ref::<PyErr>())
        .map(|own| Python::attach(|py| own.clone_ref(py)));
    let Some(own) = own else { return of_kind(error) };
    Python::attach(|py| {
        if !own.is_instance_of::<PyStopIteration>(py) {
            return own;
        }
        // It would look like the end of an epoch: as in a generator (PEP 479), it is the cause of another one.
        let error = of_kind(error);
        error.set_cause(py, Some(own));
        error
    })
}

fn of_kind(error: ReceiverError) -> PyErr {
    use headwater_core::sampler::SamplerError;

    let text = escape_control(&error.to_string()).into_owned();
    match error {
        ReceiverError::Sampler(SamplerError::Differs(_) | SamplerError::State { .. }) => {
            StateError::new_err(text)
        }
        ReceiverError::Checkpoint(_) | ReceiverError::AmaxState(_) => StateError::new_err(text),
        ReceiverError::Config { .. }
        | ReceiverError::Room { .. }
        | ReceiverError::Range { .. }
        | ReceiverError::Access(_)
        | ReceiverError::Recipe(_)
        | ReceiverError::OrderList { .. }
        | ReceiverError::Python { .. }
        | ReceiverError::Masks(_)
        | ReceiverError::Mixing(_)
        | ReceiverError::Patches(_)
        | ReceiverError::Sampler(_)
        | ReceiverError::Places { .. }
        | ReceiverError::NoDataset { .. }
        | ReceiverError::NoImages { .. }
        | ReceiverError::NoField { .. }
        | ReceiverError::Tokenizer { .. }
        | ReceiverError::NoLabels { .. } => ConfigError::new_err(text),
        ReceiverError::Storage(_) => StorageError::new_err(text),
        ReceiverError::Link(_) => LinkError::new_err(text),
        ReceiverError::Device(_) => DeviceError::new_err(text),
        ReceiverError::NoWorker { .. }
        | ReceiverError::Part { .. }
        | ReceiverError::Disagreement { .. }
        | ReceiverError::HeldChanged { .. } => WorkerError::new_err(text),
        ReceiverError::SlotsHeld { .. }
        | ReceiverError::SlotsKept { .. }
        | ReceiverError::SlotsMissing { .. } => SlotsError::new_err(text),
        ReceiverError::Forked { .. } => ForkError::new_err(text),
        ReceiverError::Busy => BusyError::new_err(text),
        ReceiverError::AmaxReduce { .. } | ReceiverError::Closed { .. } => {
            ClosedError::new_err(text)
        }
    }
}

/// The exception for an error of services on this host.
pub(crate) fn raised_local(error: LocalError) -> PyErr {
    let text = escape_control(&error.to_string()).into_owned();
    match error.kind() {
        LocalErrorKind::Config => ConfigError::new_err(text),
        LocalErrorKind::Storage => StorageError::new_err(text),
        LocalErrorKind::Services => WorkerError::new_err(text),
    }
}
