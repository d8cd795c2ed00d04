"""Packages made on the spot, so that environments are built without any network."""
import base64
import hashlib
import pathlib
import zipfile


def _row(path, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def wheel(folder, name, version, requires=(), scripts=None, source=None):
    """A wheel with a module `name` that knows its version; `scripts` are console entry points."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source or f"version = '{version}'\n\n\ndef main():\n    print('{name}', version)\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                             + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if scripts:
        lines = "".join(f"{word} = {target}\n" for word, target in scripts.items())
        files[f"{about}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = "".join(_row(path, text.encode()) for path, text in files.items()) + f"{about}/RECORD,,\n"
    path = pathlib.Path(folder) / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for inside, text in {**files, f"{about}/RECORD": record}.items():
            file.writestr(inside, text)
    return path
