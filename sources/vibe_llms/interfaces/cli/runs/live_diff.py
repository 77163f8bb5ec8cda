"""``vibe runs diff --live``: ask a model again at each step of a run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import click

from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.access import load_application
from vibe_llms.interfaces.cli.commands.runs.replaying import read_text
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.option_values import parse_controls
from vibe_llms.interfaces.cli.output import note, write, write_count, write_json
from vibe_llms.interfaces.cli.runs.run_lookup import open_run
from vibe_llms.interfaces.cli.tooling import produce_ensembles, split_names

if TYPE_CHECKING:
    from vibe_llms.instruments.live_comparisons import (
        ComparisonPreview,
        LiveComparison,
        LiveStep,
        ModelAction,
    )


async def compare_live(word: str, options: Mapping[str, Any], *, as_json: bool, yes: bool) -> int:
    """Compare a run with a live model step by step, and show each step."""
    from vibe_llms.instruments.live_comparisons import LiveComparison

    store, summary = open_run(word)
    if summary.kind == "flow":
        raise click.UsageError(f"{summary.id} is a flow: name one of its visits.")
    application = load_application(yes=yes)
    recorded = summary.spec.get("ensembles")
    run_ensembles = recorded if isinstance(recorded, (list, tuple)) else ()
    names = split_names(options["tools"] or run_ensembles)
    async with (
        application,
        LiveComparison(
            store,
            summary.id,
            await produce_ensembles(application, names, names),
            application=application,
            address=options["model"] or "",
            instructions=read_text(options["prompt"]),
            words=options["words"],
            controls=parse_controls(options["controls"]),
        ) as comparison,
    ):
        preview = await comparison.foresee()
        _confirm(preview, options, is_agreed=yes or application.configuration.yes)
        steps = await _perform(comparison, options, as_json=as_json)
    return _report(preview, steps, as_json=as_json)


def _confirm(preview: ComparisonPreview, options: Mapping[str, Any], *, is_agreed: bool) -> None:
    from vibe_llms.interfaces.cli.consent import require_consent

    for remark in preview.remarks:
        note(remark)
    models, times = ", ".join(preview.models), write_count(preview.steps, "time")
    note(
        f"Asks {models} up to {times}, for at most {write_dollars(preview.cost)}; the cap "
        f"is {write_dollars(options['cap'])}. Stops at the first step that differs."
    )
    if preview.executed:
        names = ", ".join(preview.executed)
        note(f"The vendor runs its own tools again if the model calls them: {names}.")
    if (preview.cost or preview.executed) and not is_agreed:
        require_consent(f"Ask {models}?", remedy="Add --yes to confirm in advance.")


async def _perform(
    comparison: LiveComparison, options: Mapping[str, Any], *, as_json: bool
) -> list[LiveStep]:
    steps: list[LiveStep] = []
    async with aclosing(comparison.perform(options["cap"])) as live_steps:
        async for step in live_steps:
            steps.append(step)
            if not as_json:
                write(f"event {step.sequence}: {step.difference or 'unchanged'}")
    return steps


def _report(preview: ComparisonPreview, steps: list[LiveStep], *, as_json: bool) -> int:
    cost = sum((each.cost for each in steps), Decimal(0))
    different = next((each for each in steps if each.difference), None)
    if as_json:
        exported = [{**attrs.asdict(each), "cost": float(each.cost)} for each in steps]
        write_json({"steps": exported, "of": preview.steps, "cost": float(cost)})
    elif different is None:
        note(f"All {write_count(preview.steps, 'step')} are unchanged; {write_dollars(cost)}.")
    else:
        for sign, action in (("-", different.then), ("+", different.now)):
            write(f"{sign} {_describe(action)}")
        of = f"step {len(steps)} of {preview.steps}"
        note(f"First difference: event {different.sequence} ({of}); {write_dollars(cost)}.")
    return ExitCode.SUCCESS if different is None else ExitCode.INCOMPLETE


def _describe(action: ModelAction) -> str:
    return " ".join(filter(None, (" ".join(action.text.split()), *action.calls))) or "(nothing)"
