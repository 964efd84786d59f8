//! Folders and files that no other user can have put there.
//!
//! `/dev/shm` and `/tmp` belong to everybody: another user may be the first to make a folder there, or
//! may leave a link in the place of a file. So a guard looks at what is there: owner, mode, links.
//!
//! Deliberately absent: where folders are; new files, which the crate `tempfile` makes under random names
//! with `O_EXCL`; the host's cache, which has rules of its own (`libs/cache`).
#![forbid(unsafe_code)]

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::OFlags;

/// Nobody but the user.
const FOLDER_MODE: u32 = 0o700;
const OTHERS: u32 = 0o077;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const ROOT: u32 = 0;
/// Linux's own value of [`OVERFLOW_UID`].
const NOBODY: u32 = 65_534;

/// The user to whom all files belong whose owner has no number here: in a container without root, those of all users
/// of the host but one.
static OVERFLOW_UID: LazyLock<u32> = LazyLock::new(|| {
    let read = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(NOBODY)
});

/// Makes a folder that only this user can enter. The folder above it must be there.
///
/// # Errors
/// The system refuses, or what is there already is not such a folder.
pub fn make_own_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check_own_folder(path),
    }
}

/// Makes sure that a path is a folder that only this user can enter.
///
/// # Errors
/// It is not, or it cannot be looked at.
pub fn check_own_folder(path: &Path) -> io::Result<()> {
    // A link would lead to a folder that somebody else may put others in the place of.
    let found = path.symlink_metadata()?;
    if found.is_dir() && found.uid() == own_uid() && found.mode() & OTHERS == 0 {
        return Ok(());
    }
    let reason = "it is not a folder that only this user can enter";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Opens a file to read it. Follows no link at its end, and waits for no pipe.
///
/// # Errors
/// It cannot be opened, or is not a file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
    }
}

/// Opens a file to read it, as [`open_file`] does, if only this user, root or another `owner` that is trusted with it
/// can have written it. No other owner of whom nothing is known is trusted, as `nobody` is (65534).
///
/// # Errors
/// It cannot be opened, is not a file, or somebody else can have written it.
pub fn open_trusted_file(path: &Path, owner: Option<u32>) -> io::Result<File> {
    let file = open_file(path)?;
    let found = file.metadata()?;
    let owner = owner.filter(|owner| *owner != *OVERFLOW_UID);
    match is_own(&found) || owner.is_some_and(|owner| is_of(&found, owner)) {
        true => Ok(file),
        false => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can have written it"))
        }
    }
}

/// Whether only this user or root can have written a file.
#[must_use]
pub fn is_own(file: &Metadata) -> bool {
    is_of(file, own_uid()) || is_of(file, ROOT)
}

/// Whether a file, folder or link belongs to another user than this one and root.
#[must_use]
pub fn is_anothers(found: &Metadata) -> bool {
    ![own_uid(), ROOT].contains(&found.uid())
}

/// Whether a file of this user's may take the place of what was found. Root and the `owner` may replace any user's file:
/// everybody who reads there trusts them. Another user may not: the two would not read each other's file, and would
/// replace it in turns. A file of an unknown user stays: it may be this user's own, as NFS shows root's.
#[must_use]
pub fn may_replace(found: &Metadata, owner: Option<u32>) -> bool {
    let is_trusted = own_uid() == ROOT || owner == Some(own_uid());
    !is_anothers(found) || is_trusted && found.uid() != *OVERFLOW_UID
}

/// Whether a file is a user's, and nobody else can write it.
fn is_of(file: &Metadata, uid: u32) -> bool {
    file.uid() == uid && file.mode() & WRITABLE_BY_OTHERS == 0
}

/// Whether a path still leads to the file, socket or folder that `known` was.
#[must_use]
pub fn is_still_at(known: &Metadata, path: &Path) -> bool {
    let identity = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    path.symlink_metadata().is_ok_and(|found| identity(&found) == identity(known))
}

