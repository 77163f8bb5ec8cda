"""Front matter: the YAML table between two lines of ``---`` at the start of a Markdown file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from vibe_llms.exceptions import ConfigurationError, Finding

FRONT_MATTER_CHARACTERS: Final = 50_000
"""Maximum length of front matter."""

_DEPTH: Final = 20

_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.M)
_UNQUOTED: Final = re.compile(
    r"^([A-Za-z][\w-]*:[ \t]++)(?![\"'|>])((?:\[.*[^\]\s]|.*:(?=\s|$).*))$", re.MULTILINE
)
"""A field in one line whose value must be quoted: it begins like a list, or has a colon."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:+/-]*")
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class MarkdownFile(NamedTuple):
    """A Markdown file, split.

    Attributes:
        fields: The fields of the front matter: texts, lists and tables of texts. Numbers, dates and
            the like stay texts as written.
        body: The text behind it.
        line: Number of the first line of the body, from 1.
        is_present: False if the file has no front matter; then the body is the whole file.
    """

    fields: Mapping[str, Any]
    body: str
    line: int = 1
    is_present: bool = False


def split_front_matter(text: str, place: str, *, is_lenient: bool = False) -> MarkdownFile:
    """Split a Markdown file.

    Args:
        place: Path of the file, for errors.
        is_lenient: Accept values in one line that YAML requires to be quoted, such as a description
            with a colon. Many skills have them, because Claude Code accepts them.

    Raises:
        ConfigurationError: The front matter is not a table in YAML, too long, or uses anchors.
    """
    match = _FRONT.match(text)
    if match is None:
        return MarkdownFile({}, text)
    if len(match[1]) > FRONT_MATTER_CHARACTERS:
        message = f"The front matter is longer than {FRONT_MATTER_CHARACTERS} characters."
        raise ConfigurationError.at(place, message)
    body = text[match.end() :]
    line = text.count("\n", 0, match.end()) + 1
    try:
        fields = _read_fields(match[1], place)
    except ConfigurationError:
        quoted = _UNQUOTED.sub(_quote, match[1]) if is_lenient else match[1]
        if quoted == match[1]:
            raise
        fields = _read_fields(quoted, place)
    return MarkdownFile(fields, body, line, is_present=True)


def _quote(match: re.Match[str]) -> str:
    return match[1] + json.dumps(match[2].strip())


def _read_fields(text: str, place: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    class Loader(yaml.BaseLoader):  # type: ignore[misc]  # reads every value as a text
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            problem = "it is nested too deeply" if self.depth > _DEPTH else ""
            if self.check_event(yaml.AliasEvent):  # a few of them can stand for gigabytes
                problem = "anchors are not supported"
            if problem:
                mark = self.peek_event().start_mark
                raise yaml.composer.ComposerError(None, None, problem, mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        fields = yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = 0 if mark is None else mark.line + 2  # below the first line of dashes
        message = f"Invalid YAML: {error.problem or error}."
        raise ConfigurationError(
            findings=(Finding(place=place, message=message, line=line),)
        ) from error
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        detail = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigurationError.at(place, f"Invalid YAML: {detail}.") from error
    if fields in (None, ""):
        return {}
    if not isinstance(fields, dict):
        raise ConfigurationError.at(place, "The front matter is not a table of fields.")
    return fields


def compose_front_matter(fields: Mapping[str, Any], body: str) -> str:
    """Return a Markdown file with front matter, which :func:`split_front_matter` reads.

    Args:
        fields: Texts, lists and tables of texts, at any depth.
    """
    return f"---\n{_write_table(fields, '')}---\n{body}"


def _write_table(fields: Mapping[str, Any], indent: str) -> str:
    return "".join(
        f"{indent}{_write_text(key)}:{_write_value(value, indent)}" for key, value in fields.items()
    )


def _write_value(value: Any, indent: str) -> str:
    if not value:
        return " {}\n" if isinstance(value, Mapping) else "\n" if value == "" else " []\n"
    if isinstance(value, Mapping):
        return "\n" + _write_table(value, f"{indent}  ")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n" + "".join(_write_item(item, indent) for item in value)
    return f" {_write_text(str(value))}\n"


def _write_item(item: Any, indent: str) -> str:
    is_table = bool(item) and isinstance(item, Mapping)
    written = _write_value(item, indent if is_table else f"{indent}  ")
    if is_table:  # its first field is in the line of the dash
        return f"{indent}- {written.removeprefix(chr(10)).removeprefix(f'{indent}  ')}"
    return f"{indent}-{written}"


def _write_text(text: str) -> str:
    """Return a text as YAML: plain if that is unambiguous, else quoted, as in JSON."""
    is_plain = _PLAIN.fullmatch(text) and not text.endswith((":", " ")) and ": " not in text
    if is_plain and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(map(_escape, quoted))


def _escape(letter: str) -> str:
    if letter.isprintable():
        return letter
    number = ord(letter)
    return f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}"
