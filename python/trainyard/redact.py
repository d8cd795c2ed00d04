"""Takes passwords out of run configurations before they are kept with a run, as the command line
does (src/snapshot/redact.cc): the same file, the same bytes."""

import re

FILE_MAX = 1 << 20  # A larger one is no run configuration.

KEY_MAX = 256  # Bytes. Without an end, a long word would be looked through again and again.

_KEY_END = re.compile(rb"password", re.IGNORECASE)
_KEY_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_NOTHING = (b"", b"null", b"~", b'""', b"''")
_BLANKS = b" \t\r\n"
_WORD = re.compile(rb"[^ \t\r\n,\[\]{}]*")
_TEXT = re.compile(rb"[ \t\-?]*")  # What is before the text of a line.
_SPACES = re.compile(rb" *")
_LINE_BLANKS = re.compile(rb"[ \t]*")
_ALL_BLANKS = re.compile(rb"[ \t\r\n]*")
_LINE_END = re.compile(rb"[\r\n]|\Z")
_VALUE_END = re.compile(rb"[,}\n]|\Z")
_FLOW_END = re.compile(rb"[,\]}]")
_BRACES = re.compile(rb"[\[\]{}\"']")
_PLAIN_END = re.compile(rb":(?=[ \t\r\n]|\Z)|(?<=[ \t\r\n])#|\n|\Z")
_FLOW_PLAIN_END = re.compile(rb":(?=[ \t\r\n,\[\]{}]|\Z)|(?<=[ \t\r\n])#|[\n,\[\]{}]|\Z")
_IN_QUOTES = {b'"': re.compile(rb'["\\]'), b"'": re.compile(rb"'")}
_SECTION = re.compile(rb"\[[^\]\"',:{\r\n]+\](?=[\r\n]|\Z)")


def may_hold_password(path: bytes) -> bool:
    """*.runconfig, azureml_environment.json, and all in .azureml/ or aml_config/."""
    folder, _, name = path.rpartition(b"/")
    return (name.endswith(b".runconfig") or name == b"azureml_environment.json"
            or folder.rpartition(b"/")[2] in (b".azureml", b"aml_config"))


def without_passwords(text: bytes) -> "bytes | None":
    """The text with null in place of every value whose key ends in "password"; None: it has none.

    What the scan for YAML's nodes does not understand, the one over lines may: both are made."""
    if b"\0" in text or not _KEY_END.search(text):
        return None
    nodes = _Nodes(text)
    nodes.run()
    values = sorted((*nodes.found, *_values_in_lines(text, nodes.known)))
    parts = []
    done = 0
    for begin, end in values:
        if begin >= done:
            colon = begin > done and text[begin - 1:begin] == b":"
            parts += (text[done:begin], b" null" if colon else b"null")
        done = max(done, end)
    return b"".join((*parts, text[done:])) if parts else None


class _Line:
    """Where a line begins, its first byte that is no blank, and the column of its text, behind "- " and "? "."""

    def __init__(self, text: bytes, begin: int):
        self.begin = begin
        self.first = _LINE_BLANKS.match(text, begin).end()
        self.column = _TEXT.match(text, begin).end() - begin


