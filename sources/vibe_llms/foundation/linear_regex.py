"""Regular expressions from files of plugins, projects and users, whose search certainly ends soon.

Python's ``re`` tries all ways in which a pattern could match; ``^(a+)+$`` has 2**50 of them through
fifty characters, and nothing interrupts the search. So what such files may write is what can be
counted: single characters and classes may repeat, a group may be left out but not repeat, and
nothing looks around or back.
"""

from __future__ import annotations

import math
import re

from vibe_llms.foundation.attrs_classes import define, frozen

NAME_CHARACTERS = 256
"""How long the names are for which a pattern has to be quick; longer ones are asked about."""

WAYS_LIMIT = 3_000_000
"""How many ways there may be through a text: some hundredths of a second in the worst case."""

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
_REPETITION = re.compile(r"(?P<sign>[?*+]|\{(?P<least>\d+)(?P<comma>,)?(?P<most>\d+)?\})\??")


class PatternError(ValueError):
    """A pattern cannot be used; says why, in the midst of a sentence."""


@frozen
class _Ways:
    """How many ways lead through a piece of a pattern.

    Attributes:
        constant: For a text of any length.
        repeats: How many repetitions share the characters of the text among them.
    """

    constant: int = 1
    repeats: int = 0

    def count(self, characters: int) -> int:
        return self.constant * math.comb(characters + self.repeats, self.repeats)


@frozen(eq=False)
class Pattern:
    """A regular expression that is quick, as far as texts are short.

    Attributes:
        text: As it was written.
    """

    text: str
    _expression: re.Pattern[str]
    _ways: _Ways

    def is_found_in(self, text: str) -> bool:
        """Tells whether it matches somewhere; it never does where looking would take too long."""
        return self.is_quick_in(text) and self.search(text) is not None

    def is_quick_in(self, text: str) -> bool:
        """Tells whether looking for it in a text so long ends soon, whatever the text says."""
        return self._ways.count(len(text)) <= WAYS_LIMIT

    def search(self, text: str) -> re.Match[str] | None:
        """Returns where it matches first; to be asked only where it is quick."""
        return self._expression.search(text)


def compile_pattern(text: str) -> Pattern:
    """Compiles a pattern that somebody wrote down.

    Raises:
        PatternError: It is no regular expression, or searching it could take too long.
    """
    if len(text) > PATTERN_CHARACTERS:
        raise PatternError(f"it has more than {PATTERN_CHARACTERS} characters")
    try:
        expression = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is no regular expression: {error}") from error
    # The one flag that may be written: it does not change how many ways there are.
    reader = _Reader(text.removeprefix("(?i)"))
    ways = reader.read_alternatives()
    if reader.rest:
        raise _refuse(reader.rest)
    if not reader.text.startswith("^") or reader.has_alternatives:
        ways = _Ways(ways.constant, ways.repeats + 1)  # it may begin anywhere
    if ways.count(NAME_CHARACTERS) > WAYS_LIMIT:
        raise PatternError(
            "it repeats too much, so that a search could take too long: begin it with '^', and "
            "write fewer repetitions"
        )
    return Pattern(text, expression, ways)


@define
class _Reader:
    """Reads a pattern, and counts the ways through it on its way.

    Attributes:
        text: The whole pattern.
        has_alternatives: It has some that are in no group, so that ``^`` may be that of one alone.
    """

    text: str
    has_alternatives: bool = False
    _place: int = 0
    _depth: int = 0

    @property
    def rest(self) -> str:
        """What has not been read."""
        return self.text[self._place :]

    def read_alternatives(self) -> _Ways:
        """Reads as far as the end, or the bracket that closes the group."""
        ways = self._read_sequence()
        while self.rest.startswith("|"):
            self._place += 1
            self.has_alternatives |= self._depth == 0
            other = self._read_sequence()
            ways = _Ways(ways.constant + other.constant, max(ways.repeats, other.repeats))
        return ways

    def _read_sequence(self) -> _Ways:
        ways = _Ways()
        while token := _TOKEN.match(self.text, self._place):
            if token.lastgroup in ("close", "or"):
                break
            self._place = token.end()
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
        self._place += 1  # re has seen that the bracket is there
        return ways

    def _read_repetition(self, piece: _Ways, is_single: bool) -> _Ways:
        found = _REPETITION.match(self.text, self._place)
        if found is None:
            return piece
        self._place = found.end()
        if found["sign"] == "?":
            return _Ways(1 + piece.constant, piece.repeats)  # one way more, past it
        if not is_single:
            raise _refuse(found[0])
        if found["least"] is None or (found["comma"] and found["most"] is None):
            return _Ways(1, 1)
        return _Ways(1 + int(found["most"] or found["least"]) - int(found["least"]))


def _refuse(piece: str) -> PatternError:
    return PatternError(
        f"{piece[:20]!r} cannot be used here: a group may be followed by '?', not repeat, and "
        "nothing may look around or back, so that a search ends soon"
    )
