"""Regular expressions from files of plugins, projects and users, with bounded search time.

Python's ``re`` tries all ways in which a pattern could match a text (backtracking); ``^(a+)+$`` has
2**50 of them for fifty characters, and a search cannot be interrupted. So the syntax in such files
is restricted to patterns whose ways can be counted: single characters and classes may repeat, a
group may be optional but not repeat, and there are no look-arounds and back references.
"""

from __future__ import annotations

import math
import re

from vibe_llms.foundation.attrs_classes import define, frozen

NAME_CHARACTERS = 256
"""Texts of this length a pattern must search fast; longer ones are checked before each search."""

WAYS_LIMIT = 3_000_000
"""Maximum number of ways to match a text: some hundredths of a second in the worst case."""

PATTERN_CHARACTERS = 1_000
_DEPTH = 20

_TOKEN = re.compile(
    r"""(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<edge>\\[AbBZ]|[\^$])
      | (?P<character>\\[dDsSwWnrt]|\\[^\w]|[^\\()|?*+{}\[])
      | (?P<open>\((?:\?:)?(?!\?))
      | (?P<close>\))
      | (?P<or>\|)""",
    re.VERBOSE | re.DOTALL,
)
_REPETITION = re.compile(r"(?P<sign>[?*+]|\{(?P<minimum>\d+)(?P<comma>,)?(?P<maximum>\d+)?\})\??")


class PatternError(ValueError):
    """Invalid pattern; the message is a part of a sentence."""


@frozen
class _Ways:
    """The number of ways in which a piece of a pattern can match a text.

    Attributes:
        constant: The number for a text of any length, without repetitions.
        repeats: Number of repetitions in the piece. Each multiplies the ways, as the characters of
            the text can be divided among them.
    """

    constant: int = 1
    repeats: int = 0

    def count(self, characters: int) -> int:
        return self.constant * math.comb(characters + self.repeats, self.repeats)


@frozen(eq=False)
class Pattern:
    """A regular expression that is fast for short texts.

    Attributes:
        text: The pattern as written.
    """

    text: str
    _expression: re.Pattern[str]
    _ways: _Ways

    def is_found_in(self, text: str) -> bool:
        """Return whether the pattern matches somewhere; false if searching would take too long."""
        return self.is_quick_in(text) and self.search(text) is not None

    def is_quick_in(self, text: str) -> bool:
        """Return whether searching any text of this length is fast."""
        return self._ways.count(len(text)) <= WAYS_LIMIT

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match; call it only if the search is fast."""
        return self._expression.search(text)


def compile_pattern(text: str) -> Pattern:
    """Compile a user's pattern.

    Raises:
        PatternError: It is invalid, or searching it could take too long.
    """
    if len(text) > PATTERN_CHARACTERS:
        raise PatternError(f"it has more than {PATTERN_CHARACTERS} characters")
    try:
        expression = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"invalid syntax: {error}") from error
    # The only flag that is allowed: it does not change the number of ways.
    reader = _Reader(text.removeprefix("(?i)"))
    ways = reader.read_alternatives()
    if reader.rest:
        raise _refuse(reader.rest)
    if not reader.text.startswith("^") or reader.has_alternatives:
        ways = _Ways(ways.constant, ways.repeats + 1)  # a match may begin anywhere
    if ways.count(NAME_CHARACTERS) > WAYS_LIMIT:
        raise PatternError(
            "it has too many repetitions, so a search could take too long: begin it with '^', or "
            "use fewer repetitions"
        )
    return Pattern(text, expression, ways)


@define
class _Reader:
    """Parses a pattern and counts the ways in which it can match.

    Attributes:
        text: The whole pattern.
        has_alternatives: Whether it has alternatives outside of groups, so that ``^`` may belong
            to one of them only.
    """

    text: str
    has_alternatives: bool = False
    _position: int = 0
    _depth: int = 0

    @property
    def rest(self) -> str:
        """The unread part."""
        return self.text[self._position :]

    def read_alternatives(self) -> _Ways:
        """Parse up to the end, or to the bracket that closes the group."""
        ways = self._read_sequence()
        while self.rest.startswith("|"):
            self._position += 1
            if self._depth == 0:
                self.has_alternatives = True
            other = self._read_sequence()
            ways = _Ways(ways.constant + other.constant, max(ways.repeats, other.repeats))
        return ways

    def _read_sequence(self) -> _Ways:
        ways = _Ways()
        while token := _TOKEN.match(self.text, self._position):
            if token.lastgroup in ("close", "or"):
                break
            self._position = token.end()
            piece = self._read_group() if token.lastgroup == "open" else _Ways()
            piece = self._read_repetition(piece, token.lastgroup in ("class", "character"))
            ways = _Ways(ways.constant * piece.constant, ways.repeats + piece.repeats)
        return ways

    def _read_group(self) -> _Ways:
        self._depth += 1
        if self._depth > _DEPTH:
            raise PatternError(f"its groups nest more than {_DEPTH} deep")
        ways = self.read_alternatives()
        self._depth -= 1
        self._position += 1  # re has checked that the bracket exists
        return ways

    def _read_repetition(self, piece: _Ways, is_single: bool) -> _Ways:
        repetition = _REPETITION.match(self.text, self._position)
        if repetition is None:
            return piece
        self._position = repetition.end()
        if repetition["sign"] == "?":
            return _Ways(1 + piece.constant, piece.repeats)  # one more way: without the piece
        if not is_single:
            raise _refuse(repetition[0])
        minimum, maximum = repetition["minimum"], repetition["maximum"]
        if minimum is None or (repetition["comma"] and maximum is None):
            return _Ways(1, 1)
        return _Ways(1 + int(maximum or minimum) - int(minimum))


def _refuse(piece: str) -> PatternError:
    return PatternError(
        f"{piece[:20]!r} cannot be used here: a group may be followed by '?', not repeat, and "
        "look-around and back references are not supported"
    )
