"""Values as the JSON of record lines. By hand, because a call of ``run.log`` must cost microseconds
and ``import json`` alone takes longer than all of ``Run.get_context()``.

Numbers of any library are taken by their ``item()`` or ``float()``, so that neither numpy nor torch
has to be imported. JSON has no NaN and no infinity: they are strings.
"""

from .warn import warn_once

try:
    from _json import encode_basestring_ascii as _escape
except ImportError:
    from json.encoder import encode_basestring_ascii as _escape

_INT_MAX = 2**63  # More does not fit a 64-bit number and becomes a float.
_DEPTH_MAX = 64
_INFINITY = float("inf")


class TooDeep(ValueError):
    """A value nests deeper than a record may."""

    def __init__(self) -> None:
        super().__init__(f"nests deeper than {_DEPTH_MAX} levels")


def quote(text: str) -> str:
    """A string as JSON, in ASCII; halves of surrogate pairs become U+FFFD."""
    quoted = _escape(text)
    if "\\ud" in quoted:
        quoted = _escape(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return quoted


def scalar(value: object) -> str:
    """A number or a string as JSON: what a metric may be. ``True`` is 1."""
    kind = type(value)
    if kind is float:
        return _float(value)
    if kind is int:
        return repr(value) if -_INT_MAX <= value < _INT_MAX else _large(value)
    if kind is bool:
        return "1" if value else "0"
    if kind is str:
        return quote(value)
    return scalar(plain(value))


def json_text(value: object, depth: int = 0) -> str:
    """Lists, dicts and what they hold as JSON; arrays by their ``tolist()``."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if depth > _DEPTH_MAX:
        raise TooDeep
    if isinstance(value, dict):
        pairs = (f"{quote(str(k))}:{json_text(v, depth + 1)}" for k, v in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return "[" + ",".join([json_text(item, depth + 1) for item in value]) + "]"
    if getattr(value, "ndim", 0) and hasattr(value, "tolist"):
        return json_text(value.tolist(), depth + 1)
    return scalar(value)


def values_of(values: object) -> list:
    """The items of a list, a tuple, an array, a series, any iterable."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        return [values]
    return list(values)


def plain(value: object) -> "float | int | bool | str":
    """What a value is as a Python number or string; the last resort is its text."""
    item = getattr(value, "item", None)
    if item is not None:
        try:
            found = item()
            if type(found) in (float, int, bool, str):
                return found
        except Exception:  # An array of several; then it is text.
            pass
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if hasattr(value, "__float__") and not getattr(value, "ndim", 0):
        try:
            return float(value)
        except Exception:
            pass
    warn_once("odd value", f"a value of type {type(value).__name__} is logged as its text")
    return str(value)


def _float(value: float) -> str:
    if value != value:
        return '"NaN"'
    if value == _INFINITY:
        return '"Infinity"'
    if value == -_INFINITY:
        return '"-Infinity"'
    return repr(value)


def _large(value: int) -> str:
    try:
        return repr(float(value))
    except OverflowError:
        return '"Infinity"' if value > 0 else '"-Infinity"'
