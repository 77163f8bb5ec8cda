"""Secrets are recognized by their form and their check digits."""

from __future__ import annotations

from asyncio import run
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.guards.guarding import activate, mark
from support.quality.properties import examples
from support.quality.working import LINEAR, find_growth
from vibe_llms.exceptions import GuardError
from vibe_llms.guards.shipped.patterns import SECRET_KINDS, has_check_digit, has_check_pair
from vibe_llms.guards.shipped.secrets import SecretGuard, SecretSettings
from vibe_llms.plugins.specification.guards import Inspection

ALL = SecretGuard(SecretSettings(find=tuple(SECRET_KINDS)))
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC==\n-----END RSA PRIVATE KEY-----"
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2.0.22 (GNU/Linux)\n\nlQOYBF\n=x1"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("My card: 4111 1111 1111 1111.", "My card: [card number removed]."),
        ("5500-0055-5555-5559, 378282246310005", "[card number removed], [card number removed]"),
        ("Row 12 4111 1111 1111 1111 34", "Row 12 [card number removed] 34"),
        ("4111.1111.1111.1111", "[card number removed]"),
        ("No.4111111111111111", "No.[card number removed]"),
        ("_4111\u00a01111\u202f1111\u20091111_", "_[card number removed]_"),
        ("4111\u20101111\u20111111\u20131111", "[card number removed]"),
        ("de89 3704\u00a00044-0532.0130\u202f00 please", "[IBAN removed] please"),
        ("to DE89 3704 0044 0532 0130 00 PLEASE", "to [IBAN removed] PLEASE"),
        ("GB82WEST12345698765432", "[IBAN removed]"),
        ("sk-ant-api03-abcdefghij1234567890!", "[key removed]!"),
        ("ghp_abcdefghijklmnopqrst123456", "[key removed]"),
        ("KEY=sk-proj-abcdefghij1234567890", "KEY=[key removed]"),
        ("?key=AIzaabcdefghij1234567890x", "?key=[key removed]"),
        (
            "_sk-ant-api03-abcdefghij123_ --sk-ant-api03-abcdefghij",
            "_[key removed] --[key removed]",
        ),
        ("session=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-1", "session=[key removed]"),
        ("AKIAIOSFODNN7EXAMPLE,", "[key removed],"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-1", "[key removed]"),
        (f"Key:\n{PEM}\nEnd.", "Key:\n[key removed]\nEnd."),
        (PEM.replace("\n", "\n> "), "[key removed]"),
        (f"{PGP}\n-----END PGP PRIVATE KEY BLOCK-----!", "[key removed]!"),
        (PGP, "[key removed]"),  # it broke off
        ("SSN 123-45-6789", "SSN [social security number removed]"),
        ("ada@example.org or a+b@c.co.uk", "[e-mail address removed] or [e-mail address removed]"),
        ("call +44 20 7946 0958 now", "call [phone number removed] now"),
    ],
)
async def test_a_secret_is_replaced_by_its_mark(text: str, marked: str) -> None:
    assert await mark(ALL, text) == marked


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # the check digit is wrong
        "order 1234567890123456",  # no card begins so
        "0000 0000 0000 0000",
        "x4111111111111111",  # a part of a word
        "4111111111111111x",
        "DE89 3704 0044 0532 0130 01",
        "XX89 3704 0044 0532 0130 00",
        "sk-learn-is-a-library-of-many-words",
        "000-12-3456 and 666-12-3456",
        "2024-11-29 12:30:00.123456",
        "ada@example",
        "0.4111111111111111",  # a fraction
        "1+44207946095812345678",
        "iVBORw0KGgoAAAANSUhEUg/AKIAIOSFODNN7EXAMPLE+AIzaabcdefghij1234567890x",  # an image
    ],
)
async def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert await mark(ALL, text) == text


def test_one_wrong_digit_is_noticed() -> None:
    """Luhn's formula and the remainder by 97 find each single wrong digit."""
    for place in range(16):
        number = "4111111111111111"
        wrong = number[:place] + str((int(number[place]) + 1) % 10) + number[place + 1 :]
        assert not has_check_digit(wrong)
    assert has_check_pair("DE89370400440532013000")
    assert not has_check_pair("DE89370400440532013001")


async def test_a_refusal_names_the_kind_and_not_the_secret() -> None:
    guard = activate(SecretGuard(SecretSettings(action="refuse")))

    with pytest.raises(GuardError, match="it has a card number") as caught:
        await guard.examine(Inspection(part="request", texts=("My 4111111111111111",)))

    assert "4111" not in str(caught.value) + repr(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "1 ",
        "4111 1111 1111 1112 ",
        "sk-",
        "eyJaaaaaaaaa.",
        "eyJaaaaaaaaa--",
        "a@",
        "a.a-",
        "-----BEGIN PRIVATE KEY-----",
        "+1",
        "DE89 ",
    ],
)
def test_the_search_is_linear(unit: str) -> None:
    """No text takes more time than its length."""

    def produce(count: int) -> Callable[[], object]:
        inspection = Inspection(part="request", texts=(unit * count,))
        return lambda: run(ALL.examine(inspection))

    lines, size = find_growth(produce, 300)

    assert lines <= LINEAR
    assert size <= LINEAR


@examples(200)
@given(st.text("4115 -ask_@.+DE\n", max_size=80))
def test_marked_texts_stay_as_they_are(text: str) -> None:
    """A second guard of the kind finds nothing more."""
    marked = run(mark(ALL, text))

    assert run(mark(ALL, marked)) == marked
