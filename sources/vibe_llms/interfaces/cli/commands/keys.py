"""``vibe keys``: keys that the gateway's owner issues to clients."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_configuration
from vibe_llms.interfaces.cli.options import GIVEN_KEY, Command, Group, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from vibe_llms.daemons.keys.charges import KeySpending
    from vibe_llms.daemons.keys.ledger import Bin
    from vibe_llms.daemons.keys.register import Key, Register


class _Keys(Group):
    """Group that refers to ``vibe credentials`` for providers' keys, which used to be here."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in ("set", "remove"):
            line = " ".join(("vibe credentials", *args[:2]))
            ctx.fail(f"Keys that a provider gave you are credentials; run: {line}")
        return super().resolve_command(ctx, args)


@click.group("keys", cls=_Keys, default="list")
def keys() -> None:
    """Issue keys for your gateway, and show what they spend. Without a command: list.

    The gateway requires keys if its settings say authorizer = "keys". Only a digest of each key is
    stored. For keys that a provider gave you, use `vibe credentials`.
    """


@keys.command("add", cls=Command)
@click.argument("name")
@click.option(
    "--expires", metavar="WHEN", help="Expiry: a UTC date such as 2026-12-31, or 12h, 30d, 8w."
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="PATTERN",
    help="Allowed models, such as gpt-*. Repeatable.",
)
@click.option(
    "--requests-per-minute",
    type=click.IntRange(1),
    metavar="N",
    help="Limit of requests per minute.",
)
@click.option(
    "--tokens-per-minute",
    type=click.IntRange(1),
    metavar="N",
    help="Limit of tokens per minute, input plus output.",
)
@click.option(
    "--cents-per-day", type=click.IntRange(0), metavar="N", help="Limit of US cents per day (UTC)."
)
@json_option
def add(
    name: str, expires: str | None, models: tuple[str, ...], as_json: bool, **bounds: Any
) -> None:
    """Create a key for NAME and show it once.

    By default the key may use every model without limits. To change its limits later, edit the file
    of keys, which `vibe keys list` names.
    """
    from datetime import UTC, datetime

    from vibe_llms.daemons.keys.register import Key
    from vibe_llms.daemons.keys.texts import access_identity, compute_digest, make_text

    if not name.strip() or not name.isprintable():
        raise click.UsageError("NAME must be one line of visible text.")
    now = datetime.now(UTC).replace(microsecond=0)
    text = make_text()
    key = Key(
        name=name,
        digest=compute_digest(text),
        created=now,
        expires=_read_moment(expires, now) if expires else None,
        models=models,
        **bounds,
    )
    _open_register().add(access_identity(text), key)
    if as_json:
        write_json({"key": text, **_describe(access_identity(text), key)})
        return
    click.echo(text)  # immediately, before any remark about it
    note(f"The key of {name} is shown only once. Anyone with this key can make requests as {name}.")


@keys.command("list", cls=Command)
@json_option
def list_(as_json: bool) -> None:
    """List the keys and their limits."""
    register = _open_register()
    given = [_describe(identity, key) for identity, key in register.load().items()]
    if as_json:
        write_json(given)
    elif not given:
        note("There are no keys; `vibe keys add NAME` creates one.")
    else:
        rows = [
            (each["name"], each["id"], each["state"], _write_moment(each["expires"]), _sum_up(each))
            for each in given
        ]
        headers = ("name", "id", "state", "expires", "may")
        write_table(rows, headers=headers, styles=("cyan", "dim", "", "", ""))
        note(f"The keys are in {register.path}; you can edit their limits there.")


@keys.command("revoke", cls=Command)
@click.argument("key", type=GIVEN_KEY)
def revoke(key: str) -> None:
    """Revoke a key, by its name or id. The next request with it is refused."""
    identity, taken = _open_register().revoke(key)
    note(f"The key of {taken.name} ({identity}) is revoked.")


@keys.command("usage", cls=Command)
@click.option("--key", "word", type=GIVEN_KEY, metavar="KEY", help="Only this key, by name or id.")
@click.option("--day", metavar="DATE", help="Only this day (UTC), such as 2026-11-23.")
@json_option
def usage(word: str | None, day: str | None, as_json: bool) -> None:
    """Show the spending of keys, by key, model and day."""
    from vibe_llms.daemons.keys.register import find_key

    names = _open_register().load()
    wanted = find_key(names, word) if word else None
    rows = [
        _describe_spending(place, spending, names, is_over)
        for is_over, table in zip((True, False), _survey(), strict=True)
        for place, spending in table.items()
        if wanted in (None, place.key) and day in (None, place.day)
    ]
    if as_json:
        write_json(rows)
    elif not rows:
        note("No key has spent anything; `vibe keys list` lists the keys.")
    else:
        _write_usage(rows)


