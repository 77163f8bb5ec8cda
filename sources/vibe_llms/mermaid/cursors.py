"""Where the parser is: one token ahead, with what it says when that token is wrong."""

from __future__ import annotations

from collections.abc import Collection

from vibe_llms.mermaid.labels import Label, LabelKind
from vibe_llms.mermaid.lexing import END, UNREADABLE, Lexer, Token
from vibe_llms.mermaid.spans import Span, Writing

ID_KINDS = frozenset(
    "NUM NODE_STRING DOWN MINUS DEFAULT COMMA COLON AMP BRKT MULT UNICODE_TEXT".split()  # noqa: SIM905
)
"""The tokens that ids are made of."""

_WORDS = {
    "NEWLINE": "the end of the line",
    "EOF": "the end of the diagram",
    END: "the end of the diagram",
    "SPACE": "a space",
}


class SyntaxRefusal(Exception):
    """A token that cannot stand where it does; goes no further than the parser."""

    def __init__(self, place: Span, position: int, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.position = position
        self.message = message


class Cursor:
    """Gives tokens one after the other.

    Attributes:
        token: The one that comes next.
        last_end: Where the one before it ends in the cleaned text.
    """

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self.lexer = Lexer(writing.text)
        self.last_end = 0
        self.token = self.lexer.read()

    def take(self) -> Token:
        """Returns the next token and goes on behind it."""
        token = self.token
        self.last_end = token.end
        self.token = self.lexer.read()
        return token

    def accept(self, *kinds: str) -> Token | None:
        """Takes the next token if it is of one of these kinds."""
        return self.take() if self.token.kind in kinds else None

    def expect(self, kinds: Collection[str], rule: str, since: int | None = None) -> Token:
        """Takes the next token, which must be of one of these kinds; ``rule`` says why."""
        if self.token.kind not in kinds:
            raise self.refuse(rule, since)
        return self.take()

    def refuse(self, rule: str, since: int | None = None) -> SyntaxRefusal:
        """Produces the error that says what was found instead of what the rule wants.

        Args:
            since: Where began what has no end, if the text ends here.
        """
        token = self.token
        if since is not None and token.kind == END:
            message = f"What begins here has no end, or what follows {rule}"
            return SyntaxRefusal(self.writing.locate(since, since + 1), since, message)
        place = self.writing.locate(token.start, token.end)
        return SyntaxRefusal(place, token.start, f"{self._describe(token)} {rule}")

    def resume(self, position: int) -> None:
        """Goes on at the first line after a position."""
        end = self.writing.text.find("\n", position)
        self.last_end = end if end >= 0 else len(self.writing.text)
        self.lexer.resume(self.last_end)
        self.token = self.lexer.read()

    def locate(self, start: int) -> Span:
        """Returns the place from there to the end of the last token."""
        return self.writing.locate(start, max(start, self.last_end))

    def read_id(self, rule: str) -> tuple[str, Span]:
        """Takes an id: as many tokens as may belong to it."""
        first = self.expect(ID_KINDS, rule)
        parts = [first.text]
        while token := self.accept(*ID_KINDS):
            parts.append(token.text)
        return "".join(parts), self.locate(first.start)

    def read_label(self, kinds: Collection[str], rule: str) -> Label:
        """Takes a label: one in quotes, and what may follow it, or what is without quotes."""
        begin = self.last_end - 1  # the bracket before it, which has no end if the label has none
        first = self.expect({"STR", "MD_STR", *kinds}, rule, begin)
        parts = [first.text]
        while token := self.accept(*kinds):
            parts.append(token.text)
        kind = {"STR": LabelKind.STRING, "MD_STR": LabelKind.MARKDOWN}.get(first.kind)
        return Label("".join(parts), kind or LabelKind.TEXT, self.locate(first.start))

    def _describe(self, token: Token) -> str:
        if token.kind in _WORDS:
            return f"{_WORDS[token.kind][0].upper()}{_WORDS[token.kind][1:]}"
        written = self.writing.locate(token.start, token.end)
        text = self.writing.source[written.start : written.end].strip()
        text = text if len(text) <= 20 else f"{text[:19]}…"
        return f"The character {text!r}" if token.kind == UNREADABLE else f"{text!r}"