class _Nodes:
    """The values of passwords that do not follow their keys in the same line: within braces that span lines,
    after "? key", with an anchor, and where an alias says that they are elsewhere."""

    def __init__(self, text: bytes):
        self.text = text
        self.line = _Line(text, 0)
        self.at = 0
        self.depth = 0  # Of braces and brackets.
        self.key = (0, 0)  # The last scalar: a ':' makes it a key.
        self.awaits = False  # The next node is a password.
        self.in_line = False  # Nothing but the ':' lies between the two.
        self.value_line = self.value_column = 0  # Of the ':'.
        self.block_column = 0  # What the lines of a block's text are deeper than.
        self.anchor = b""  # Of the next node.
        self.anchors: dict[bytes, tuple[int, int]] = {}
        self.by_alias = False  # The last scalar was one.
        self.key_end = 0  # Of the last key.
        self.found: list[tuple[int, int]] = []
        self.known: set[int] = set()  # Ends of keys whose value was found; the others are for the scan over lines.
        self.open: set[bytes] = set()  # What is not closed is not searched for again.

    def run(self) -> None:
        while self.at < len(self.text):
            self._step()

    def _step(self) -> None:
        c = self.text[self.at:self.at + 1]
        after = self.text[self.at + 1:self.at + 2]
        alone = not after or after in _BLANKS
        if c in _BLANKS:
            self._move(_ALL_BLANKS.match(self.text, self.at).end())
        elif c == b"#":
            self._move(_find(self.text, b"\n", self.at))
        elif c in b"{[":
            self._open()
        elif c in b"}]" or (c == b"," and self.depth > 0):
            self.depth -= c != b"," and self.depth > 0
            self._indicator()
        elif alone and (c == b"?" or (c == b"-" and self.depth == 0)):
            self.block_column = self.at - self.line.begin
            self._indicator()
        elif c == b":" and (alone or self.depth > 0 or self.key[1] == self.at):
            self._colon()
        elif c in b"&!*":
            self._property(c)
        elif c in b"\"'" and self._is_closed(c):
            self._node(_end_of_quoted(self.text, self.at))
        elif self.depth == 0 and c in b"|>":
            self._node(_end_of_block(self.text, self.at, self.block_column))
        else:
            self._plain()

    def _move(self, to: int) -> None:
        newline = self.text.rfind(b"\n", self.at, to)
        if newline >= 0:
            self.line = _Line(self.text, newline + 1)
        self.at = to

    def _indicator(self) -> None:
        self.awaits = False
        self.key = (0, 0)
        self._move(self.at + 1)

    def _open(self) -> None:
        end = self._end_of_braces() if self.awaits else 0
        if end:
            return self._node(end)
        self.depth += 1
        self._indicator()

    def _colon(self) -> None:
        key = self.text[self.key[0]:self.key[1]]
        if key.endswith((b'"', b"'")):
            key = key[:-1]
        self.key_end = -1 if self.by_alias else self.key[0] + len(key)
        self.awaits = key[-8:].lower() == b"password"
        self.in_line = self.key[0] >= self.line.begin
        self.value_line = self.line.begin
        self.value_column = self.block_column = self.line.column
        self.key = (0, 0)
        self._move(self.at + 1)

    def _property(self, kind: bytes) -> None:
        end = _WORD.match(self.text, self.at + 1).end()
        name = self.text[self.at + 1:end]
        if kind == b"&":
            self.anchor = name
        if kind != b"*":
            self.in_line = False
            return self._move(end)
        self.key = self.anchors.get(name, (0, 0))
        self.by_alias = True
        if self.awaits and self._may_be_value():
            self._add(self.key)
        self.awaits = False
        self._move(end)

    def _may_be_value(self) -> bool:
        """Deeper than its key, or it is the next key of a block."""
        return (self.depth > 0 or self.line.begin == self.value_line
                or self.at - self.line.begin > self.value_column)

    def _plain(self) -> None:
        self.awaits = self.awaits and self._may_be_value()
        if self.awaits and self.depth > 0 and b"," not in self.open:
            end = _FLOW_END.search(self.text, self.at)
            if end:
                return self._node(end.start())
            self.open.add(b",")
        elif self.awaits and self.depth == 0:
            if not self.in_line:
                return self._node(_end_of_block(self.text, self.at, self.value_column))
            self.awaits = False  # The scan over lines knows it.
        stops = _FLOW_PLAIN_END if self.depth > 0 else _PLAIN_END
        self._node(stops.search(self.text, self.at + 1).start())

    def _node(self, end: int) -> None:
        span = (self.at, self.at + len(self.text[self.at:end].rstrip(_BLANKS)) or end)
        if self.awaits and self._may_be_value():
            self._add(span)
            self.known.add(self.key_end)
        self.awaits = self.by_alias = False
        if self.anchor:
            self.anchors[self.anchor] = span
            self.anchor = b""
        self.key = span
        self._move(max(end, self.at + 1))

    def _add(self, span: "tuple[int, int]") -> None:
        if self.text[span[0]:span[1]].strip(_BLANKS) not in _NOTHING:
            self.found.append(span)

    def _is_closed(self, quote: bytes) -> bool:
        if quote in self.open:
            return False
        end = _end_of_quoted(self.text, self.at)
        if end == len(self.text) and (end - self.at < 2 or self.text[end - 1:] != quote):
            self.open.add(quote)
        return quote not in self.open

    def _end_of_braces(self) -> int:
        depth = 0
        at = self.at
        while b"{" not in self.open:
            found = _BRACES.search(self.text, at)
            if found is None:
                break
            at = found.end()
            if found.group() in b"\"'":
                at = _end_of_quoted(self.text, found.start())
            elif found.group() in b"{[":
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    return at
        self.open.add(b"{")
        return 0


