"""The lines of a .amlignore or .gitignore, with git's meaning. Paths are bytes, '/' between
parts."""

_SLASH = 0x2F


def _byte_class(test) -> "frozenset":
    return frozenset(c for c in range(128) if test(chr(c)))


_SPACE = frozenset(b" \t\n\r")  # Git's own: no vertical tab, no form feed.
_PRINT = frozenset(range(0x20, 0x7F))
_ALNUM = _byte_class(str.isalnum)
_CLASSES = {
    b"alnum": _ALNUM,
    b"alpha": _byte_class(str.isalpha),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset(range(0x20)) | {0x7F},
    b"digit": _byte_class(str.isdigit),
    b"graph": _PRINT - _SPACE,
    b"lower": _byte_class(str.islower),
    b"print": _PRINT,
    b"punct": _PRINT - _SPACE - _ALNUM,
    b"space": _SPACE,
    b"upper": _byte_class(str.isupper),
    b"xdigit": frozenset(b"0123456789abcdefABCDEF"),
}


class Glob:
    """? and sets match one byte but not '/', a star any bytes but '/', a double star that stands
    alone between slashes any bytes. A pattern that git holds for broken matches nothing.

    All ways through the pattern are followed at once, a bit of an integer for each place: trying
    one after the other would take exponential time for a few stars."""

    def __init__(self, pattern: bytes) -> None:
        self._count = 0
        self._takes: dict[int, int] = {}  # Byte -> the tokens that take it.
        self._stars = 0  # Any bytes but '/'.
        self._anys = 0  # Any bytes.
        self._folders = 0  # Nothing, or any bytes and a '/'.
        self.broken = not self._parse(pattern)
        self._empty = self._stars | self._anys | self._folders

    def matches(self, text: bytes) -> bool:
        """Whether the whole text fits the pattern."""
        if self.broken:
            return False
        now = self._skip(1)
        inside = 0  # Of the folders: past their first byte.
        for byte in text:
            inside |= now & self._folders
            after = (now & self._takes.get(byte, 0)) << 1 | now & self._anys
            if byte == _SLASH:
                after |= inside << 1
            else:
                after |= now & self._stars
            now = self._skip(after)
            if not now and not inside:
                return False
        return bool(now >> self._count & 1)

    def _skip(self, places: int) -> int:
        while True:
            more = places | (places & self._empty) << 1
            if more == places:
                return places
            places = more

    def _add(self, taken) -> None:
        for byte in taken:
            self._takes[byte] = self._takes.get(byte, 0) | 1 << self._count
        self._count += 1

    def _parse(self, pattern: bytes) -> bool:
        at = 0
        while at < len(pattern):
            c = pattern[at:at + 1]
            if c == b"*":
                at = self._add_stars(pattern, at)
            elif c == b"?":
                self._add(set(range(256)) - {_SLASH})
                at += 1
            elif c == b"[":
                at = self._add_set(pattern, at + 1)
                if at < 0:
                    return False
            else:
                if c == b"\\":
                    at += 1
                    if at == len(pattern):
                        return False
                self._add((pattern[at],))
                at += 1
        return True

    def _add_stars(self, pattern: bytes, first: int) -> int:
        at = first
        while pattern[at:at + 1] == b"*":
            at += 1
        rest = pattern[at:]
        alone = ((first == 0 or pattern[first - 1] == _SLASH)
                 and (not rest or rest.startswith((b"/", b"\\/"))))
        bit = 1 << self._count
        self._count += 1
        if at - first < 2 or not alone:
            self._stars |= bit
        elif rest.startswith(b"/"):
            self._folders |= bit
            at += 1
        else:
            self._anys |= bit
        return at

    def _add_set(self, pattern: bytes, at: int) -> int:
        """From behind '[' to behind its ']'; -1 when it is never closed or names no class."""
        taken: set[int] = set()
        negated = pattern[at:at + 1] in (b"!", b"^")
        at += negated
        start = at
        previous = -1  # Where a range may begin.
        while True:
            if at >= len(pattern):
                return -1
            c = pattern[at:at + 1]
            if c == b"]" and at != start:
                break
            if c == b"-" and previous >= 0 and pattern[at + 1:at + 2] not in (b"", b"]"):
                at += 1
                if pattern[at:at + 1] == b"\\":
                    at += 1
                if at >= len(pattern):
                    return -1
                taken.update(range(previous, pattern[at] + 1))
                previous = -1
                at += 1
                continue
            if c == b"[" and pattern[at + 1:at + 2] == b":":
                end = pattern.find(b"]", at + 2)
                if end < 0:
                    return -1
                if end > at + 2 and pattern[end - 1:end] == b":":
                    named = _CLASSES.get(pattern[at + 2:end - 1])
                    if named is None:
                        return -1
                    taken |= named
                    previous = -1
                    at = end + 1
                    continue
            if c == b"\\":
                at += 1
                if at >= len(pattern):
                    return -1
            previous = pattern[at]
            taken.add(previous)
            at += 1
        if negated:
            taken = set(range(256)) - taken
        self._add(taken - {_SLASH})
        return at + 1


