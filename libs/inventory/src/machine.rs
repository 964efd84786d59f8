//! The files of a machine.

use std::fs;
use std::path::{Path, PathBuf};

/// The file system that holds a machine's `/sys` and `/proc`.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

// === impl Machine ===

impl Machine {
    /// The machine that this process runs on.
    #[must_use]
    pub fn this() -> Self {
        Self::recorded("/")
    }

    /// A machine whose `sys` and `proc` lie in a folder.
    #[must_use]
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where an absolute path of the machine lies here.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without the white space around it.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        // Files of sysfs may hold bytes that are no text, and fail to be read for many reasons.
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds one decimal number.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder, sorted so that numbers in them count as numbers.
    pub(crate) fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_cached_key(|name| natural(name));
        names
    }

    /// Where a link ends, as a path of the machine.
    pub(crate) fn target(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let root = fs::canonicalize(&self.root).ok()?;
        let target = fs::canonicalize(self.path(path)).ok()?;
        Some(Path::new("/").join(target.strip_prefix(root).ok()?))
    }

    /// Last component of where a link ends.
    pub(crate) fn target_name(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(self.target(path)?.file_name()?.to_str()?.to_owned())
    }
}

/// Runs of digits as numbers, so that `mlx5_10` comes after `mlx5_9`.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(word);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        parts.push((number.parse().unwrap_or(0), text.to_owned()));
        rest = tail;
    }
    // The text decides before the number that follows it.
    parts.into_iter().flat_map(|(number, text)| [(0, text), (number, String::new())]).collect()
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["mlx5_10", "mlx5_9", "bnxt_re0", "mlx5_bond_0", "mlx5_1"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["bnxt_re0", "mlx5_1", "mlx5_9", "mlx5_10", "mlx5_bond_0"]);
    }
}
