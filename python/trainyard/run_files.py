"""Files of a run: from this machine to where the run keeps them, and back."""
from __future__ import annotations

import os
import shutil
import tempfile
import time

from .errors import NotFound, Unavailable, UserError
from .new_files import folder_below, new_file, new_link
from .server import quote_path

_CHUNK = 1 << 20
_TRIES = 5
_UPLOAD_S = 600.0
_UNKNOWN_S = 5.0  # A child run's first line travels by its supervisor; so long it may take.


# ---- names ----

def kept_name(name: object) -> str:
    """Where a run keeps what a script calls ``name``: in outputs/ or logs/, never outside."""
    text = os.fspath(name).replace("\\", "/") if os.name == "nt" else os.fspath(name)
    while text.startswith("./"):
        text = text[2:]
    text = "/".join(part for part in text.split("/") if part != "") if not text.startswith("/") \
        else text
    check_relative(text)
    return text if text.startswith(("outputs/", "logs/")) else "outputs/" + text


def check_relative(path: str) -> None:
    """Refuses what would leave the folder it is joined to, on any system."""
    parts = path.split("/")
    bad = any(part in ("", ".", "..") or "\0" in part for part in parts)
    if os.name == "nt":
        bad = bad or any(c in path for c in '\\:*?"<>|')
    if bad:
        raise UserError(f"'{path}' is not a file's name in a run",
                        "Use a relative path without '..', such as outputs/model.pt.")


# ---- up ----

def upload_file(run, name: str, path_or_stream) -> None:
    kept = kept_name(name)
    with _opened(path_or_stream) as source:
        run._store_file(kept, source)


def upload_files(run, names: list, paths: list) -> None:
    if len(names) != len(paths):
        raise UserError(f"upload_files: {len(names)} names for {len(paths)} paths")
    for name, path in zip(names, paths):
        upload_file(run, name, path)


def upload_folder(run, name: str, path: str) -> None:
    if not os.path.isdir(path):
        raise UserError(f"upload_folder: '{path}' is not a folder")
    found = []
    for folder, below, names in os.walk(path):
        below.sort()
        found.extend(os.path.join(folder, file) for file in sorted(names))
    base = name.replace("\\", "/") if os.name == "nt" else name
    base = base.strip("/") if base not in (".", "./") else ""
    for file in found:  # Listed first: the copies may lie below the folder itself.
        if not os.path.isfile(file):
            continue
        relative = os.path.relpath(file, path).replace(os.sep, "/")
        upload_file(run, f"{base}/{relative}" if base else relative, file)


def keep_image(run, name: str, path, plot) -> str:
    """Keeps an image in outputs/images and returns its name there."""
    safe = "".join(c if c.isalnum() and c.isascii() or c in "-_" else "_" for c in name)[:80]
    stamp = time.time_ns() // 1000
    if plot is not None:
        kept = f"outputs/images/{safe or 'image'}-{stamp}.png"
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "image.png")
            plot.savefig(file)
            upload_file(run, kept, file)
        return kept
    if path is None:
        raise UserError("log_image: give a path or a plot")
    kept = f"outputs/images/{safe or 'image'}-{stamp}{os.path.splitext(path)[1].lower()}"
    upload_file(run, kept, path)
    return kept


def copy_into(folder: str, name: str, source) -> None:
    """Copies an open file to ``folder/name``, whole or not at all."""
    target = os.path.join(folder, *name.split("/"))
    above = os.path.dirname(target)
    os.makedirs(above, exist_ok=True)
    inside = os.path.join(os.path.realpath(folder), "")
    if not os.path.join(os.path.realpath(above), "").startswith(inside):
        raise UserError(f"'{name}' leads out of the run's folder by a symbolic link")
    if _is_same(source, target):
        return  # The script wrote it where it belongs.
    part = f"{target}.part-{os.getpid()}-{os.urandom(3).hex()}"
    try:
        with open(part, "wb") as out:
            shutil.copyfileobj(source, out, _CHUNK)
        os.replace(part, target)
    except BaseException:
        _remove(part)
        raise


def put_output(run, name: str, source) -> None:
    """Sends an open file to a run that keeps files by itself: an interactive one. Sent again when
    the connection is lost."""
    path = name[len("outputs/"):] if name.startswith("outputs/") else name
    end = time.monotonic() + _UNKNOWN_S
    tries = 0
    while True:
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        try:
            run._server().send("PUT", f"/runs/{run.id}/outputs/{quote_path(path)}",
                               _pieces(source), timeout=_UPLOAD_S,
                               headers={"content-length": str(size),
                                        "content-type": "application/octet-stream"})
            return
        except NotFound:
            if time.monotonic() > end or run.parent is None:
                raise
        except Unavailable:
            tries += 1
            if tries == _TRIES:
                raise
            time.sleep(0.2 * 2**(tries - 1))
            continue
        run.flush(_UNKNOWN_S)
        time.sleep(0.1)


