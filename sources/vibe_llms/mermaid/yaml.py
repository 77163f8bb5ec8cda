"""Reader of YAML for attributes and front matter: the subset that diagrams use.

It supports mappings and sequences in both styles, plain and quoted scalars, block scalars and
comments. Anchors, aliases, tags, keys of several lines and several documents are refused by name,
although Mermaid reads them: diagrams do not use them, and aliases can make large values of small
ones. The result is that of Mermaid's own reader (js-yaml), also where the specification says less.

PyYAML 6.0 and ruamel.yaml 0.19 would be less code. With scalars resolved as in JSON, they read six
and nine of the stored diagrams differently than Mermaid, take five times as long, and recurse as
deep as a text nests; so this package keeps its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NoReturn

from vibe_llms.mermaid.yaml_scalars import fold_block, fold_lines, resolve, unescape, write_key

MAX_LEVELS: Final = 100
"""Maximum depth of nested values."""

_GAP = re.compile(r"[ \t\n]*(?:#[^\n]*\n[ \t\n]*)*(?:#[^\n]*)?")
_BLANK = re.compile(r"[ \t\n]*")
_DOUBLE = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:''|[^'])*)'")
_HEADER = re.compile(r"([|>])([+-]?)([1-9]?)([+-]?)(?:[ \t]+#[^\n]*|[ \t]*)(?:\n|\Z)")
_FIRST = re.compile(r"[^ \t\n,\[\]{}#&*!|>'\"%@`?-]|[?-](?=[^ \t\n])")
_FLOW_FIRST = re.compile(r"[^ \t\n,\[\]{}#&*!|>'\"%@`?-]|[?-](?=[^ \t\n,\[\]{}])")
_LINE = re.compile(r"(?::(?=[^ \t\n])|(?<=[^ \t\n])#|[^:#\n])*")
_FLOW_LINE = re.compile(r"(?::(?=[^ \t\n,\[\]{}])|(?<=[^ \t\n])#|[^:#\n,\[\]{}])*")
_COLON = re.compile(r"[ \t]*:")
_ITEM = re.compile(r"-(?=[ \t\n]|\Z)")
_NO_KEY = re.compile(r"[?:](?=[ \t\n]|\Z)")
_SEPARATOR = re.compile(r"(?:---|\.\.\.)(?=[ \t\n]|\Z)")
_QUOTED_SEPARATOR = re.compile(r"\n(?:---|\.\.\.)(?=[ \t\n])")
_ADVICE = "is not read in diagrams: quote it if it is text"
_UNSUPPORTED = {"&": "an anchor", "*": "an alias", "!": "a tag", "?": "a key of several lines"}
_QUOTED_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff\ud800-\udfff]")


class YamlError(ValueError):
    """Invalid or unsupported YAML, at ``position``."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def read_yaml(text: str) -> object:
    """Return the value of a document; ``None`` for an empty one."""
    return _Reader(text).read_document()


class _Nothing:
    """Placeholder of a missing value, which differs from ``null``."""


