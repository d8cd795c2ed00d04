"""Takes passwords out of run configurations before they are kept with a run, as the command line
does (src/snapshot/redact.cc): the same file, the same bytes."""

import re

FILE_MAX = 1 << 20  # A larger one is no run configuration.

KEY_MAX = 256  # Bytes. Without an end, a long word would be looked through again and again.

_KEY_END = re.compile(rb"password", re.IGNORECASE)
_KEY_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_NOTHING = (b"", b"null", b"~", b'""', b"''")
_BLANKS = b" \t\r\n"


def may_hold_password(path: bytes) -> bool:
    """*.runconfig, azureml_environment.json, and all in .azureml/ or aml_config/."""
    folder, _, name = path.rpartition(b"/")
    return (name.endswith(b".runconfig") or name == b"azureml_environment.json"
            or folder.rpartition(b"/")[2] in (b".azureml", b"aml_config"))


def without_passwords(text: bytes) -> "bytes | None":
    """The text with null in place of every value whose key ends in "password"; None: it has none."""
    kept = b""
    done = 0
    at = 0
    while True:
        found = _KEY_END.search(text, at)
        if found is None:
            return kept + text[done:] if done else None
        key = found.start()
        first = max(done, key - KEY_MAX)
        while key > first and text[key - 1] in _KEY_BYTES:
            key -= 1
        at = found.end()
        begin, end = _value(text, key, at)
        if text[begin:end].strip(_BLANKS) in _NOTHING:
            continue
        kept += text[done:begin]
        kept += b" null" if kept.endswith(b":") else b"null"
        done = at = end


def _value(text: bytes, key_begin: int, key_end: int) -> "tuple[int, int]":
    before = text[key_begin - 1:key_begin] if key_begin else b"\n"
    quoted = before in (b'"', b"'") and text[key_end:key_end + 1] == before
    at = _skip(text, key_end + (1 if quoted else 0), b" \t")
    if text[at:at + 1] != b":":
        return at, at
    at = _skip(text, at + 1, _BLANKS if quoted else b" \t")
    if text[at:at + 1] in (b'"', b"'"):
        return at, _end_of_quoted(text, at)
    line = text.rfind(b"\n", 0, key_begin) + 1
    if text[_skip(text, line, b" \t"):].startswith(b"#"):
        return at, _find(text, b"\n", at)
    if not quoted and _skip(text, line, b" \t-?") == key_begin:
        return at, _end_of_block(text, at, key_begin - line)
    return at, min(_find(text, byte, at) for byte in (b",", b"}", b"\n"))


def _skip(text: bytes, at: int, blanks: bytes) -> int:
    while at < len(text) and text[at] in blanks:
        at += 1
    return at


def _find(text: bytes, what: bytes, at: int) -> int:
    found = text.find(what, at)
    return len(text) if found < 0 else found


def _end_of_quoted(text: bytes, at: int) -> int:
    quote = text[at:at + 1]
    at += 1
    while at < len(text):
        if (quote == b'"' and text[at:at + 1] == b"\\") or (quote == b"'"
                                                           and text[at:at + 2] == b"''"):
            at += 1
        elif text[at:at + 1] == quote:
            return at + 1
        at += 1
    return len(text)


def _end_of_block(text: bytes, at: int, indent: int) -> int:
    """A value of a block runs on over all lines that are indented deeper than its key."""
    end = line = _find(text, b"\n", at)
    while line < len(text):
        begin = line + 1
        first = _skip(text, begin, b" ")
        line = _find(text, b"\n", begin)
        if first == line:
            continue
        if first - begin <= indent:
            break
        end = line
    return end
