//! Folders beyond which nothing is served.

use std::path::{Path, PathBuf};

use headwater_storage_client::ShardFileError;

use crate::StorageError;

/// Checks that each shard, wherever `..` and links lead, lies within one of `roots`. Without roots
/// every file may be served.
///
/// # Errors
/// A shard that does not, or a path that cannot be followed.
pub(crate) fn check(shards: &[PathBuf], roots: &[PathBuf]) -> Result<(), StorageError> {
    if roots.is_empty() {
        return Ok(());
    }
    let real = |path: &Path| {
        let open =
            |source| StorageError::File(ShardFileError::Open { path: path.to_owned(), source });
        path.canonicalize().map_err(open)
    };
    let roots: Vec<PathBuf> = roots.iter().map(|root| real(root)).collect::<Result<_, _>>()?;
    for path in shards {
        let leads_to = real(path)?;
        if !roots.iter().any(|root| leads_to.starts_with(root)) {
            return Err(StorageError::Outside { path: path.clone(), leads_to });
        }
    }
    Ok(())
}
