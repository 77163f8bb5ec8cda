"""``vibe keys``: keys that the gateway's owner issues to clients."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_configuration
from vibe_llms.interfaces.cli.options import GATEWAY_KEY, Command, Group, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from vibe_llms.daemons.keys.charges import KeySpending
    from vibe_llms.daemons.keys.ledger import SpendingBucket
    from vibe_llms.daemons.keys.register import Key, Register


class _Keys(Group):
    """Group that refers to ``vibe credentials`` for providers' keys, as former versions had."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in ("set", "remove"):
            line = " ".join(("vibe credentials", *args[:2]))
            ctx.fail(f"The keys of providers are credentials; run: {line}")
        return super().resolve_command(ctx, args)


@click.group("keys", cls=_Keys, default="list")
def keys() -> None:
    """Issue keys for your gateway, and show what they spend. Without a command: list.

    The gateway requires keys if its settings say authorizer = "keys". Only a digest of each key is
    stored. For the keys of providers, use `vibe credentials`.
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
@click.option("--operator", is_flag=True, help="Allow the key to operate the gateway on its page.")
@json_option
def add(
    name: str,
    expires: str | None,
    models: tuple[str, ...],
    operator: bool,
    as_json: bool,
    **bounds: Any,
) -> None:
    """Create a key for NAME and show it once.

    By default the key may use every model without limits. To change its limits later, edit the file
    of keys, which `vibe keys list` names.
    """
    from datetime import UTC, datetime

    from vibe_llms.daemons.keys.descriptions import is_name
    from vibe_llms.daemons.keys.register import Key
    from vibe_llms.daemons.keys.texts import compute_digest, extract_identity, generate_key

    if not is_name(name):
        raise click.UsageError("NAME must be one line of visible text.")
    now = datetime.now(UTC).replace(microsecond=0)
    text = generate_key()
    key = Key(
        name=name,
        digest=compute_digest(text),
        created=now,
        expires=_read_moment(expires, now) if expires else None,
        models=models,
        operator=operator,
        **bounds,
    )
    _open_register().add(extract_identity(text), key)
    if as_json:
        write_json({"key": text, **_export(extract_identity(text), key)})
        return
    click.echo(text)
    note(f"The key of {name} is shown only once. Anyone with this key can make requests as {name}.")


@keys.command("list", cls=Command)
@json_option
def list_(as_json: bool) -> None:
    """List the keys and their limits."""
    register = _open_register()
    exported = [_export(identity, key) for identity, key in register.load().items()]
    if as_json:
        write_json(exported)
    elif not exported:
        note("There are no keys; `vibe keys add NAME` creates one.")
    else:
        rows = [
            (
                each["name"],
                each["id"],
                each["state"],
                _write_moment(each["expires"]),
                _describe_permissions(each),
            )
            for each in exported
        ]
        headers = ("name", "id", "state", "expires", "may")
        write_table(rows, headers=headers, styles=("cyan", "dim", "", "", ""))
        note(f"The keys are in {register.path}; you can edit their limits there.")


@keys.command("revoke", cls=Command)
@click.argument("key", type=GATEWAY_KEY)
def revoke(key: str) -> None:
    """Revoke a key, by its name or id. The next request with it is refused."""
    identity, revoked_key = _open_register().revoke(key)
    note(f"The key of {revoked_key.name} ({identity}) is revoked.")


@keys.command("usage", cls=Command)
@click.option(
    "--key", "word", type=GATEWAY_KEY, metavar="KEY", help="Only this key, by name or id."
)
@click.option("--day", metavar="DATE", help="Only this day (UTC), such as 2026-11-23.")
@json_option
def usage(word: str | None, day: str | None, as_json: bool) -> None:
    """Show the spending of keys, by key, model and day."""
    from vibe_llms.daemons.keys.register import find_key

    keys_by_id = _open_register().load()
    chosen_id = find_key(keys_by_id, word) if word else None
    finished, running = _survey_spending()
    rows = []
    for is_finished, table in ((True, finished), (False, running)):
        for bucket, spending in table.items():
            if chosen_id in (None, bucket.key) and day in (None, bucket.day):
                row = _export_spending(bucket, spending, keys_by_id, is_finished=is_finished)
                rows.append(row)
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


def _survey_spending() -> tuple[
    Mapping[SpendingBucket, KeySpending], Mapping[SpendingBucket, KeySpending]
]:
    """Return the spending of finished requests, and the spending of running requests."""
    import time

    directory = _find_directory()
    if not directory.exists():  # opening the ledger would create it
        return {}, {}
    from contextlib import closing

    from vibe_llms.daemons.keys.ledger import KeyLedger

    with closing(KeyLedger(directory, read_clock=time.monotonic, read_time=time.time)) as ledger:
        return ledger.survey()


def _read_moment(text: str, now: datetime) -> datetime:
    """Parse the expiry time of a key. Raises UsageError."""
    from vibe_llms.daemons.keys.descriptions import read_expiry

    try:
        return read_expiry(text, now)
    except ValueError as error:
        raise click.UsageError(f"--expires: {error}") from None


def _export(identity: str, key: Key) -> dict[str, Any]:
    """Return a key as plain data, without its digest."""
    import time

    import attrs

    from vibe_llms.daemons.keys.descriptions import describe_key

    return attrs.asdict(describe_key(identity, key, time.time()))


def _describe_permissions(exported: dict[str, Any]) -> str:
    """Describe a key's permissions in a few words."""
    parts = [", ".join(exported["models"])] if exported["models"] else []
    for name in ("requests_per_minute", "tokens_per_minute", "cents_per_day"):
        if exported[name] is not None:
            unit, _, span = name.split("_")
            parts.append(f"{exported[name]} {unit}/{span}")
    if exported["operator"]:
        parts.append("operate")
    return "; ".join(parts) or "everything"


