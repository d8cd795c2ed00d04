"""Packages made on the spot, so that environments are built without any network."""
import base64
import contextlib
import hashlib
import http.server
import io
import pathlib
import tarfile
import threading
import zipfile


def _row(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def wheel(folder, name, version, requires=(), scripts=None, source=None, more=None):
    """A wheel with a module `name` that knows its version; `scripts` are console entry points, `more` other files."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source or f"version = '{version}'\n\n\ndef main():\n    print('{name}', version)\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                             + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files.update(more or {})
    if scripts:
        lines = "".join(f"{word} = {target}\n" for word, target in scripts.items())
        files[f"{about}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = "".join(_row(path, text.encode()) for path, text in files.items()) + f"{about}/RECORD,,\n"
    path = pathlib.Path(folder) / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for inside, text in {**files, f"{about}/RECORD": record}.items():
            file.writestr(inside, text)
    return path


def sdist(folder, name, version, code):
    """A source distribution whose build backend is `code`; that defines module(), the text of the module to build."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    backend = code + f"""
import os, zipfile


def build_wheel(folder, settings=None, metadata=None):
    file = "{name}-{version}-py3-none-any.whl"
    about = "{name}-{version}.dist-info/"
    with zipfile.ZipFile(os.path.join(folder, file), "w") as wheel:
        wheel.writestr("{name}.py", module())
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(about + "RECORD", "")
    return file
"""
    files = {"PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
             "backend.py": backend}
    path = pathlib.Path(folder) / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for inside, text in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{inside}")
            entry.size = len(text.encode())
            file.addfile(entry, io.BytesIO(text.encode()))
    return path


class SlowIndex:
    """An index of a folder's wheels and source distributions that answers once `go` is set; `begun` when it is first asked."""

    def __init__(self, folder, host="127.0.0.1"):
        begun, go = threading.Event(), threading.Event()

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                begun.set()
                go.wait(120)
                name = self.path.rstrip("/").rsplit("/", 1)[-1]
                found = sorted(path.name for path in folder.glob(f"{name}-*"))
                page = "".join(f'<a href="/files/{one}">{one}</a>' for one in found).encode()
                is_wheel = name.endswith((".whl", ".tar.gz"))
                body = (folder / name).read_bytes() if is_wheel else page
                self.send_response(200 if is_wheel or found else 404)
                self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(body if self.command == "GET" else b"")

            do_HEAD = do_GET  # uv asks so for a wheel's size.

            def log_message(self, *_):
                pass

        self.begun, self.go = begun, go
        self.server = http.server.ThreadingHTTPServer((host, 0), Answer)
        self.url = f"http://{host}:{self.server.server_address[1]}/simple"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()
