"""Files that a server names, written below a folder of the user's choice and nowhere else."""

import contextlib
import os

from .errors import UserError

# Where the system cannot open a file relative to a folder (Windows), paths are joined instead; there
# one needs a right of its own to make a link.
_RELATIVE = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
_FOLDER = (os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
           | getattr(os, "O_CLOEXEC", 0))
_NEW = (os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))


@contextlib.contextmanager
def folder_below(root, path):
    """A folder below ``root``, made if need be, that no link on the way there leads out of.

    ``root`` is the user's and may be reached by links. Gives what a ``dir_fd`` is, or None, and
    what names in the folder begin with: together they name a file in it."""
    path = os.fsdecode(path)
    os.makedirs(root, exist_ok=True)
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") or "\0" in part for part in parts):
        raise UserError(f"'{path}' leads out of its folder")
    if not _RELATIVE:
        joined = os.path.join(os.fsdecode(root), *parts)
        os.makedirs(joined, exist_ok=True)
        yield None, joined + os.sep
        return
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o777, dir_fd=fd)
            try:
                inner = os.open(part, _FOLDER, dir_fd=fd)
            except OSError as error:
                raise UserError(f"'{part}' of '{path}' is a link or a file, not a folder: nothing is "
                                "written through it", "Remove it, or choose another folder."
                                ) from error
            os.close(fd)
            fd = inner
        yield fd, ""
    finally:
        os.close(fd)


@contextlib.contextmanager
def new_file(root, path, mode: int = 0o666):
    """Opens a file below ``root`` to be written; it gets its name when it is whole, in place of
    what has it, and is gone if it does not come to that."""
    text = os.fsdecode(path)
    above, _, name = text.rpartition("/")
    if name in ("", ".", ".."):
        raise UserError(f"'{text}' is not a file's name")
    with folder_below(root, above) as (folder, begin):
        half = f"{begin}.trainyard-partial-{os.urandom(16).hex()}"
        file = os.fdopen(os.open(half, _NEW, mode & 0o777, dir_fd=folder), "wb")
        try:
            with file:
                yield file
            os.replace(half, begin + name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(half, dir_fd=folder)
            raise


def new_link(root, path, target) -> None:
    """Makes a symbolic link below ``root``; what has its name already is left."""
    above, _, name = os.fsdecode(path).rpartition("/")
    with folder_below(root, above) as (folder, begin):
        os.symlink(os.fsdecode(target), begin + name, dir_fd=folder)