def _values_in_lines(text: bytes, known: "set[int]"):
    ini = _is_ini(text)
    line = _Line(text, 0)
    seen = done = at = 0
    while True:
        found = _KEY_END.search(text, at)
        if found is None:
            return
        key = found.start()
        newline = text.rfind(b"\n", seen, key)
        if newline >= 0:
            line = _Line(text, newline + 1)
        seen = key
        first = max(done, key - KEY_MAX)
        while key > first and text[key - 1] in _KEY_BYTES:
            key -= 1
        at = found.end()
        if at in known:
            continue
        begin, end = _value(text, key, at, line, ini)
        if text[begin:end].strip(_BLANKS) not in _NOTHING:
            yield begin, end
            done = at = end


def _is_ini(text: bytes) -> bool:
    """"[section]" in its first line that is no comment."""
    at = _ALL_BLANKS.match(text).end()
    while text[at:at + 1] in (b"#", b";"):
        at = _ALL_BLANKS.match(text, _LINE_END.search(text, at).start()).end()
    return _SECTION.match(text, at) is not None


def _value(text: bytes, key_begin: int, key_end: int, line: "_Line", ini: bool) -> "tuple[int, int]":
    before = text[key_begin - 1:key_begin] if key_begin else b"\n"
    quoted = before in (b'"', b"'") and text[key_end:key_end + 1] == before
    at = _LINE_BLANKS.match(text, key_end + (1 if quoted else 0)).end()
    assigned = ini and text[at:at + 1] == b"="
    if text[at:at + 1] != b":" and not assigned:
        return at, at
    at = (_ALL_BLANKS if quoted else _LINE_BLANKS).match(text, at + 1).end()
    if assigned:
        return at, _LINE_END.search(text, at).start()
    if text[at:at + 1] in (b'"', b"'"):
        return at, _end_of_quoted(text, at)
    if text[line.first:line.first + 1] == b"#":
        return at, _find(text, b"\n", at)
    if not quoted and line.begin + line.column == key_begin:
        return at, _end_of_block(text, at, line.column)
    return at, _VALUE_END.search(text, at).start()


def _find(text: bytes, what: bytes, at: int) -> int:
    found = text.find(what, at)
    return len(text) if found < 0 else found


def _end_of_quoted(text: bytes, at: int) -> int:
    """Behind the closing quote; YAML writes a single one within twice, JSON escapes."""
    quote = text[at:at + 1]
    at += 1
    while True:
        found = _IN_QUOTES[quote].search(text, at)
        if found is None:
            return len(text)
        at = found.end()
        if found.group() == b"\\" or (quote == b"'" and text[at:at + 1] == b"'"):
            at += 1
        else:
            return at


def _end_of_block(text: bytes, at: int, indent: int) -> int:
    """A value of a block runs on over all lines that are indented deeper than its key."""
    end = line = _find(text, b"\n", at)
    while line < len(text):
        begin = line + 1
        first = _SPACES.match(text, begin).end()
        line = _find(text, b"\n", begin)
        if first == line:
            continue
        if first - begin <= indent:
            break
        end = line
    return end
