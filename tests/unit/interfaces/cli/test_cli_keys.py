"""``vibe keys`` gives out keys of the gateway, and says what they have spent."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.gateways.key_holders import (
    ManualClocks,
    open_authorizer,
    open_grant,
    produce_demand,
    produce_usage,
)
from vibe_llms.daemons.keys.texts import find_typo
from vibe_llms.interfaces.cli.errors import ExitCode

Vibe = Callable[..., Any]


@pytest.fixture
def directory(home: Path) -> Path:
    """Where the keys are that the command gives out."""
    return home / ".local" / "share" / "vibe-llms" / "authorizers" / "keys"


def test_a_key_is_shown_once_and_is_good(vibe: Vibe, directory: Path) -> None:
    """Alone on standard output, so that it can go where it is needed; nowhere else, ever."""
    made = vibe("keys", "add", "ada")
    text = made.out.strip()

    listed = vibe("keys"), vibe("keys", "list", "--json"), vibe("keys", "usage")

    assert find_typo(text) == ""
    assert "shown only once" in made.err
    assert text not in made.err + "".join(each.out + each.err for each in listed)
    assert text not in (directory / "keys.toml").read_text()
    (row,) = listed[1].read_json()
    assert (row["name"], row["id"], row["state"]) == ("ada", text[3:11], "good")


def test_what_a_key_may_do_is_said_and_listed(vibe: Vibe) -> None:
    """Every bound that it has."""
    vibe(
        "keys", "add", "ada", "--expires", "2w", "--model", "gpt-*", "--model", "o?",
        "--requests-per-minute", "3", "--tokens-per-minute", "4000", "--cents-per-day", "50",
    )  # fmt: skip

    (row,) = vibe("keys", "list", "--json").read_json()
    shown = vibe("keys").out

    assert (row["models"], row["requests_per_minute"]) == (["gpt-*", "o?"], 3)
    assert (row["tokens_per_minute"], row["cents_per_day"]) == (4000, 50)
    assert "gpt-*, o?; 3 requests/minute; 4000 tokens/minute; 50 cents/day" in shown
    assert row["expires"] > row["created"]
    assert row["operator"] is False
    vibe("keys", "add", "root", "--operator")
    assert "operate" in vibe("keys").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "ada", "--expires", "soon"), "Use a date"),
        (("add", "ada", "--expires", "1999-01-01"), "in the past"),
        (("add", "ada", "--expires", "999999w"), "Use a date"),
        (("add", "ada", "--requests-per-minute", "0"), "requests-per-minute"),
        (("add", "\n"), "visible text"),
        (("set", "groq"), "vibe credentials set groq"),
        (("remove", "groq"), "vibe credentials remove groq"),
        (("set",), "vibe credentials set"),
    ],
)
def test_what_does_not_hold_makes_no_key(
    vibe: Vibe, directory: Path, words: tuple[str, ...], said: str
) -> None:
    """One line says what is wrong; where the keys of providers are, too."""
    outcome = vibe("keys", *words)

    assert outcome.code == ExitCode.USAGE
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not directory.exists()


def test_a_key_is_taken_back_by_its_name(vibe: Vibe) -> None:
    """A name that nobody has is answered with those that there are."""
    vibe("keys", "add", "ada")

    unknown = vibe("keys", "revoke", "adda")
    taken = vibe("keys", "revoke", "ada")
    again = vibe("keys", "add", "ada", "--json").read_json()

    assert "ada" in unknown.err
    assert unknown.code not in (ExitCode.SUCCESS, ExitCode.USAGE)
    assert taken.code == ExitCode.SUCCESS
    states = {row["id"]: row["state"] for row in vibe("keys", "list", "--json").read_json()}
    assert sorted(states.values()) == ["good", "revoked"]
    assert states[again["id"]] == "good"
    assert find_typo(again["key"]) == ""


async def test_what_keys_spend_is_told_by_key_model_and_day(vibe: Vibe, directory: Path) -> None:
    """What is exact, what was perhaps billed, and what is under way."""
    text = vibe("keys", "add", "ada").out.strip()
    vibe("keys", "add", "bob")
    authorizer = open_authorizer(directory, ManualClocks())
    grant = await open_grant(authorizer, text)
    await (await grant.reserve(produce_demand())).settle(produce_usage(), Decimal("0.0000001"))
    await (await grant.reserve(produce_demand(cents="0.75"))).settle(None, None)
    held = await grant.reserve(produce_demand())

    shown = vibe("keys", "usage")
    over, under_way = vibe("keys", "usage", "--json").read_json()
    others = [
        vibe("keys", "usage", *words, "--json").read_json()
        for words in (("--key", "bob"), ("--day", "2026-11-23"), ("--key", text[3:11]))
    ]
    await held.release()
    await authorizer.close()

    row = "2026-11-24\tada\topenai:gpt-5.5\t1\t7\t5\t0.0000001\t+1, up to 0.75 cents"
    assert shown.out.strip() == row
    assert "1 request is perhaps billed" in shown.err
    assert "1 request is under way" in shown.err
    assert (over["cents"], over["perhaps_cents"], over["requests"]) == ("0.0000001", "0.75", 1)
    assert (under_way["is_under_way"], under_way["perhaps_requests"]) == (True, 1)
    assert [len(rows) for rows in others] == [0, 0, 2]
    assert len(vibe("keys", "usage", "--json").read_json()) == 1


@pytest.mark.parametrize("command", ["usage", "list", "add ada"])
def test_nonsense_in_the_files_is_told_in_one_line(
    vibe: Vibe, directory: Path, command: str
) -> None:
    """It names the file."""
    directory.mkdir(parents=True)
    name = "spending.sqlite" if command == "usage" else "keys.toml"
    (directory / name).write_bytes(b"\x01nonsense" * 100)

    outcome = vibe("keys", *command.split())

    assert outcome.code not in (ExitCode.SUCCESS, ExitCode.USAGE)
    assert name in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_keys_are_completed_by_name(vibe: Vibe) -> None:
    """Those that are good."""
    from vibe_llms.interfaces.cli.completing import survey_gateway_keys

    vibe("keys", "add", "ada")
    vibe("keys", "add", "alan")
    vibe("keys", "revoke", "ada")

    assert [name for name, _ in survey_gateway_keys("a")] == ["alan"]