def _write_moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _export_spending(
    bucket: SpendingBucket,
    spending: KeySpending,
    keys_by_id: Mapping[str, Key],
    *,
    is_finished: bool,
) -> dict[str, Any]:
    """Return the spending of a key with a model on a day as plain data."""
    key = keys_by_id.get(bucket.key)
    amounts = {
        name: f"{value:f}" if "cents" in name else value
        for name, value in spending._asdict().items()
    }
    return {
        "day": bucket.day,
        "name": key.name if key else "",
        "id": bucket.key,
        "model": bucket.model,
        "is_under_way": not is_finished,
        **amounts,
    }


def _write_usage(rows: list[dict[str, Any]]) -> None:
    finished = [each for each in rows if not each["is_under_way"]]
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
                _describe_doubts(each),
            )
            for each in finished
        ],
        headers=("day", "key", "model", "requests", "input", "output", "cents", "perhaps"),
        styles=("", "cyan", "", "", "", "", "", "yellow"),
    )
    _note_doubts(finished, "perhaps billed, with unknown usage")
    _note_doubts([each for each in rows if each["is_under_way"]], "under way")
    if unpriced := sum(each["unpriced"] for each in finished):
        note(f"{unpriced} of the requests have no known price and are not counted.")


def _describe_doubts(row: dict[str, Any]) -> str:
    """Describe requests that may have been billed, and those without a price."""
    if not (row["perhaps_requests"] or Decimal(row["perhaps_cents"]) or row["unpriced"]):
        return ""
    doubtful = f"+{row['perhaps_requests']}, up to {row['perhaps_cents']} cents"
    return doubtful + (f", {row['unpriced']} without price" if row["unpriced"] else "")


def _note_doubts(rows: list[dict[str, Any]], description: str) -> None:
    count = sum(each["perhaps_requests"] for each in rows)
    if not count:
        return
    cents = sum(Decimal(each["perhaps_cents"]) for each in rows)
    subject = "1 request is" if count == 1 else f"{count} requests are"
    note(f"{subject} {description}; up to {cents:f} cents.")
