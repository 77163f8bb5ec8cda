"""Cursor of the parser: one token of lookahead, and errors for wrong tokens."""

from __future__ import annotations

from collections.abc import Collection

from vibe_llms.mermaid.labels import Label, LabelKind
from vibe_llms.mermaid.lexing import END, UNREADABLE, Lexer, Token
from vibe_llms.mermaid.spans import SourceText, Span

ID_KINDS = frozenset(
    "NUM NODE_STRING DOWN MINUS DEFAULT COMMA COLON AMP BRKT MULT UNICODE_TEXT".split()  # noqa: SIM905
)
"""Tokens that an id may consist of."""

_WORDS = {
    "NEWLINE": "the end of the line",
    "EOF": "the end of the diagram",
    END: "the end of the diagram",
    "SPACE": "a space",
}


class SyntaxRefusal(Exception):
    """A token that is invalid in its place; caught in the parser."""

    def __init__(self, place: Span, position: int, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.position = position
        self.message = message


class Cursor:
    """Cursor over the tokens of a text.

    Attributes:
        token: The next token.
        last_end: End of the previous one in the cleaned text.
    """

    def __init__(self, source_text: SourceText) -> None:
        self.source_text = source_text
        self.lexer = Lexer(source_text.text)
        self.last_end = 0
        self.token = self.lexer.read()

    def take(self) -> Token:
        """Return the next token and advance."""
        token = self.token
        self.last_end = token.end
        self.token = self.lexer.read()
        return token

    def accept(self, *kinds: str) -> Token | None:
        """Take the next token if it is of one of these kinds."""
        return self.take() if self.token.kind in kinds else None

    def expect(self, kinds: Collection[str], rule: str, since: int | None = None) -> Token:
        """Take the next token, which must be of one of these kinds.

        Args:
            rule: Violated rule, which completes the sentence about another token.
            since: See :meth:`refuse`.
        """
        if self.token.kind not in kinds:
            raise self.refuse(rule, since)
        return self.take()

    def refuse(self, rule: str, since: int | None = None) -> SyntaxRefusal:
        """Create the error with the found token and the violated rule.

        Args:
            since: Start of the element without an end, if the text ends at the cursor.
        """
        token = self.token
        if since is not None and token.kind == END:
            message = f"What begins here has no end, or what follows {rule}"
            return SyntaxRefusal(self.source_text.locate(since, since + 1), since, message)
        place = self.source_text.locate(token.start, token.end)
        return SyntaxRefusal(place, token.start, f"{self._describe(token)} {rule}")

    def resume(self, position: int) -> None:
        """Continue at the first line after a position."""
        end = self.source_text.text.find("\n", position)
        self.last_end = end if end >= 0 else len(self.source_text.text)
        self.lexer.resume(self.last_end)
        self.token = self.lexer.read()

    def locate(self, start: int) -> Span:
        """Return the place from a position to the end of the last token."""
        return self.source_text.locate(start, max(start, self.last_end))

    def read_id(self, rule: str) -> tuple[str, Span]:
        """Read an id: as many tokens as may belong to it."""
        first = self.expect(ID_KINDS, rule)
        parts = [first.text]
        while token := self.accept(*ID_KINDS):
            parts.append(token.text)
        return "".join(parts), self.locate(first.start)

    def read_label(self, kinds: Collection[str], rule: str) -> Label:
        """Read a label: one in quotes with the text after it, or an unquoted one."""
        begin = self.last_end - 1  # the opening bracket, which is unclosed if the label has no end
        first = self.expect({"STR", "MD_STR", *kinds}, rule, begin)
        parts = [first.text]
        while token := self.accept(*kinds):
            parts.append(token.text)
        kind = {"STR": LabelKind.STRING, "MD_STR": LabelKind.MARKDOWN}.get(first.kind)
        return Label("".join(parts), kind or LabelKind.TEXT, self.locate(first.start))

    def _describe(self, token: Token) -> str:
        if token.kind in _WORDS:
            return f"{_WORDS[token.kind][0].upper()}{_WORDS[token.kind][1:]}"
        written = self.source_text.locate(token.start, token.end)
        text = self.source_text.source[written.start : written.end].strip()
        text = text if len(text) <= 20 else f"{text[:19]}…"
        return f"The character {text!r}" if token.kind == UNREADABLE else f"{text!r}"
