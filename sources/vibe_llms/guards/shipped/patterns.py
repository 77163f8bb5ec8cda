"""Patterns of secrets and personal data, with checks of their digits.

Each search is linear in the length of the text: a pattern either begins where a token begins, and
reads the token once, or can only match a bounded number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from vibe_llms.foundation.attrs_classes import frozen

Span: TypeAlias = tuple[int, int]


@frozen
class SecretPattern:
    """A kind of secret.

    Attributes:
        words: Its name with an article, such as ``a card number``.
        find: Yields the spans in a text, from an index on.
    """

    words: str
    find: Callable[[str, int], Iterator[Span]]


_BEGIN: Final = r"(?<![A-Za-z0-9+])(?<![A-Za-z0-9+][_/-])"
"""Not in the middle of a word or of Base64, such as an image."""

_KEY: Final = re.compile(
    _BEGIN + r"(?:"
    r"(?:sk|pk|rk|vk|gsk|xai|pplx|hf|glpat|dapi|npm|whsec|shpat|dop_v1)[-_]"
    r"(?:[A-Za-z0-9_]|-(?!----)){16,}+"
    r"|gh[opsur]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}+"
    r"|AIza[A-Za-z0-9_-]{20,}+|ya29\.[A-Za-z0-9._-]{20,}+"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"
    r"|pypi-[A-Za-z0-9_-]{40,}+"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}+"
    # A JSON web token. Its first part ends where another may begin, so that it is read once.
    r"|eyJ(?:[A-Za-z0-9]|[_-](?![_-]eyJ)){8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]++"
    r")"
)
_KEY_BEGIN: Final = r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BODY: Final = r"(?:[^-]|-(?!----(?:BEGIN|END) )){0,20000}+"
_PRIVATE_KEY: Final = re.compile(
    _KEY_BEGIN
    + r"(?:"
    # Up to its end, whatever stands between: headers, marks of quotation, line ends of programs.
    + _KEY_BODY
    + r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
    # Without an end: headers and Base64, but not the prose that may follow.
    r"|(?:[\s>]*+(?:Version|Comment|Charset|Hash|Proc-Type|DEK-Info):[^\n]{0,200}+)*+"
    r"(?:[A-Za-z0-9+/=\s:,\\>]|-(?!----))*+)"
)
_OPEN_KEY: Final = re.compile(
    _KEY_BEGIN + _KEY_BODY + r"(?:-----(?:BEGIN|END) [A-Z0-9 -]{0,60}+)?+\Z"
)
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,6}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
)
_PHONE: Final = re.compile(r"(?<![\w+])\+[1-9](?:[ ()./-]{0,2}[0-9]){7,14}(?![0-9])")
_SOCIAL: Final = re.compile(
    r"(?<![\w-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])"
)
_SEPARATORS: Final = " \u00a0\u2009\u202f.-\u2010\u2011\u2012\u2013"
"""Between the groups of a number: spaces, points and hyphens."""

_DIGITS: Final = re.compile(rf"(?<![^\W_])[0-9](?:[{re.escape(_SEPARATORS)}]?[0-9]){{12,}}+")
_GROUP: Final = re.compile(r"[0-9]+")
_FRACTION: Final = re.compile(r"(?<=[0-9]\.)[0-9]+")
_IBAN_START: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}")
_CARD: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|3[47]\d{13}"
    r"|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|6(?:011|4[4-9]\d|5\d\d|2\d\d)\d{12,15}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|3(?:0[0-59]|[689]\d)\d{11,16}"
)
"""Numbers of cards by the digits of their issuers."""

_CARD_DIGITS: Final = (13, 19)

_IBAN_COUNTRIES: Final[Mapping[int, str]] = {
    15: "NO",
    16: "BE",
    18: "DK FI FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
"""Countries by the length of their account numbers (ISO 13616)."""

_IBAN_LENGTHS: Final = {
    country: length for length, names in _IBAN_COUNTRIES.items() for country in names.split()
}


def _find_keys(text: str, begin: int) -> Iterator[Span]:
    for match in _KEY.finditer(text, begin):
        # Names of programs, such as sk-learn-…, have no digits.
        if not match[0].startswith(_WORDY) or any(map(str.isdigit, match[0])):
            yield match.span()
    for match in _PRIVATE_KEY.finditer(text, begin):
        yield match.span()


def find_open_key(text: str, begin: int) -> int:
    """Return the start of a private key whose end has not arrived; -1 if there is none."""
    match = _OPEN_KEY.search(text, begin)
    return -1 if match is None else match.start()


_WORDY: Final = ("sk-", "pk-", "rk-", "vk-", "hf-", "npm-", "xai-", "dapi-", "pypi-", "hf_", "npm_")


def _find_all(pattern: re.Pattern[str]) -> Callable[[str, int], Iterator[Span]]:
    def find(text: str, begin: int) -> Iterator[Span]:
        return (match.span() for match in pattern.finditer(text, begin))

    return find


def _find_cards(text: str, begin: int) -> Iterator[Span]:
    """Yield numbers of cards: whole groups of digits, of an issuer's form and with a check digit.

    A number may stand among others, so that each group of a row of digits may be its first one. The
    digits after a decimal point are not a number of their own.
    """
    for row in _DIGITS.finditer(text, begin):
        groups = [match.span() for match in _GROUP.finditer(text, *row.span())]
        if row.end() < len(text) and text[row.end()].isalnum():
            groups.pop()  # a part of a word
        first = 0
        while first < len(groups):
            last = _find_end_of_card(text, groups, first)
            if last > first or (last == first and not _FRACTION.match(text, groups[first][0])):
                yield groups[first][0], groups[last][1]
            first = max(first, last) + 1


def _find_end_of_card(text: str, groups: list[Span], first: int) -> int:
    """Return the last group of a card number that begins with a group; -1 if none does."""
    digits = ""
    least, most = _CARD_DIGITS
    for index in range(first, len(groups)):
        start, end = groups[index]
        if len(digits) + end - start > most:
            return -1
        digits += text[start:end]
        if len(digits) >= least and _CARD.fullmatch(digits) and has_check_digit(digits):
            return index
    return -1


def has_check_digit(digits: str) -> bool:
    """Return whether the last digit is the check digit of the others, by Luhn's formula."""
    doubled = (2 * int(each) for each in digits[-2::-2])
    total = sum(map(int, digits[-1::-2])) + sum(each - 9 if each > 9 else each for each in doubled)
    return total % 10 == 0 and len(set(digits)) > 1