class _Rule:
    __slots__ = ("negated", "folders_only", "name_only", "suffix", "literal", "rest")

    def __init__(self, line: bytes, negated: bool) -> None:
        self.negated = negated
        self.folders_only = line.endswith(b"/")
        if self.folders_only:
            line = line[:-1]
        self.name_only = b"/" not in line  # Fits at any depth.
        if line.startswith(b"/"):
            line = line[1:]
        plain = _first_special(line)
        self.suffix = self.name_only and line.startswith(b"*") and _first_special(line[1:]) < 0
        self.literal = line[1:] if self.suffix else line if plain < 0 else line[:plain]
        self.rest = None if self.suffix or plain < 0 else Glob(line[plain:])

    def fits(self, text: bytes) -> bool:
        if self.suffix:
            return text.endswith(self.literal)
        if not text.startswith(self.literal):
            return False
        rest = text[len(self.literal):]
        return not rest if self.rest is None else self.rest.matches(rest)


class IgnoreFile:
    """One ignore file. ``judge`` says of a path relative to its folder: True ignored, False kept,
    None nothing."""

    def __init__(self, text: bytes) -> None:
        self._rules: list[_Rule] = []
        if text.startswith(b"\xef\xbb\xbf"):
            text = text[3:]
        for line in text.split(b"\n"):
            if line.endswith(b"\r"):
                line = line[:-1]
            if line.startswith(b"#"):
                continue
            line = _without_trailing_spaces(line.split(b"\0", 1)[0])
            negated = line.startswith(b"!")
            line = line[negated:]
            if line not in (b"", b"/"):
                self._rules.append(_Rule(line, negated))
        self._rules.reverse()  # The last line that fits decides.

    def judge(self, path: bytes, is_folder: bool) -> "bool | None":
        """Whether the file's last rule that fits ignores the path; None: no rule fits."""
        name = path[path.rfind(b"/") + 1:]
        for rule in self._rules:
            if rule.folders_only and not is_folder:
                continue
            if rule.fits(name if rule.name_only else path):
                return not rule.negated
        return None


class Level:
    """The ignore files that hold in one folder: its own, and those above it. ``base`` is how much
    of a path is the file's folder and its slash."""

    def __init__(self, file: "IgnoreFile", base: int, above: "Level | None") -> None:
        self._file = file
        self._base = base
        self._above = above

    def ignores(self, path: bytes, is_folder: bool) -> bool:
        """Of a path whose parents are not ignored: the deepest file that says anything decides."""
        level: Level | None = self
        while level is not None:
            verdict = level._file.judge(path[level._base:], is_folder)
            if verdict is not None:
                return verdict
            level = level._above
        return False


def _first_special(line: bytes) -> int:
    found = [at for at in map(line.find, (b"*", b"?", b"[", b"\\")) if at >= 0]
    return min(found, default=-1)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Spaces at the end go, unless a backslash stands before the first of them."""
    end = at = 0
    while at < len(line):
        if line[at:at + 1] == b"\\":
            at += 1
            if at >= len(line):
                return line
            end = at + 1
        elif line[at:at + 1] != b" ":
            end = at + 1
        at += 1
    return line[:end]
