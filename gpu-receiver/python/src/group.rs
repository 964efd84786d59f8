//! The group of processes that PyTorch has made in this one. It is what the program itself takes for its ranks, whatever
//! variables a launcher has set.

use pyo3::prelude::*;

use crate::errors::ConfigError;

/// Rank of this process in PyTorch's group, and how many it has; `None`: none is made.
pub(crate) fn group(py: Python<'_>) -> PyResult<Option<(u32, u32)>> {
    let modules = py.import("sys")?.getattr("modules")?;
    // Whoever has made one has imported this.
    let Ok(distributed) = modules.get_item("torch.distributed") else { return Ok(None) };
    for question in ["is_available", "is_initialized"] {
        if !distributed.call_method0(question)?.is_truthy()? {
            return Ok(None);
        }
    }
    let number = |name: &str| distributed.call_method0(name)?.extract();
    Ok(Some((number("get_rank")?, number("get_world_size")?)))
}

/// Checks that rank and number of ranks of a loader are those of PyTorch's group, which may be made after it.
///
/// # Errors
/// `ConfigError`: they are not.
pub(crate) fn check_group(py: Python<'_>, ours: (u32, u32)) -> PyResult<()> {
    match group(py)? {
        Some(group) if group != ours => {
            let ((rank, world_size), (rank_here, world_size_here)) = (group, ours);
            Err(ConfigError::new_err(format!(
                "this process is rank {rank} of {world_size} of torch.distributed, and its loader was opened as rank \
                 {rank_here} of {world_size_here}: open it after the group is made (with Lightning in `train_dataloader`), \
                 or give it `rank` and `world_size`"
            )))
        }
        _ => Ok(()),
    }
}