def _opened(path_or_stream):
    """Something to read bytes from and to seek in."""
    if not hasattr(path_or_stream, "read"):
        try:
            return open(path_or_stream, "rb")
        except IsADirectoryError:
            raise UserError(f"'{path_or_stream}' is a folder",
                            "upload_folder(name, path) takes a whole one.") from None
        except FileNotFoundError:
            raise UserError(f"there is no file '{path_or_stream}'") from None
    copy = tempfile.TemporaryFile()
    while True:
        piece = path_or_stream.read(_CHUNK)
        if not piece:
            copy.seek(0)
            return copy
        copy.write(piece.encode() if isinstance(piece, str) else piece)


def _pieces(source):
    while True:
        piece = source.read(_CHUNK)
        if not piece:
            return
        yield piece


def _is_same(source, target: str) -> bool:
    try:
        return os.path.samestat(os.fstat(source.fileno()), os.stat(target))
    except (OSError, AttributeError, ValueError):
        return False


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass


# ---- down ----

def list_files(run) -> list[dict]:
    """What the run keeps beside its code."""
    files = run._server().pages(f"/runs/{run.id}/files")
    return [file for file in files if file.get("kind") != "snapshot"]


def download_file(run, name: str, output: str | None) -> None:
    target = output or name.rsplit("/", 1)[-1]
    if os.path.isdir(target) or target.endswith(("/", os.sep)):
        target = os.path.join(target, name.rsplit("/", 1)[-1])
    folder, place = os.path.split(os.path.abspath(target))
    _download_below(run, name, folder, place)


def _download_below(run, name: str, folder: str, place: str) -> None:
    """To ``place`` in the user's ``folder``, through no link on the way."""
    here = _local_file(run, name)
    target = os.path.join(folder, place)
    if here is not None and os.path.exists(target) and os.path.samefile(here, target):
        return
    with new_file(folder, place) as out:
        if here is None:
            fetch_file(run, name, out)
        else:
            with open(here, "rb") as source:
                shutil.copyfileobj(source, out, _CHUNK)


def fetch_file(run, name: str, out) -> None:
    """Writes a run's file to ``out``; a lost connection is taken up where it broke."""
    server = run._server()
    for tries in range(_TRIES):
        try:
            server.stream(f"/runs/{run.id}/files/{quote_path(name)}", {"from": out.tell()},
                          out.write)
            return
        except Unavailable:
            if tries == _TRIES - 1:
                raise
            time.sleep(0.2 * 2**tries)


def download_files(run, prefix, output_directory, output_paths, append_prefix: bool) -> None:
    names = [name for name in run.get_file_names() if name.startswith(prefix or "")]
    if output_paths is not None and len(output_paths) != len(names):
        raise UserError(f"download_files: {len(output_paths)} output_paths for {len(names)} files")
    for i, name in enumerate(names):
        check_relative(name)
        if output_paths is not None:
            download_file(run, name, os.path.join(output_directory or ".", output_paths[i]))
            continue
        place = name if append_prefix or not prefix else name[len(prefix):].lstrip("/")
        _download_below(run, name, output_directory or ".", place or name.rsplit("/", 1)[-1])


def download_logs(run, destination: str | None) -> list[str]:
    folder = destination or run.id
    paths = []
    for file in list_files(run):
        if file.get("kind") in ("console", "log", "system"):
            check_relative(file["path"])
            paths.append(os.path.join(folder, file["path"]))
            _download_below(run, file["path"], folder, file["path"])
    return paths


def restore_snapshot(run, path: str | None) -> str:
    """Writes the code into a new or empty folder."""
    from .tree import read_tree
    folder = path or f"{run.id}-code"
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise UserError(f"'{folder}' is not empty", "Name a new folder.")
    entries = read_tree(run._server().send("GET", f"/runs/{run.id}/snapshot"))
    for entry in entries:
        if entry.kind == "link":
            new_link(folder, entry.path, entry.target)
        elif entry.kind == "folder":
            with folder_below(folder, entry.path):
                pass
        else:
            with new_file(folder, entry.path, 0o755 if entry.kind == "exec" else 0o644) as out:
                run._server().stream(f"/runs/{run.id}/blobs/{entry.digest}", None, out.write)
    return folder


def _local_file(run, name: str) -> str | None:
    """The script's own file, which the server gets only at the end of the run."""
    from .offline_run import OfflineRun
    from .script_run import ScriptRun
    if not isinstance(run, (OfflineRun, ScriptRun)):
        return None
    kept = kept_name(name)
    path = os.path.join(run._work_folder(), *kept.split("/"))
    return path if os.path.isfile(path) else None