def _find_ibans(text: str, begin: int) -> Iterator[Span]:
    """Yield account numbers: of their country's length, with a remainder of 1 (ISO 7064)."""
    end = begin
    for match in _IBAN_START.finditer(text, begin):
        length = _IBAN_LENGTHS.get(match[0][:2].upper(), 0)
        if match.start() < end or not length:
            continue
        stop = _read_account(text, match.start(), length)
        if stop:
            end = stop
            yield match.start(), stop


def _read_account(text: str, start: int, length: int) -> int:
    """Return the end of an account number, in groups or not; 0 if there is none."""
    account, position = "", start
    while len(account) < length and position < len(text):
        character = text[position]
        if character not in _SEPARATORS or text[position - 1] in _SEPARATORS:
            if not (character.isascii() and character.isalnum()):
                return 0
            account += character.upper()
        position += 1
    is_part = position < len(text) and text[position].isalnum()
    return 0 if is_part or len(account) < length or not has_check_pair(account) else position


def has_check_pair(account: str) -> bool:
    """Return whether the check digits of an IBAN are right: 1 is the remainder of a division."""
    moved = account[4:] + account[:4]
    return int("".join(str(int(each, 36)) for each in moved)) % 97 == 1


SECRET_KINDS: Final[Mapping[str, SecretPattern]] = {
    "keys": SecretPattern("a key", _find_keys),
    "cards": SecretPattern("a card number", _find_cards),
    "ibans": SecretPattern("an IBAN", _find_ibans),
    "ssns": SecretPattern("a social security number", _find_all(_SOCIAL)),
    "emails": SecretPattern("an e-mail address", _find_all(_EMAIL)),
    "phones": SecretPattern("a phone number", _find_all(_PHONE)),
}
"""Kinds of secrets by their names in the setting ``find``."""
