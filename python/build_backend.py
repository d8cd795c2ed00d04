"""Builds the wheel and the source archive of this folder (PEP 517, PEP 660) with nothing but the
standard library. scripts/dist adds the binary to the wheel."""
import base64
import hashlib
import io
import pathlib
import re
import tarfile
import time
import zipfile

_HERE = pathlib.Path(__file__).resolve().parent
_PURE = "py3-none-any"
_TIME = 1577836800  # The same files make the same archive.


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, package_files())


def package_files():
    """What a wheel has of the package: bytes by their path."""
    return {name: (_HERE / name).read_bytes() for name in _sources()}


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {"trainyard.pth": f"{_HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    base = "{name}-{version}".format(**_project())
    names = ["pyproject.toml", "README.md", "build_backend.py", *_sources()]
    with tarfile.open(pathlib.Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as archive:
        for name in names:
            archive.add(_HERE / name, f"{base}/{name}")
        data = _metadata().encode()
        info = tarfile.TarInfo(f"{base}/PKG-INFO")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return f"{base}.tar.gz"


def _sources():
    paths = sorted((_HERE / "trainyard").glob("*.py"))
    return [f"trainyard/{path.name}" for path in [*paths, _HERE / "trainyard/py.typed"]]


def _project():
    """The texts of pyproject.toml's [project]; Python before 3.11 has no reader for it."""
    text = (_HERE / "pyproject.toml").read_text(encoding="utf-8").split("[project]", 1)[1]
    return dict(re.findall(r'^([\w-]+) = "(.*)"$', text, re.M))


def _metadata():
    project = _project()
    readme = (_HERE / project["readme"]).read_text(encoding="utf-8")
    return (f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
            f"Summary: {project['description']}\nLicense: Apache-2.0\nRequires-Python: {project['requires-python']}\n"
            f"Description-Content-Type: text/markdown\n\n{readme}")


def version():
    return _project()["version"]


def write_wheel(folder, files, tag=_PURE, made_at=_TIME):
    """Writes a wheel of these files and returns its name. `made_at` is in seconds since 1970."""
    base = "{name}-{version}".format(**_project())
    info = f"{base}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: trainyard\nRoot-Is-Purelib: {str(tag == _PURE).lower()}\nTag: {tag}\n"
    files = dict(files, **{f"{info}/METADATA": _metadata().encode(), f"{info}/WHEEL": wheel.encode()})
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{base}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, time.gmtime(made_at)[:6])
            entry.external_attr = (0o100755 if ".data/scripts/" in path else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
