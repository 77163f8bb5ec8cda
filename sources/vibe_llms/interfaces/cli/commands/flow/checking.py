"""``vibe flow check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.flows.options import strict_option
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.exceptions import Finding
    from vibe_llms.flows.bounds import FlowBound
    from vibe_llms.flows.checking import TaskCheck


@command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@strict_option
@json_option
def check(files: tuple[str, ...], strict: bool, as_json: bool) -> int:
    """Find all that is wrong with the tasks in FILEs: nothing is asked, and nothing is spent.

    Mistakes are listed with file and line, all at once, and their places in the diagram; the exit
    code is 3 then. Warnings alone do no harm: it is 0.
    """
    import attrs

    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.interfaces.cli.access import load_application, tell_untrusted
    from vibe_llms.interfaces.cli.errors import ExitCode
    from vibe_llms.interfaces.cli.interrupts import run

    application = load_application()
    tell_untrusted(application.configuration)
    bounds: dict[str, FlowBound] = {}
    errors: list[Finding] = []
    warnings: list[Finding] = []
    for file in files:
        try:
            found = run(_check(application, file, strict=strict))
        except ConfigurationError as error:  # as where a file cannot be read
            errors += error.findings
            continue
        errors += found.errors
        warnings += found.warnings
        if found.bound is not None:
            bounds[file] = found.bound
    if as_json:
        write_json(
            {
                "errors": [attrs.asdict(each) for each in errors],
                "warnings": [attrs.asdict(each) for each in warnings],
                "bounds": {file: _export(bound) for file, bound in bounds.items()},
            }
        )
        return ExitCode.CONFIGURATION if errors else ExitCode.SUCCESS
    for warning in warnings:
        note(f"Warning: {warning}")
    if errors:
        raise ConfigurationError(findings=tuple(errors))
    for file, bound in bounds.items():
        note(f"{file} holds. A run comes to at most {_describe(bound)}.")
    return ExitCode.SUCCESS


def _describe(bound: FlowBound) -> str:
    from vibe_llms.flows.words import describe_cost, describe_tokens

    words = [
        f"{bound.requests:,} request{'s' * (bound.requests != 1)}",
        describe_tokens(bound.tokens),
        describe_cost(bound.cost_cents),
    ]
    said = ", ".join(each for each in words if each)
    if bound.reasons:
        said += f", as far as that can be said, since {bound.reasons[0].rstrip('.')}"
    return said


def _export(bound: FlowBound) -> dict[str, Any]:
    names = ("requests", "tokens", "cost_cents", "reasons")
    return {name: getattr(bound, name) for name in names}


async def _check(application: Application, file: str, *, strict: bool) -> TaskCheck:
    from vibe_llms.flows.adapter import UniversalAdapter
    from vibe_llms.flows.settings import AdapterConfig

    config = AdapterConfig(strict_validation=strict)
    return await UniversalAdapter(config, application=application).check(file)
