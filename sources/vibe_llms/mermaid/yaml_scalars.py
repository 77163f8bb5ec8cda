"""Values of YAML scalars."""

from __future__ import annotations

import math
import re

from vibe_llms.mermaid.spans import strip_space

_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"([-+]?)(?:0b([01]+)|0o([0-7]+)|0x([0-9a-fA-F]+)|([0-9]+))")
_FLOAT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_LONGEST_NUMBER = 300
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(\n[ \t\n]*|.))")
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


def resolve(text: str) -> object:
    """Return the value of a plain scalar: null, a boolean, a number, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if not text[:1].isascii() or text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if found := _INTEGER.fullmatch(text):
        bases = zip(found.groups()[1:], (2, 8, 16, 10), strict=True)
        number = next(int(digits, base) for digits, base in bases if digits)
        return -number if found[1] == "-" else number
    if _FLOAT.fullmatch(text) and math.isfinite(value := float(text)):
        return value
    if found := _INFINITY.fullmatch(text):
        return -math.inf if found[1] == "-" else math.inf
    return math.nan if text in (".nan", ".NaN", ".NAN") else text


def unescape(text: str) -> str | None:
    """Decode escapes in a double-quoted text; ``None`` if one is invalid."""
    if "\\" not in text:
        return fold_lines(text)
    parts: list[str] = []
    position = 0
    # escaped characters are not folded with the lines
    for found in _ESCAPE.finditer(text):
        parts.append(fold_lines(text[position : found.start()]))
        code = found[1] or found[2] or found[3]
        if code and int(code, 16) <= 0x10FFFF:
            parts.append(chr(int(code, 16)))
        elif found[4] is None:
            return None
        elif found[4][0] != "\n":
            if found[4] not in _ESCAPES:
                return None
            parts.append(_ESCAPES[found[4]])
        position = found.end()
    return "".join([*parts, fold_lines(text[position:])])


def fold_lines(text: str) -> str:
    """Join lines: one line break becomes a space, and of several all but the first stay."""
    if "\n" not in text:
        return text

    def fold(found: re.Match[str]) -> str:
        return "\n" * (found[0].count("\n") - 1) or " "

    return re.sub(r"[ \t]*\n[ \t\n]*", fold, text)


def fold_block(lines: list[str], style: str, chomping: str) -> str:
    """Return a block scalar of its lines without their indentation.

    Args:
        style: ``|`` keeps the breaks, ``>`` folds those between lines of text.
        chomping: ``-`` drops the breaks at the end, ``+`` keeps all, else one stays.
    """
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    body, rest = lines[:end], lines[end:]
    text = "\n".join(body) if style == "|" else _fold_paragraphs(body)
    if not body:
        return "\n" * len(rest) if chomping == "+" else ""
    return text + {"-": "", "+": "\n" * (len(rest) + 1)}.get(chomping, "\n")


def _fold_paragraphs(lines: list[str]) -> str:
    text, blanks, was_indented = "", 0, False
    for number, line in enumerate(lines):
        if not line:
            blanks += 1
            continue
        # Lines with further indentation keep their line breaks, and so do their neighbours.
        is_indented = line[0] in " \t"
        if number and text:
            if is_indented or was_indented:
                text += "\n" * (blanks + 1)
            else:
                text += "\n" * blanks or " "
        else:
            text += "\n" * blanks
        text, blanks, was_indented = text + line, 0, is_indented
    return text


def write_key(key: object) -> str:
    """Return the text of a key as in JavaScript."""
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return write_number(key)
    return str(key)


def read_number(text: str) -> float:
    """Return the number of a text as in JavaScript; NaN for a text that is not a number."""
    text = strip_space(text)
    if not text:
        return 0.0
    if found := re.fullmatch("0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+)", text):
        digits = zip(found.groups(), (16, 8, 2), strict=True)
        number = next(int(each, base) for each, base in digits if each)
        return float(number) if number.bit_length() < 1024 else math.inf
    if re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", text):
        return float(text)
    return {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}.get(text, math.nan)


def write_number(value: float) -> str:
    """Return the text of a number as in JavaScript."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # From there on JavaScript writes an exponent, and Python from 1e16 on.
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    power = int(exponent)
    if -6 <= power < 0:
        return f"{value:.{len(mantissa.replace('.', '').lstrip('-')) - 1 - power}f}"
    return f"{mantissa.removesuffix('.0')}e{power:+d}"
