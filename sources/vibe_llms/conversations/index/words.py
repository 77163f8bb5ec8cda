"""How text is cut into words, for the index and for queries alike.

SQLite's ``unicode61`` takes a run of letters for one word. Scripts that put no spaces between
words (Chinese, Japanese, Thai …) and emoji would then be found only as whole runs. So each of
their characters is made a word of its own, by an invisible space around it, and a query in
such a script becomes a phrase: any part of a run is found, at the price of a few bytes. The
``trigram`` tokenizer, which was tried, finds no word of fewer than three characters, and most
Chinese and Japanese words have one or two; its index is three times as large.
"""

from __future__ import annotations

import re

TOKENIZER = "unicode61 remove_diacritics 2 categories 'L* N* M* So Co'"
MAXIMUM_TERMS = 64
ROLES = ("user", "assistant", "supervisor", "document", "invocation", "result")

MARK_START = "\x02"
MARK_END = "\x03"
_SEPARATOR = "\u200b"

_ALONE = (
    "\u00a6\u00a9\u00ae\u00b0"  # symbols that stick to words
    "\u0e00-\u0eff\u0f00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"  # Burmese, Hangul letters, Khmer
    "\u2000-\u2bff"  # symbols, arrows, dingbats
    "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"  # CJK
    "\U0001f000-\U0001faff\U00020000-\U0003ffff"  # emoji, rare CJK
)
_BORDER = rf"(?<=[{_ALONE}])(?=\S)|(?<=\S)(?=[{_ALONE}])"  # compiled when first used
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, 0x200B], " ")
_TERM = r'"([^"]*)"?|([^\s"]+)'


def prepare_text(text: str) -> str:
    """Make a text fit for the index: composed, without control characters, cut where needed."""
    text = text.translate(_CONTROLS)
    if text.isascii():
        return text
    import unicodedata

    text = text.encode("utf-8", "replace").decode("utf-8")  # JSON may hold half a character
    return re.sub(_BORDER, _SEPARATOR, unicodedata.normalize("NFC", text))


def restore_text(text: str) -> str:
    """Take the invisible spaces out again, for the eye."""
    return text.replace(_SEPARATOR, "")


def compose_match(query: str, role: str | None) -> str:
    """Compose what FTS5 is asked from what a person typed: all words, in one canister.

    Words in double quotes are a phrase, a ``*`` at a word's end stands for any ending; every
    other sign only parts words. No input is an error of syntax.

    Args:
        query: As typed.
        role: Only canisters of this role, by its stable word; ``None`` for all.

    Raises:
        UnknownNameError: There is no such role.
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
    # Where no words are left, an empty phrase is still one that FTS5 takes.
    match = f"{{text}} : ({' '.join(terms) or _compose_term('')})"
    return match if role is None else f'({match}) AND {{role}} : "{role}"'


def _compose_term(text: str, *, is_prefix: bool = False) -> str:
    # A sign is found with and without the selector that makes it colourful.
    text = prepare_text(text.replace("\ufe0f", ""))
    return f'"{text}"' + ("*" if is_prefix else "")
