"""Temporary folders, in the same place as those of `nicforge` itself: TMPDIR/nicforge-UID.

The program sweeps that place at its start: it removes folders that nobody has locked, so one that a
killed process left goes. The rules are those of crates/run/src/temp.rs: folders are made with the
place locked, and each is locked while it is used.
"""

import fcntl
import os
import pathlib
import shutil
import stat
import tempfile

from .errors import FlowError


class Folder:
    """One folder; `kind` begins its name."""

    def __init__(self, kind: str):
        root = pathlib.Path(tempfile.gettempdir()) / f"nicforge-{os.geteuid()}"
        place = _lock_place(root)
        try:
            self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=root))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(place)

    def remove(self) -> None:
        """Removes it, and the place if it was the last folder there."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        try:
            place = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rmdir(self.path.parent)
        except OSError:
            # Others have folders there.
            pass
        finally:
            os.close(place)


def _lock_place(root: pathlib.Path) -> int:
    while True:
        try:
            root.mkdir(mode=0o700, exist_ok=True)
            found = os.lstat(root)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise FlowError(
                f"cannot make the temporary folder {root}: {error.strerror}", None
            ) from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            message = f"{root} is not a folder of this user that is closed to others"
            raise FlowError(message, None, "remove it, or set TMPDIR to another folder")
        try:
            place = os.open(root, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        fcntl.flock(place, fcntl.LOCK_EX)
        # Whoever emptied it may have removed it meanwhile.
        try:
            if os.lstat(root).st_ino == found.st_ino:
                return place
        except FileNotFoundError:
            pass
        os.close(place)
