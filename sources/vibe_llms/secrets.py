"""Secrets, as a type that does not print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

HIDDEN = "********"


class Secret:
    """A key, a token or a header value that no log, error, event or file may hold.

    It prints as asterisks, cannot be pickled, and compares by identity; :meth:`reveal` is the
    only way to the text, and is called where it is sent and nowhere else.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Returns the text itself."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, specification: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret is not written down.")


class Settings(Mapping[str, Any]):
    """A mapping some of whose values may be secrets: it prints its keys alone."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Settings({', '.join(self._values)})"
