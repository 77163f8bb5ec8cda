"""Tokenization of text, for the index and for queries.

SQLite's ``unicode61`` treats adjacent letters as one word. Scripts without spaces between words
(Chinese, Japanese, Thai …) and emoji would then match only as whole sequences. So each character of
these scripts becomes a separate word, with an invisible space around it, and a query in such a
script becomes a phrase: any part of a sequence matches, at the cost of a few bytes. The ``trigram``
tokenizer was tried and rejected: it finds only words of three or more characters, but most Chinese
and Japanese words have one or two; its index is three times as large.
"""

from __future__ import annotations

import re

TOKENIZER = "unicode61 remove_diacritics 2 categories 'L* N* M* So Co'"
MAXIMUM_TERMS = 64
ROLES = ("user", "assistant", "supervisor", "document", "invocation", "result")

MARK_START = "\x02"
MARK_END = "\x03"
_SEPARATOR = "\u200b"

_SINGLE_CHARACTERS = (
    "\u00a6\u00a9\u00ae\u00b0"  # symbols that stick to words
    "\u0e00-\u0eff\u0f00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"  # Burmese, Hangul letters, Khmer
    "\u2000-\u2bff"  # symbols, arrows, dingbats
    "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"  # CJK
    "\U0001f000-\U0001faff\U00020000-\U0003ffff"  # emoji, rare CJK
)
"""Characters that are separate words."""

# Compiled when it is first used.
_BORDER = rf"(?<=[{_SINGLE_CHARACTERS}])(?=\S)|(?<=\S)(?=[{_SINGLE_CHARACTERS}])"
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, 0x200B], " ")
_TERM = r'"([^"]*)"?|([^\s"]+)'


def clean_text(text: str) -> str:
    """Normalize a text to NFC; replace control characters and lone surrogates."""
    text = text.translate(_CONTROLS)
    if text.isascii():
        return text
    import unicodedata

    text = text.encode("utf-8", "replace").decode("utf-8")  # JSON may contain lone surrogates
    return unicodedata.normalize("NFC", text)


def prepare_text(text: str) -> str:
    """Normalize a text for the index, and separate words of scripts without spaces."""
    text = clean_text(text)
    return text if text.isascii() else re.sub(_BORDER, _SEPARATOR, text)


def restore_text(text: str) -> str:
    """Remove the invisible spaces again, for display."""
    return text.replace(_SEPARATOR, "")


def compose_match(query: str, role: str | None, *, any_word: bool = False) -> str:
    """Compose the FTS5 query for the user's input: all words, in one canister.

    Words in double quotes are a phrase, a ``*`` at a word's end matches any ending; every other
    sign only separates words. Any input is valid syntax.

    Args:
        query: The query as the user typed it.
        role: Only canisters of this role, by its stable name; ``None`` for all.
        any_word: Match any of the words instead of all words.

    Raises:
        UnknownNameError: The role is unknown.
        LimitError: The query has too many words.
    """
    if role is not None and role not in ROLES:
        from vibe_llms.exceptions import Stage, UnknownNameError

        raise UnknownNameError(kind="role", name=role, known=ROLES, stage=Stage.STORE)
    terms = [
        _compose_term(quoted or word, is_prefix=word.endswith("*"))
        for quoted, word in re.findall(_TERM, query)
    ]
    if len(terms) > MAXIMUM_TERMS:
        from vibe_llms.exceptions import LimitError

        raise LimitError(
            limit="search_terms",
            value=MAXIMUM_TERMS,
            detail=f"A search has at most {MAXIMUM_TERMS} words, not {len(terms)}.",
            remedy="Search for the rarest words only.",
        )
    # If no words are left, FTS5 still accepts an empty phrase.
    operator = " OR " if any_word else " "
    match = f"{{text}} : ({operator.join(terms) or _compose_term('')})"
    return match if role is None else f'({match}) AND {{role}} : "{role}"'


def _compose_term(text: str, *, is_prefix: bool = False) -> str:
    # A symbol must match with and without the emoji variation selector.
    text = prepare_text(text.replace("\ufe0f", ""))
    return f'"{text}"' + ("*" if is_prefix else "")
