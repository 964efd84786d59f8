//! Recorded machines, for tests of whatever looks at machines.
//!
//! A tree is a text: `PATH = CONTENT` for a file, with `\n` and `\t` in it; `PATH -> PATH` for a
//! link, `PATH/` for a folder, `#` before a remark.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::Machine;

/// Eight H100 and twelve InfiniBand ports, two of them down.
pub const DGX_H100: &str = include_str!("../trees/dgx-h100.tree");
/// Four GPUs and four InfiniBand ports, each behind a host bridge of its own.
pub const GB200_TRAY: &str = include_str!("../trees/gb200-tray.tree");
/// Two GPUs and two ports of RoCE, one of them down.
pub const ROCE: &str = include_str!("../trees/roce.tree");
/// Neither RDMA nor GPU.
pub const PLAIN: &str = include_str!("../trees/plain.tree");

/// Writes a tree into a folder.
///
/// # Errors
/// The folder cannot be written to, or a line is not understood.
pub fn unpack(tree: &str, folder: &Path) -> io::Result<Machine> {
    let machine = Machine::recorded(folder);
    for line in tree.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let under = |path: &str| {
            let path = machine.path(path);
            path.parent().map_or(Ok(()), fs::create_dir_all).map(|()| path)
        };
        if let Some((path, target)) = line.split_once(" -> ") {
            symlink(machine.path(target), under(path)?)?;
        } else if let Some((path, content)) = line.split_once(" = ") {
            let content = content.replace("\\n", "\n").replace("\\t", "\t");
            fs::write(under(path)?, content + "\n")?;
        } else if line.ends_with('/') {
            fs::create_dir_all(machine.path(line))?;
        } else {
            return Err(io::Error::other(format!("not a line of a tree: {line}")));
        }
    }
    Ok(machine)
}
