"""Token counts of texts: exact if the encoding is public, otherwise estimated.

An estimate includes its maximum error. The rates were measured with the encodings
``o200k_base`` and ``cl100k_base`` on prose in two dozen languages, source code, data and emoji
(bpe-openai 0.1.4, 2026-11-22; a test measures them again). The error of ordinary texts and source
code is within the maximum; that of a text made to exceed it may not be.
"""

from __future__ import annotations

import math
import re
import string
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import DependencyError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.optional_packages import needing

if TYPE_CHECKING:
    from vibe_llms.models.attributes import ModelAttributes

ENCODINGS: Final = ("o200k_base", "cl100k_base")
"""The encodings that can be counted exactly if the optional package is installed."""

_UNKNOWN_TOKENIZER: Final = 0.35
"""Maximum difference between the tokenizers of other vendors and these, as a part of the count.

The newest Claude models make about 30 % more tokens of the same text than their predecessors:
https://platform.claude.com/docs/en/build-with-claude/token-counting, read 2026-11-22.
"""


@frozen(kw_only=True)
class TokenCount:
    """A number of tokens.

    Attributes:
        tokens: The number.
        error_tokens: The maximum error, in either direction; 0 if exact.
    """

    tokens: int
    error_tokens: int = 0

    def __add__(self, other: TokenCount) -> TokenCount:
        """Add two counts, and their errors."""
        return TokenCount(
            tokens=self.tokens + other.tokens,
            error_tokens=self.error_tokens + other.error_tokens,
        )

    def widen(self, part: float) -> TokenCount:
        """Return the same count with a larger error.

        Args:
            part: The additional error as a part of the count, such as 0.1.
        """
        error = self.error_tokens + math.ceil(self.tokens * part)
        return TokenCount(tokens=self.tokens, error_tokens=error)


def count_text(text: str, attributes: ModelAttributes | None = None) -> TokenCount:
    """Count the tokens of a text without asking the vendor; see :func:`count_texts`."""
    return count_texts((text,), attributes)


def count_texts(texts: Sequence[str], attributes: ModelAttributes | None = None) -> TokenCount:
    """Count the tokens of some texts together without asking the vendor.

    The count is exact if the model's attribute ``token_encoding`` names a public encoding and the
    optional package is installed. Otherwise it is an estimate, with a larger error if the encoding
    is unknown.
    """
    encoding = attributes.access_value("token_encoding") if attributes else None
    if encoding not in ENCODINGS:
        return estimate_texts(texts).widen(_UNKNOWN_TOKENIZER)
    try:
        return TokenCount(tokens=sum(count_encoded(each, str(encoding)).tokens for each in texts))
    except DependencyError:
        return estimate_texts(texts)


def count_encoded(text: str, encoding: str) -> TokenCount:
    """Count exactly, offline; control tokens in the text are counted as plain text.

    Args:
        encoding: One of :data:`ENCODINGS`. Loading its tables takes a second, once.

    Raises:
        DependencyError: bpe-openai is not installed.
    """
    tokenizer = _access_tokenizer(encoding)
    # Lone surrogates are not sent either, but replaced.
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return TokenCount(tokens=tokenizer.count(plain))


def _access_tokenizer(encoding: str) -> Any:
    with needing("tokens", "bpe-openai", "Counting tokens exactly"), warnings.catch_warnings():
        # The package reads its tables with a deprecated function of Python.
        warnings.simplefilter("ignore", DeprecationWarning)
        from bpe_openai._bindings import tokenizer_for_encoding
    return tokenizer_for_encoding(encoding)


def estimate_text(text: str) -> TokenCount:
    """Estimate the tokens of a text from the scripts and the kinds of its words."""
    return estimate_texts((text,))


def estimate_texts(texts: Sequence[str]) -> TokenCount:
    """Estimate the tokens of some texts together.

    An estimate depends on the shape of a word, not on its letters. Texts have few shapes, so that
    each is estimated once, and the rest is done by functions in C.
    """
    shapes: Counter[str] = Counter()
    for part in _divide(texts):
        # More than one blank is a piece of its own, and a single one separates words.
        shapes.update(" ".join(part).translate(_SHAPES).replace("  ", "\t\t").split(" "))
    tokens = error = _BLANK * (shapes.total() - len(texts))
    for shape, times in shapes.items():
        shape_tokens, shape_error = (
            _estimate_short_shape(shape) if len(shape) <= _SHORT_SHAPE else _estimate_shape(shape)
        )
        tokens += times * shape_tokens
        error += times * shape_error
    is_ascii = all(map(str.isascii, texts))
    count, size = len(texts) - texts.count(""), sum(map(len if is_ascii else _measure, texts))
    estimate = min(max(round(tokens), count), size)  # no token is shorter than a byte
    return TokenCount(tokens=estimate, error_tokens=math.ceil(error) + 2 * count)


