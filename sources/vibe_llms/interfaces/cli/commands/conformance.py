"""``vibe conformance``."""

from __future__ import annotations

from typing import Protocol

import click

from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_styled


class PromiseResult(Protocol):
    """Result of testing one promise of the contract, as the test kit reports it."""

    name: str
    meaning: str
    is_kept: bool
    reason: str


@command("conformance")
@click.argument("module")
@click.option("--provider", default="", help="Provider to test, if the plugin has several.")
@click.option("--model", default="", help="Model to test; default: the provider's default.")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the provider, in TOML.",
)
@json_option
def conformance(
    module: str, provider: str, model: str, settings: tuple[str, ...], as_json: bool
) -> int | None:
    """Test the provider of the plugin MODULE against the contract of all providers.

    The module is imported from the Python path or the current folder, and its code runs.
    """
    import importlib

    # Imported by name, because the package must not depend on its test kit.
    kit = importlib.import_module("vibe_llms.testing.conformance")
    promises: list[PromiseResult] = kit.run_contract(
        module,
        provider=provider,
        model=model,
        settings=settings,
        report=(lambda promise: None) if as_json else _report,
    )
    broken = [promise for promise in promises if not promise.is_kept]
    if as_json:
        write_json([_encode(promise) for promise in promises])
    else:
        note(f"{len(promises) - len(broken)} of {len(promises)} promises hold.")
    return 1 if broken else None


def _report(promise: PromiseResult) -> None:
    if promise.is_kept:
        write_styled(f"holds   {promise.name}", "green")
        return
    write_styled(f"BROKEN  {promise.name}", "red", "bold")
    write_styled(f"        {promise.meaning}")
    write_styled(f"        {promise.reason}", "dim")


def _encode(promise: PromiseResult) -> dict[str, object]:
    return {
        "promise": promise.name,
        "meaning": promise.meaning,
        "is_kept": promise.is_kept,
        "reason": promise.reason,
    }