_NOTHING = _Nothing()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.position = 0
        self.depth = 0

    def read_document(self) -> object:
        self.skip()
        if self.position == len(self.text):
            return None
        if self.column() == 0 and (
            self.text.startswith("---", self.position) or self.peek() == "%"
        ):
            self.fail(f"begins a document by name, which {_ADVICE}")
        value = self.read_block(self.indent() - 1)
        self.skip()
        if self.position < len(self.text):
            self.fail("stands where nothing may follow")
        return None if isinstance(value, _Nothing) else value

    # Position

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        found = self.text[at : at + 1]
        if not found:
            subject = "the end"
        elif found.isspace():
            subject = "the end of a line"
        else:
            subject = repr(found)
        raise YamlError(f"{subject} {message}", at)

    def line(self) -> int:
        return bisect_right(self.starts, self.position)

    def column(self) -> int:
        return self.position - self.starts[self.line() - 1]

    def indent(self) -> int:
        """Return the indentation of the current line."""
        start = self.starts[self.line() - 1]
        line = self.text[start : self.position]
        return len(line) - len(line.lstrip(" "))

    def peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def skip(self) -> bool:
        """Skip white space, empty lines and comments; return whether another line was reached."""
        before = self.line()
        self.accept(_GAP)
        if _SEPARATOR.match(self.text, self.position) and self.column() == 0:
            self.fail(f"begins or ends one of several documents, which {_ADVICE}")
        return self.line() > before

    def accept(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.position)
        if found:
            self.position = found.end()
        return found

    def is_after_tab(self) -> bool:
        return "\t" in self.text[self.starts[self.line() - 1] : self.position]

    # Blocks

    def read_block(self, parent: int) -> object:
        """Read a possible collection that is defined by indentation."""
        self.depth += 1
        if self.depth > MAX_LEVELS:
            self.fail(f"is inside of more than {MAX_LEVELS} others")
        column = self.column()
        # Tabs may separate, but not indent: no collection can begin after one.
        if self.is_after_tab():
            value = self.read_scalar(parent + 1)
        elif _ITEM.match(self.text, self.position):
            value = self.read_sequence(column)
        else:
            value = self.read_mapping(column, parent + 1)
        self.depth -= 1
        return value

    def read_sequence(self, column: int) -> list[object]:
        values: list[object] = []
        while self.accept(_ITEM):
            if self.skip() and self.indent() <= column:
                values.append(None)
                continue
            line = self.line()
            value = self.read_block(column)
            values.append(None if isinstance(value, _Nothing) else value)
            self.end_entry(line, column)
            if self.position == len(self.text) or self.indent() < column:
                break
            if self.is_after_tab():
                self.fail("is indented with a tab: use spaces")
        return values

    def read_mapping(self, column: int, indent: int) -> object:
        """Read a mapping, or the value that would be its first key if a colon followed."""
        values: dict[str, object] = {}
        while self.position < len(self.text):
            begin, line = self.position, self.line()
            if values and self.is_after_tab():
                self.fail("is indented with a tab: use spaces")
            if _NO_KEY.match(self.text, self.position):
                self.fail(f"has no key before it, or begins one of several lines, which {_ADVICE}")
            key = self.read_flow(indent, inside=False)
            if isinstance(key, _Nothing):
                if values:
                    break
                return self.read_scalar(indent)
            # A key ends in the line in which it began.
            if self.line() != line or not self.accept(_COLON):
                if values:
                    self.fail("begins no key: write each as name: value, on its own line", begin)
                return key
            if self.peek().strip(" \t\n"):
                self.fail("follows a colon at once: put a space between them")
            self.store(values, key, self.read_value(column), begin)
            self.end_entry(line, column)
            if self.indent() < column:
                break
        return values

    def read_value(self, column: int) -> object:
        if not self.skip():
            value = self.read_scalar(column + 1)
        elif self.indent() > column:
            value = self.read_block(column)
        elif self.indent() == column and _ITEM.match(self.text, self.position):
            value = self.read_sequence(column)  # items may have the same indentation as their key
        else:
            return None
        return None if isinstance(value, _Nothing) else value

    def end_entry(self, line: int, column: int) -> None:
        self.skip()
        if self.position < len(self.text) and (self.line() == line or self.indent() > column):
            self.fail("stands where the entry before it must have ended")

    def store(self, values: dict[str, object], key: object, value: object, begin: int) -> None:
        name = self.name(key, begin)
        if name in values:
            self.fail(f"begins the key {name} for the second time", begin)
        values[name] = value

    def name(self, key: object, begin: int) -> str:
        """Return the text of a key as in JavaScript."""
        if not isinstance(key, list):
            return "[object Object]" if isinstance(key, dict) else write_key(key)
        if any(isinstance(each, list) for each in key):
            self.fail("begins a key with a list inside of a list", begin)
        return ",".join("" if each is None else self.name(each, begin) for each in key)

    # Values

    def read_scalar(self, indent: int) -> object:
        if self.peek() in ("|", ">"):
            return self.read_folded(indent)
        return self.read_flow(indent, inside=False)

    def read_flow(self, indent: int, *, inside: bool) -> object:
        """Read a value that does not depend on indentation; a placeholder if none begins."""
        self.depth += 1
        if self.depth > MAX_LEVELS:
            self.fail(f"is inside of more than {MAX_LEVELS} others")
        first = self.peek()
        if first in ("{", "["):
            value = self.read_collection(indent)
        elif first in ("'", '"'):
            value = self.read_quoted()
        else:
            value = self.read_plain(indent, inside)
        self.depth -= 1
        return value

    def read_collection(self, indent: int) -> object:
        begin = self.position
        closing = "}" if self.peek() == "{" else "]"
        self.position += 1
        pairs: dict[str, object] = {}
        items: list[object] = []
        is_next = True
        while True:
            self.skip()
            if self.position == len(self.text):
                self.fail("begins a collection without end", begin)
            if self.peek() == closing:
                break
            if not is_next or self.peek() == ",":
                self.fail("stands where one comma must separate two entries")
            start, line = self.position, self.line()
            key = self.read_flow(indent, inside=True)
            key = None if isinstance(key, _Nothing) else key
            self.skip()
            value: object = None
            is_pair = self.line() == line and self.peek() == ":"
            if is_pair:
                self.position += 1
                self.skip()
                value = self.read_flow(indent, inside=True)
                value = None if isinstance(value, _Nothing) else value
            if closing == "}":
                self.store(pairs, key, value, start)
            else:
                items.append({self.name(key, start): value} if is_pair else key)
            self.skip()
            is_next = self.peek() == ","
            if is_next:
                self.position += 1
        self.position += 1
        return pairs if closing == "}" else items

    def read_quoted(self) -> str:
        begin = self.position
        found = self.accept(_DOUBLE) or self.accept(_SINGLE)
        if not found:
            self.fail("begins a quotation without end")
        if _QUOTED_CONTROL.search(found[1].replace("\n", "")):
            self.fail("begins a quotation with a control character", begin)
        if _QUOTED_SEPARATOR.search(found[1]):
            self.fail("begins a quotation with a line that would end the document", begin)
        if found[0][0] == "'":
            return fold_lines(found[1]).replace("''", "'")
        text = unescape(found[1])
        if text is None:
            self.fail("begins a quotation with a backslash that means nothing", begin)
        return text

    def read_plain(self, indent: int, inside: bool) -> object:
        if not (_FLOW_FIRST if inside else _FIRST).match(self.text, self.position):
            if what := _UNSUPPORTED.get(self.peek()):
                self.fail(f"begins {what}, which {_ADVICE}")
            return _NOTHING
        begin = self.position
        pattern = _FLOW_LINE if inside else _LINE
        while True:
            self.accept(pattern)
            end = self.position
            if self.peek() != "\n":
                break
            self.accept(_BLANK)
            if (
                self.position == len(self.text)
                or self.indent() < indent
                or self.peek() == "#"
                or (self.column() == 0 and _SEPARATOR.match(self.text, self.position))
            ):
                self.position = end
                break
            if not (continued := pattern.match(self.text, self.position)) or not continued[0]:
                self.position = end
                break
        text = self.text[begin:end].rstrip(" \t\n")
        if _CONTROL.search(text):
            self.fail("begins a text with a control character", begin)
        return resolve(fold_lines(text))

    def read_folded(self, indent: int) -> str:
        header = self.accept(_HEADER)
        if header is None:
            self.fail("begins no text of several lines: end the line behind it")
        style, before, width, after = header.groups()
        if before and after:
            self.fail("begins a text that says twice how it ends", header.start())
        min_indent = indent + int(width) - 1 if width else None
        if min_indent == 0:
            self.fail(f"begins a text indented by nothing, which {_ADVICE}", header.start())
        text_indent = indent if min_indent is None else min_indent
        lines: list[str] = []
        while self.position < len(self.text):
            end = self.text.find("\n", self.position)
            end = len(self.text) if end < 0 else end
            line = self.text[self.position : end]
            spaces = len(line) - len(line.lstrip(" "))
            if min_indent is None:
                text_indent = max(text_indent, spaces)
            if len(line) > spaces:
                if min_indent is None and text_indent == 0:
                    self.fail("must be indented more than what it belongs to")
                if spaces < text_indent:
                    break
                min_indent = text_indent
            elif min_indent is None:
                line = ""
            lines.append(line[text_indent:])
            self.position = min(end + 1, len(self.text))
        if min_indent is None and text_indent == 0:
            self.fail("begins a text without lines that are indented", header.start())
        if _CONTROL.search("".join(lines)):
            self.fail("begins a text with a control character", header.start())
        return fold_block(lines, style, before or after)