def _divide(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts in parts: the words of a long conversation would take new memory.

    The estimate is the same as that of the whole: no blanks meet where it is divided.
    """
    start = 0
    for end in range(_TEXTS_AT_A_TIME, len(texts), _TEXTS_AT_A_TIME):
        before, after = texts[end - 1], texts[end]
        if before and after and before[-1] != " " and after[0] != " ":
            yield texts[start:end]
            start = end
    yield texts[start:]


def _measure(text: str) -> int:
    """Return the size of a text in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@cache
def _compile_pieces() -> re.Pattern[str]:
    """Compile when first needed: every command imports this module, and few count tokens."""
    return re.compile(
        r"[A-Za-z0-9]+|[ \t]+|\s+|[!-/:-@\[-`{-~]+|[^\x00-\x7f]+|.",
        re.DOTALL,
    )


_SCRIPTS: Final = (
    # First character of a range, tokens per character, and the error. A range ends before the next.
    (0x0080, 0.65, 0.70),  # Latin with marks, IPA
    (0x0370, 0.75, 0.50),  # Greek
    (0x0400, 0.42, 0.24),  # Cyrillic
    (0x0530, 0.90, 0.70),  # Armenian
    (0x0590, 0.85, 0.60),  # Hebrew
    (0x0600, 0.60, 0.40),  # Arabic, Syriac, Thaana
    (0x0900, 0.85, 0.75),  # the scripts of India
    (0x0E00, 0.70, 0.35),  # Thai, Lao
    (0x0F00, 1.80, 1.20),  # Tibetan, Burmese, Georgian, Ethiopic, Khmer …
    (0x1E00, 0.60, 0.60),  # Latin of Vietnam, Greek with accents
    (0x2000, 1.10, 0.80),  # punctuation, signs, arrows, boxes, dingbats
    (0x3040, 0.85, 0.50),  # Kana
    (0x3100, 1.05, 0.50),  # Han
    (0xA000, 1.80, 1.20),  # Yi and others
    (0xAC00, 1.00, 0.55),  # Hangul
    (0xD7B0, 1.10, 0.80),  # forms, full width, variation selectors
    (0x10000, 2.00, 1.20),  # emoji and rare scripts
)
_STARTS: Final = tuple(start for start, _, _ in _SCRIPTS)


_SHAPES: Final = str.maketrans(
    dict.fromkeys(string.ascii_letters, "a") | dict.fromkeys(string.digits, "0")
)
_BLANK: Final = 0.05
"""Tokens of one blank, and the error: one before a word belongs to it."""

_TEXTS_AT_A_TIME: Final = 64

_SHORT_SHAPE: Final = 32
"""Maximum characters of a shape whose estimate is cached."""


@lru_cache(4096)
def _estimate_short_shape(shape: str) -> tuple[float, float]:
    return _estimate_shape(shape)


def _estimate_shape(shape: str) -> tuple[float, float]:
    """Return the estimated tokens of text without single blanks, and the maximum error."""
    tokens = error = 0.0
    for piece in _compile_pieces().findall(shape):
        piece_tokens, piece_error = _estimate_piece(piece)
        tokens += piece_tokens
        error += piece_error
    return tokens, error


def _estimate_piece(piece: str) -> tuple[float, float]:
    """Return the estimated tokens of a piece, and the maximum error."""
    size, first = len(piece), piece[0]
    if first.isascii() and first.isalnum():
        return _estimate_word(piece)
    if re.match(r"\s", first):
        return 1.0, 0.3
    if "!" <= first <= "~":
        if size > 4 and piece == first * size:  # a line drawn with characters
            return 1.0 + size / 32, 1.0 + size / 16
        return (0.9, 0.3) if size <= 2 else (0.5 * size, 0.35 * size)
    if first.isascii():  # a control character
        return 1.0, 1.0
    rates = [_SCRIPTS[bisect_right(_STARTS, ord(character)) - 1] for character in piece]
    return sum(rate for _, rate, _ in rates), sum(error for _, _, error in rates)


def _estimate_word(word: str) -> tuple[float, float]:
    """Estimate the tokens of a word, a number, or a generated text, such as a hash."""
    size = len(word)
    if word.isdigit():
        return math.ceil(size / 3), 0.0  # both encodings split digits into groups of three
    if size > 23 or not word.isalpha():
        return 0.44 * size, 0.28 * size
    longer = max(size - 5, 0)
    return 1.0 + 0.13 * longer, 0.33 + 0.37 * longer
