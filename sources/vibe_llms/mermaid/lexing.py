"""Lexer of a cleaned text, equivalent to Mermaid's own.

The text alone changes the state, never the parser. Where the original scans the rest of a line
again for each token, this one scans once and remembers, so that the time is linear in the length of
the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from vibe_llms.mermaid.lexical_rules import RULES, LexicalRule
from vibe_llms.mermaid.spans import SPACE, skip_space


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: Name of the token in Mermaid's grammar.
        text: Content of the token; empty for some that consist only of brackets.
        start: Position of the token in the cleaned text.
        end: The character after it.
    """

    kind: str
    text: str
    start: int
    end: int


END = "$end"
"""Kind of the token after the last one; may be read repeatedly."""
UNREADABLE = "unreadable"
"""Kind of a character that no rule of the state matches."""

# Mermaid writes (?!=) behind = and the like, which jison turns into (?!): that never matches, and
# so a single = or . ends these texts, where two hyphens are needed.
_EDGE_ENDS = {
    "edgeText": re.compile('--|"'),
    "thickEdgeText": re.compile('=|"'),
    "dottedEdgeText": re.compile(r'\.|"'),
}
_FINAL = {
    "INITIAL": "EOF",
    "acc_title": "acc_title_value",
    "acc_descr": "acc_descr_value",
    "acc_descr_multiline": "acc_descr_multiline_value",
    "callbackname": "CALLBACKNAME",
    "callbackargs": "CALLBACKARGS",
    "click": "CLICK",
}
"""States in which the end of the text is one more token."""

_DIRECTIONS = ("TB", "BT", "RL", "LR", "TD")
_DIRECTION = re.compile(rf"direction[{SPACE}]+({'|'.join(_DIRECTIONS)})[^\n]*")
_LINE_END = re.compile("[\n\r\u2028\u2029]")
_LINK_ID = re.compile(r'@(?=[^{"])')
_RUN_END = re.compile(rf'[{SPACE}"\[\](){{}}|]')


class Lexer:
    """Lexer that reads one token at a time; ``steps`` counts the tried rules."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.steps = 0
        self._states = ["INITIAL"]
        self._is_done = False
        self._has_begun = False
        found = list(_DIRECTION.finditer(text))
        self._directions = [each.start() for each in found]
        self._direction_ends = [(each[1], each.end()) for each in found]
        self._line_end = self._run_end = self._run_at = -1
        self._space_end = -1
        self._link: tuple[LexicalRule, int] | None = None

    def resume(self, position: int) -> None:
        """Continue at a position, outside of any label."""
        self.position = position
        self._states = ["INITIAL"]
        self._is_done = False

    def read(self) -> Token:
        """Return the next token; repeat it at the end and before an unreadable character."""
        while True:
            start = self.position
            if start == len(self.text):
                return self._finish(start)
            self.steps += 1
            matched = self._match_any(self._states[-1], start)
            if matched is None:
                return Token(UNREADABLE, self.text[start], start, start + 1)
            rule, end = matched
            self.position = end
            # Like jison's lexer, never leave the first state.
            if rule.leaves and len(self._states) > 1:
                self._states.pop()
            if rule.enter:
                self._states.append(rule.enter)
            # Only the first graph keyword is followed by a direction: Mermaid's firstGraph.
            if rule.kind == "GRAPH" and not self._has_begun:
                self._has_begun = True
                self._states.append("dir")
            if rule.kind:
                return Token(rule.kind, self._read_text(rule, start, end), start, end)

    def _finish(self, position: int) -> Token:
        final = "" if self._is_done else _FINAL.get(self._states[-1], "")
        self._is_done = True
        return Token(final or END, "", position, position)

    def _read_text(self, rule: LexicalRule, start: int, end: int) -> str:
        # Mermaid returns an empty text: the brackets are not part of the attributes.
        if rule.enter == "shapeData":
            return ""
        text = self.text[start:end]
        if rule.kind == "SHAPE_DATA" and self._states[-1] == "shapeDataStr":
            # Replace line breaks before the YAML is parsed, which would fold the lines into one.
            return re.sub(rf"\n[{SPACE}]*", "<br/>", text)
        return text

    def _match_any(self, state: str, start: int) -> tuple[LexicalRule, int] | None:
        if state in _EDGE_ENDS:
            return self._match_edge_text(state, start)
        if state != "INITIAL":
            return self._match(state, start)
        # In the order of Mermaid's rules: of several matches the first counts, not the longest.
        return (
            self._match("words", start)
            or self._match_direction(start)
            or self._match_link_id(start)
            or self._match_spaced_link(start)
            or self._match("rest", start)
            or self._match("blanks", start)
        )

    def _match(self, state: str, position: int) -> tuple[LexicalRule, int] | None:
        pattern, rules = RULES[state]
        found = pattern.match(self.text, position)
        if found is None:
            return None
        assert found.lastindex is not None
        return rules[found.lastindex - 1], found.end()

    def _match_direction(self, start: int) -> tuple[LexicalRule, int] | None:
        """Match a direction, which takes its whole line, including any text before it."""
        if not self._directions:
            return None
        if start > self._line_end:
            line_end = _LINE_END.search(self.text, start)
            self._line_end = line_end.start() if line_end else len(self.text)
        index = bisect_left(self._directions, start)
        stop = bisect_left(self._directions, self._line_end, index)
        ends = dict(self._direction_ends[index:stop])
        # Mermaid has a rule for each, in this order; its `.*` matches up to the last one of the
        # line.
        for name in _DIRECTIONS:
            if name in ends:
                return LexicalRule(f"direction_{name.lower()}", ""), ends[name]
        return None

    def _match_link_id(self, start: int) -> tuple[LexicalRule, int] | None:
        """Match an id without spaces and brackets before ``@``, the last one of its run."""
        if start >= self._run_end:
            found = _RUN_END.search(self.text, start)
            self._run_end = found.start() if found else len(self.text)
            ats = _LINK_ID.finditer(self.text, start, self._run_end + 1)
            self._run_at = max((each.start() for each in ats), default=-1)
            self._run_end = max(self._run_end, start + 1)
        return (LexicalRule("LINK_ID", ""), self._run_at + 1) if self._run_at > start else None

    def _match_spaced_link(self, start: int) -> tuple[LexicalRule, int] | None:
        """Match a link with optional spaces before it; these end at the same position for each
        link."""
        if start < self._space_end:
            return self._link
        end = skip_space(self.text, start)
        if end == start:
            return None
        self._space_end = end
        self._link = self._match("links", end)
        return self._link

    def _match_edge_text(self, state: str, start: int) -> tuple[LexicalRule, int] | None:
        """Match the text of an edge up to its possible end, and up to quotes."""
        found = _EDGE_ENDS[state].search(self.text, start)
        if found is None:
            return LexicalRule("EDGE_TEXT", ""), len(self.text)
        matched = self._match(state, found.start())
        begin = found.start()
        if matched and matched[0].leaves:
            # Ends of edges begin before the found text: with spaces, with a head, with -. of dots.
            if state == "dottedEdgeText" and begin > start and self.text[begin - 1] == "-":
                begin -= 1
            if begin > start and self.text[begin - 1] in "xo<":
                begin -= 1
            while begin > start and skip_space(self.text[begin - 1], 0):
                begin -= 1
        return (LexicalRule("EDGE_TEXT", ""), begin) if begin > start else matched
