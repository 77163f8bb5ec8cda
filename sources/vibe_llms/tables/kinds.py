"""Kinds of values in tables: texts, numbers, lists, paths and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from vibe_llms.foundation.suggestions import suggest

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.tables.paths import KeyPath

FAULTY: Final = object()
"""Stands for an invalid value, which was reported."""

_T = TypeVar("_T")

_MAX_CHARACTERS = 80


def _return_unchanged(value: Any) -> Any:
    return value


class KindReader(Protocol):
    """Reader of a table that contains values of a kind; see :class:`.reading.TableReader`."""

    @property
    def base(self) -> Path:
        """Directory where relative paths start."""

    def read(self, cls: type[_T], table: object, path: KeyPath = (), /) -> _T | None:
        """Convert a nested table to a value of an attrs class; report mistakes."""

    def read_fields(
        self, kinds: Mapping[str, Kind], table: object, path: KeyPath = ()
    ) -> dict[str, Any]:
        """Return the valid values of a nested table by key, and report the other ones."""

    def survey(self, path: KeyPath, table: object) -> Iterable[tuple[str, Any]]:
        """Return the keys and values of a nested table, or report a value of another kind."""

    def report(self, path: KeyPath, message: str) -> None:
        """Report a mistake in the value at a path."""


class Kind:
    """Kind of values.

    Args:
        words: Description for people; completes the sentence "It must be".
        is_valid: Checks a value of any type.
        convert: Converts a valid value. The text of its ValueError is reported.
        parse: Parses the text of an environment variable. It returns invalid text unchanged, so
            that ``is_valid`` refuses it.
        is_shown: Whether an error may repeat a wrong text, which could be a secret.
    """

    __slots__ = ("convert", "is_shown", "is_valid", "parse", "words")

    def __init__(
        self,
        words: str,
        is_valid: Callable[[Any], bool],
        convert: Callable[[Any], Any] = _return_unchanged,
        *,
        parse: Callable[[str], Any] = str,
        is_shown: bool = True,
    ) -> None:
        self.words = words
        self.is_valid = is_valid
        self.convert = convert
        self.parse = parse
        self.is_shown = is_shown

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        """Return the converted value, or report it and return ``FAULTY``."""
        if not self.is_valid(value):
            reader.report(path, f"It must be {self.words}{self.contrast(value)}")
            return FAULTY
        try:
            return self.convert(value)
        except ValueError as error:
            reader.report(path, str(error))
            return FAULTY

    def contrast(self, value: object) -> str:
        """Return the end of the sentence: the wrong value, if that adds anything."""
        shown = show_value(value, self.is_shown and not _may_have_password(value))
        # Without this check, an error could be "It must be a list of texts, not a list".
        adds_information = shown and not self.words.startswith(shown)
        return f", not {shown}." if adds_information else "."


def show_value(value: object, shows_text: bool = True) -> str:
    """Format an invalid value for an error: a short value itself, otherwise its kind.

    Args:
        shows_text: Whether a text may be shown.
    """
    if isinstance(value, str):
        shown = repr(value)
        shown = shown if len(shown) <= _MAX_CHARACTERS else f"{shown[:_MAX_CHARACTERS]}…"
        return shown if shows_text else ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if shows_text and is_number(value) else name_kind(value)


def _may_have_password(value: object) -> bool:
    """Tell whether a value may be a URL with a password, which errors must not repeat."""
    text = value.lower() if isinstance(value, str) else ""
    return "://" in text and any(word in text for word in ("@", "%40", "password="))


def name_kind(value: object) -> str:
    """Return the name of a plain value's kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return BOOLEAN.words
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if is_list(value) else f"a {type(value).__name__}"


def is_boolean(value: Any) -> bool:
    """Tell whether a value is true or false."""
    return isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number, which ``True`` is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number, which ``True`` is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """Tell whether a value is a text that is not blank."""
    # Paths and arguments of commands cannot contain a NUL.
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def is_table(value: Any) -> bool:
    """Tell whether a value is a table."""
    return isinstance(value, Mapping)


def is_list(value: Any) -> bool:
    """Tell whether a value is a list."""
    return isinstance(value, (list, tuple))


def is_list_of(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check for lists, perhaps empty, of valid values."""
    return lambda value: is_list(value) and all(map(is_valid, value))


def is_web_address(value: Any) -> bool:
    """Tell whether a text is a URL for HTTP."""
    from urllib.parse import urlsplit  # rarely needed, and slow to import

    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.netloc)


def bound(words: str, minimum: float, maximum: float = float("inf")) -> Kind:
    """Make the kind of whole numbers within bounds, both allowed."""
    return Kind(
        words, lambda value: is_whole(value) and minimum <= value <= maximum, parse=_parse_whole
    )


class Choice(Kind):
    """One of several words; an error names the nearest."""

    __slots__ = ("known",)

    def __init__(
        self, known: Iterable[str], convert: Callable[[Any], Any] = _return_unchanged
    ) -> None:
        self.known = tuple(map(str, known))
        super().__init__(
            _enumerate_words(self.known),
            lambda value: isinstance(value, str) and value in self.known,
            convert,
        )

    def contrast(self, value: object) -> str:
        return f"{super().contrast(value).removesuffix('.')}{suggest(value, self.known)}"


def _enumerate_words(words: Sequence[str]) -> str:
    """Return the words in quotes, such as ``"a", "b" or "c"``."""
    *others, last = [f'"{word}"' for word in words]
    return f"{', '.join(others)} or {last}" if others else last


def _parse_boolean(text: str) -> bool | str:
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    return words.get(text.strip().lower(), text)


def _parse_whole(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _parse_list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _compile(text: str) -> Any:
    from vibe_llms.foundation.linear_regex import (
        PatternError,
        compile_pattern,
    )  # few files have any

    try:
        return compile_pattern(text)
    except PatternError as error:
        raise ValueError(f"The pattern {text!r}: {error}.") from error


BOOLEAN = Kind("true or false", is_boolean, parse=_parse_boolean)
WHOLE = bound("a whole number", float("-inf"))
COUNT = bound("a whole number of at least 1", 1)
AMOUNT = bound("a whole number of at least 0", 0)
NUMBER = Kind("a number", is_number)
SECONDS = Kind(
    "a number of seconds above 0", lambda value: is_number(value) and 0 < value < float("inf")
)
WAIT = Kind(
    "a number of seconds above 0, or inf to wait forever",
    lambda value: is_number(value) and value > 0,
)
STRING = Kind("a text", lambda value: isinstance(value, str), is_shown=False)
TEXT = Kind("a text that is not empty", is_text, is_shown=False)
PATTERN = Kind("a regular expression", is_text, _compile)
WORD = Kind("a word", lambda value: is_text(value) and not re.search(r"[\s/]", value))
WEB_ADDRESS = Kind("an address such as https://example.org", is_web_address, is_shown=False)
TEXTS = Kind("a list of texts that are not empty", is_list_of(is_text), tuple, parse=_parse_list)
STRINGS = Kind("a list of texts", is_list_of(lambda value: isinstance(value, str)), tuple)
TABLE = Kind("a table", is_table)
TABLE_OF_TEXTS = Kind(
    "a table of texts",
    lambda value: is_table(value) and all(isinstance(each, str) for each in value.values()),
)
FILLED = Kind(
    "a list with at least one name", lambda value: TEXTS.is_valid(value) and len(value) > 0, tuple
)
