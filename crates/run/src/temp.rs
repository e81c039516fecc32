//! Temporary folders: one place for all of them, and none that stays behind.
//!
//! They lie in `nicforge-UID` in the system's temporary folder (TMPDIR), which is this user's
//! alone, so names in it need not be guarded against others. A folder goes when its value is
//! dropped, by [`remove_all`] where a signal ends the process, and else, where it was killed, at
//! the start of the next one: while a process lives it holds a lock on each of its folders, so
//! those that nobody has locked are left over. The place itself goes with the last folder.
//!
//! What is kept on purpose (code that a compiler refused, a verifier's log) lies there too, and
//! goes after a day.
//!
//! *No race:* folders are made, removed and swept with the place locked, and who finds the place
//! gone after it got the lock (another process removed it as empty) makes it again.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Folders of this process.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Begins the names of what is kept.
const KEPT: &str = "kept-";
/// How long it is.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked while this lives.
    _lock: File,
}

impl Folder {
    /// Makes one; `kind` begins its name.
    ///
    /// # Errors
    /// The file system's, or the place belongs to somebody else.
    pub fn new(kind: &str) -> io::Result<Folder> {
        Folder::filled(kind, |_| Ok(()))
    }

    /// Makes one with something in it. A signal waits until it is whole: what is half there could
    /// be missed, or written again behind the removal.
    ///
    /// # Errors
    /// As [`Folder::new`], and what `fill` gives.
    pub fn filled(kind: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Folder> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(&place()));
        // In this order everywhere: first this process's list, then the place.
        let mut live = live();
        let (root, lock) = open_place(&place())?;
        let path = tempfile::Builder::new().prefix(&format!("{kind}-")).tempdir_in(&root)?.keep();
        let held = File::open(&path).and_then(|dir| {
            dir.try_lock().map_err(io::Error::from)?;
            Ok(dir)
        });
        drop(lock);
        let folder = match held {
            Ok(lock) => Folder { path, _lock: lock },
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                return Err(error);
            }
        };
        live.push(folder.path.clone());
        let filled = fill(&folder.path);
        drop(live);
        filled.map(|()| folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps it for a day; gives its new name. Where that fails it keeps the name it has.
    pub fn keep(self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kept = self.path.with_file_name(format!("{KEPT}{name}"));
        let moved = std::fs::rename(&self.path, &kept).is_ok();
        let path = if moved { kept } else { self.path.clone() };
        live().retain(|known| *known != self.path);
        std::mem::forget(self);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
        live().retain(|known| *known != self.path);
    }
}

/// Writes a file that is kept for a day, and gives its name.
///
/// # Errors
/// The file system's.
pub fn keep_file(kind: &str, name: &str, text: &str) -> io::Result<PathBuf> {
    let folder = Folder::new(kind)?;
    std::fs::write(folder.path().join(name), text)?;
    Ok(folder.keep().join(name))
}

/// Removes all folders of this process, which is about to end. Nobody makes another one behind
/// this.
pub fn remove_all() {
    let live = live();
    for path in live.iter() {
        remove(path);
    }
    std::mem::forget(live);
}

/// The place of this user's temporary folders.
pub fn place() -> PathBuf {
    // SAFETY: no arguments.
    std::env::temp_dir().join(format!("nicforge-{}", unsafe { libc::geteuid() }))
}

/// Makes the place if need be, checks whose it is, and locks it.
fn open_place(root: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        match std::fs::DirBuilder::new().mode(0o700).create(root) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Not through a link: in a shared folder somebody else might have made it.
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let found = match std::fs::symlink_metadata(root) {
            Err(error) if gone(&error) => continue,
            found => found?,
        };
        // SAFETY: no arguments.
        let user = unsafe { libc::geteuid() };
        if !found.is_dir() || found.uid() != user || found.permissions().mode() & 0o077 != 0 {
            let text = format!(
                "{} is not a folder of this user that is closed to others; remove it, or set TMPDIR to another folder",
                root.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let lock = match File::open(root) {
            Err(error) if gone(&error) => continue,
            lock => lock?,
        };
        lock.lock()?;
        if std::fs::symlink_metadata(root).is_ok_and(|now| now.ino() == found.ino()) {
            return Ok((root.to_path_buf(), lock));
        }
    }
}

/// Removes a folder, and the place if it was the last one.
fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
    let Some(root) = path.parent() else { return };
    let Ok(lock) = File::open(root) else { return };
    // Whoever has the lock makes a folder, so the place is not empty.
    if lock.try_lock().is_ok() {
        let _ = std::fs::remove_dir(root);
    }
}

/// Removes what processes that were killed left there.
fn sweep(root: &Path) {
    if !root.is_dir() {
        return;
    }
    let Ok((root, _lock)) = open_place(root) else { return };
    for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        let kept = entry.file_name().to_string_lossy().starts_with(KEPT);
        let age = found.modified().ok().and_then(|at| at.elapsed().ok());
        let stale = match kept {
            true => age.is_some_and(|age| age > KEPT_FOR),
            false => File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok()),
        };
        if stale && found.is_dir() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let _ = std::fs::remove_dir(&root);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_locked_and_removed() {
        let folder = Folder::new("test").unwrap();
        let path = folder.path().to_path_buf();
        assert!(path.is_dir() && path.parent() == Some(&place()), "{path:?}");
        sweep(&place());
        assert!(path.is_dir(), "one that is in use stays");
        drop(folder);
        assert!(!path.exists());
        let file = keep_file("test", "log.txt", "text").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
        remove(file.parent().unwrap());
    }

    #[test]
    fn what_nobody_holds_is_swept_and_young_kept_things_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("place");
        drop(open_place(&root).unwrap());
        std::fs::create_dir(root.join("host-abc")).unwrap();
        std::fs::create_dir(root.join("kept-log")).unwrap();
        sweep(&root);
        let names: Vec<_> =
            std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["kept-log"]);
        let old = std::time::SystemTime::now() - KEPT_FOR - Duration::from_secs(60);
        File::open(root.join("kept-log")).unwrap().set_modified(old).unwrap();
        sweep(&root);
        assert!(!root.exists(), "the place goes with the last one");
    }

    #[test]
    fn a_place_of_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let (target, root) = (dir.path().join("target"), dir.path().join("place"));
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &root).unwrap();
        let error = open_place(&root).unwrap_err();
        assert!(error.to_string().contains("set TMPDIR"), "{error}");
        std::fs::remove_file(&root).unwrap();
        std::fs::create_dir(&root).unwrap();
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open_place(&root).is_err(), "open to others");
    }
}
