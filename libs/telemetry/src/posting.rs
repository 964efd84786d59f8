//! A process's own file in the directory of targets: where its metrics are, for whoever looks.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::targets::{
    ENDING, JOB_LABEL, RANDOM_CHARS, RANK_LABEL, TIER_LABEL, TargetGroup, make_usual_dir,
    name_start, read_targets, targets_dir,
};

/// Prometheus may be another user.
const FILE_MODE: u32 = 0o644;

/// What a process is, for those who look at its metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// `storage`, `augment`, `receiver`, or the verb of the program.
    pub tier: &'static str,
    /// Job and number of a training rank.
    pub rank: Option<(String, u32)>,
}

/// The file; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Posting {
    path: PathBuf,
    /// Locked while it is open. Forked children have it too, so it may outlive this.
    _file: File,
    posted_in: u32,
}

// === impl Target ===

impl Target {
    /// A process of a tier that is no training rank.
    #[must_use]
    pub fn of(tier: &'static str) -> Self {
        Self { tier, rank: None }
    }

    /// A training rank.
    #[must_use]
    pub fn rank(job: &str, rank: u32) -> Self {
        Self { tier: "receiver", rank: Some((job.to_owned(), rank)) }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([(TIER_LABEL.to_owned(), self.tier.to_owned())]);
        if let Some((job, rank)) = &self.rank {
            labels.insert(JOB_LABEL.to_owned(), job.clone());
            labels.insert(RANK_LABEL.to_owned(), rank.to_string());
        }
        labels
    }
}

// === impl Posting ===

impl Posting {
    /// Leaves a file in the directory that is configured; empty: this user's on this host.
    ///
    /// # Errors
    /// The directory cannot be made, or not be written to.
    pub(crate) fn leave(
        configured: &Path,
        target: &Target,
        address: SocketAddr,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let folder = targets_dir(configured);
        let is_usual = configured.as_os_str().is_empty();
        let entry = TargetGroup {
            targets: vec![reached_at(address, is_usual)],
            labels: target.labels(),
            ..TargetGroup::default()
        };
        let write = || {
            match is_usual {
                true => make_usual_dir()?,
                // Others are not to see or leave files there, unless somebody has made it for them.
                false => DirBuilder::new().recursive(true).mode(0o700).create(&folder)?,
            }
            // Whoever was killed has left its own behind: read, they are removed.
            read_targets(&folder)?;
            leave(&folder, &name_start(target.tier), &serde_json::to_vec(&[entry])?)
        };
        let (path, file) = write().map_err(|error| (folder.clone(), error))?;
        Ok(Self { path, _file: file, posted_in: std::process::id() })
    }
}

/// Makes a file with a name that starts so, and locks it. It gets its name when it is whole and locked.
fn leave(folder: &Path, start: &str, text: &[u8]) -> io::Result<(PathBuf, File)> {
    let mut draft = tempfile::Builder::new()
        .prefix(&format!(".{start}"))
        .rand_bytes(RANDOM_CHARS)
        .permissions(Permissions::from_mode(FILE_MODE))
        .tempfile_in(folder)?;
    // Where there are no locks, nobody takes the file for one that was left. Another user who has
    // locked it is not waited for.
    let _ = draft.as_file().try_lock();
    draft.write_all(text)?;
    let name = draft.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = folder.join(format!("{}{ENDING}", name.trim_start_matches('.')));
    let file = draft.persist(&path)?;
    Ok((path, file))
}

impl Drop for Posting {
    fn drop(&mut self) {
        // A forked child has a copy.
        if self.posted_in == std::process::id() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The address for others: of this host, or of hosts that share the directory.
fn reached_at(address: SocketAddr, by_this_host: bool) -> String {
    let port = address.port();
    match address {
        address if !address.ip().is_unspecified() => address.to_string(),
        SocketAddr::V4(_) if by_this_host => format!("127.0.0.1:{port}"),
        SocketAddr::V6(_) if by_this_host => format!("[::1]:{port}"),
        _ => {
            let host = rustix::system::uname();
            format!("{}:{port}", host.nodename().to_string_lossy())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_until_it_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("job");
        let address = "10.1.2.3:9403".parse().unwrap();
        let posting = Posting::leave(&shared, &Target::rank("run7", 3), address).unwrap();
        let found = read_targets(&shared).unwrap();
        let labels = [("tier", "receiver"), ("headwater_job", "run7"), ("rank", "3")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let targets = vec!["10.1.2.3:9403".to_owned()];
        assert_eq!(found.groups, [TargetGroup { targets, labels, is_own: true }]);
        assert_eq!(found.troubles, [""; 0]);
        drop(posting);
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
    }

    /// As in two containers of one host name whose processes have one number.
    #[test]
    fn processes_with_one_number_and_host_name_leave_each_other_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let leave = |port: u16| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            Posting::leave(folder.path(), &Target::of("augment"), address).unwrap()
        };
        let count = || read_targets(folder.path()).unwrap().groups.len();
        let (_one, other) = (leave(1), leave(2));
        assert_eq!(count(), 2);
        drop(other);
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_link_that_lies_where_a_draft_would_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let draft = format!(".augment-{host}-{}.json", std::process::id());
        std::os::unix::fs::symlink(&precious, folder.path().join(draft)).unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let posting = Posting::leave(folder.path(), &Target::of("augment"), address).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        assert!(posting.path.symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn who_listens_on_all_addresses_is_reached_by_one() {
        let all = "0.0.0.0:9400".parse().unwrap();
        assert_eq!(reached_at(all, true), "127.0.0.1:9400");
        assert_eq!(reached_at("[::]:9400".parse().unwrap(), true), "[::1]:9400");
        let named = reached_at(all, false);
        assert!(named.ends_with(":9400") && !named.starts_with("0.0.0.0"), "{named}");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let (path, _) = Posting::leave(file.path(), &Target::of("augment"), address).unwrap_err();
        assert!(path.starts_with(file.path()), "{}", path.display());
    }
}