/// The user whose files this process writes: its effective one.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use rustix::fs::Uid;

    use super::*;

    /// A user who may have a number everywhere.
    const OTHER: u32 = 12_345;

    #[test]
    fn a_folder_that_others_may_enter_or_that_is_a_link_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("own");
        make_own_folder(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, FOLDER_MODE);
        make_own_folder(&path).expect("the second time");
        let link = top.path().join("link");
        symlink(&path, &link).unwrap();
        let refused = |path: &Path| make_own_folder(path).unwrap_err().kind();
        assert_eq!(refused(&link), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(refused(&path), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        match chown(&path, Some(NOBODY), None) {
            Ok(()) => assert_eq!(refused(&path), io::ErrorKind::PermissionDenied),
            Err(error) => eprintln!("only root gives a folder to another user: skipped: {error}"),
        }
    }

    #[test]
    fn links_pipes_and_folders_are_no_files() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::write(at("file"), "text").unwrap();
        assert!(open_file(&at("file")).is_ok());
        symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, mode, 0)
            .unwrap();
        for name in ["link", "folder", "pipe"] {
            assert!(open_file(&at(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_is_own_if_nobody_else_can_write_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is = || is_own(&file.path().metadata().unwrap());
        let set = |mode| file.as_file().set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        assert!(is());
        set(0o644);
        assert!(is());
        for mode in [0o664, 0o646] {
            set(mode);
            assert!(!is(), "{mode:o}");
        }
        set(0o600);
        match chown(file.path(), Some(NOBODY), None) {
            Ok(()) => assert!(!is()),
            Err(error) => eprintln!("only root gives a file to another user: skipped: {error}"),
        }
    }

    #[test]
    fn a_file_of_another_user_is_opened_only_if_that_user_is_trusted_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let opens = |owner| open_trusted_file(file.path(), owner).map_err(|error| error.kind());
        let set = |mode| file.as_file().set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        set(0o644);
        assert!(opens(None).is_ok());
        assert!(!is_anothers(&file.path().metadata().unwrap()));
        if let Err(error) = chown(file.path(), Some(OTHER), None) {
            return eprintln!("only root gives a file to another user: skipped: {error}");
        }
        let found = || file.path().metadata().unwrap();
        assert!(is_anothers(&found()));
        assert!(may_replace(&found(), None), "root's goes in the place of anyone's");
        let by_third = |owner| {
            let may = || {
                rustix::thread::set_thread_uid(Uid::from_raw(OTHER + 1)).unwrap();
                may_replace(&found(), owner)
            };
            std::thread::scope(|scope| scope.spawn(may).join().unwrap())
        };
        assert!(![None, Some(OTHER)].into_iter().any(by_third));
        assert!(by_third(Some(OTHER + 1)), "the owner's does, too");
        for owner in [None, Some(OTHER - 1)] {
            assert_eq!(opens(owner).unwrap_err(), io::ErrorKind::PermissionDenied);
        }
        assert!(opens(Some(OTHER)).is_ok());
        set(0o664);
        assert_eq!(opens(Some(OTHER)).unwrap_err(), io::ErrorKind::PermissionDenied);
        // Whose it is nobody knows.
        set(0o644);
        chown(file.path(), Some(*OVERFLOW_UID), None).unwrap();
        assert_eq!(opens(Some(*OVERFLOW_UID)).unwrap_err(), io::ErrorKind::PermissionDenied);
        assert!(!may_replace(&found(), None));
    }

    #[test]
    fn another_file_of_the_same_name_is_another() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("file");
        let file = File::create(&path).unwrap();
        let known = file.metadata().unwrap();
        assert!(is_still_at(&known, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_still_at(&known, &path));
        fs::write(&path, "").unwrap();
        assert!(!is_still_at(&known, &path), "`file` is open, so its number is not given away");
    }
}