def _find_directory() -> Path:
    return load_configuration().data_directory / "authorizers" / "keys"


def _open_register() -> Register:
    from vibe_llms.daemons.keys.register import Register

    return Register(_find_directory())


def _survey() -> tuple[Mapping[Bin, KeySpending], Mapping[Bin, KeySpending]]:
    """Return past spending and running requests."""
    import time

    directory = _find_directory()
    if not directory.exists():  # not created merely to be read
        return {}, {}
    from contextlib import closing

    from vibe_llms.daemons.keys.ledger import KeyLedger

    with closing(KeyLedger(directory, read_clock=time.monotonic, tell_time=time.time)) as ledger:
        return ledger.survey()


def _read_moment(text: str, now: datetime) -> datetime:
    """Parse the expiry time of a key. Raises UsageError."""
    import re
    from datetime import UTC, datetime, timedelta

    try:
        if found := re.fullmatch(r"(\d{1,6})([hdw])", text.strip()):
            hours = {"h": 1, "d": 24, "w": 168}[found[2]]
            moment = now + timedelta(hours=hours * int(found[1]))
        else:
            moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"Invalid --expires {text!r}. Use a date such as 2026-12-31, or 12h, 30d, 8w."
        ) from None
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment <= now:
        raise click.UsageError(f"--expires {text} is in the past.")
    return moment


def _describe(identity: str, key: Key) -> dict[str, Any]:
    """Return the data of a key without its digest."""
    import time

    state = "expired" if key.expires_at <= time.time() else "good"
    return {
        "name": key.name,
        "id": identity,
        "state": "revoked" if key.revoked else state,
        "created": key.created,
        "expires": key.expires,
        "revoked": key.revoked,
        "models": list(key.models),
        "requests_per_minute": key.requests_per_minute,
        "tokens_per_minute": key.tokens_per_minute,
        "cents_per_day": key.cents_per_day,
    }


def _sum_up(described: dict[str, Any]) -> str:
    """Summarize a key's permissions in a few words."""
    words = [", ".join(described["models"])] if described["models"] else []
    for name in ("requests_per_minute", "tokens_per_minute", "cents_per_day"):
        if described[name] is not None:
            unit, _, span = name.split("_")
            words.append(f"{described[name]} {unit}/{span}")
    return "; ".join(words) or "everything"


def _write_moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _describe_spending(
    place: Bin, spending: KeySpending, names: Mapping[str, Key], is_over: bool
) -> dict[str, Any]:
    known = names.get(place.key)
    return {
        "day": place.day,
        "name": known.name if known else "",
        "id": place.key,
        "model": place.model,
        "is_under_way": not is_over,
        **{name: f"{n:f}" if "cents" in name else n for name, n in spending._asdict().items()},
    }


def _write_usage(rows: list[dict[str, Any]]) -> None:
    over = [each for each in rows if not each["is_under_way"]]
    write_table(
        [
            (
                each["day"],
                each["name"] or each["id"],
                each["model"],
                str(each["requests"]),
                str(each["input_tokens"]),
                str(each["output_tokens"]),
                each["cents"],
                _write_perhaps(each),
            )
            for each in over
        ],
        headers=("day", "key", "model", "requests", "input", "output", "cents", "perhaps"),
        styles=("", "cyan", "", "", "", "", "", "yellow"),
    )
    _note_doubts(over, "perhaps billed, with unknown usage")
    _note_doubts([each for each in rows if each["is_under_way"]], "under way")
    if unpriced := sum(each["unpriced"] for each in over):
        note(f"{unpriced} of the requests have no known price and are not counted.")


def _write_perhaps(row: dict[str, Any]) -> str:
    if not (row["perhaps_requests"] or Decimal(row["perhaps_cents"]) or row["unpriced"]):
        return ""
    more = f"+{row['perhaps_requests']}, up to {row['perhaps_cents']} cents"
    return more + (f", {row['unpriced']} without price" if row["unpriced"] else "")


def _note_doubts(rows: list[dict[str, Any]], what: str) -> None:
    count = sum(each["perhaps_requests"] for each in rows)
    if not count:
        return
    cents = sum(Decimal(each["perhaps_cents"]) for each in rows)
    note(f"{count} {'request is' if count == 1 else 'requests are'} {what}; up to {cents:f} cents.")
