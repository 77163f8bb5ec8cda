"""``vibe flow check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.flows.options import strict_option
from vibe_llms.interfaces.cli.options import MODEL, command, json_option
from vibe_llms.interfaces.cli.output import note, write_json
from vibe_llms.interfaces.cli.tooling import (
    ensembles_option,
    produce_ensembles,
    servers_option,
    split_names,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.application import Application
    from vibe_llms.exceptions import Finding
    from vibe_llms.flows.checks import FlowBound, TaskCheck
    from vibe_llms.flows.settings import AdapterConfig


@command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@strict_option
@click.option("--model", "-m", type=MODEL, help="Model to use instead of the task's.")
@ensembles_option
@servers_option
@json_option
def check(
    files: tuple[str, ...],
    strict: bool,
    model: str | None,
    tools: tuple[str, ...],
    servers: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find mistakes in the tasks in FILEs, without asking a model or spending anything.

    All mistakes are listed at once, with file, line and place in the diagram; the exit code is 3 if
    there are any. With warnings only it is 0. Requests that the model would refuse count as
    mistakes, also in subflows: pass --model, --tools and --mcp as for `flow run`.
    """
    import attrs

    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.flows.settings import AdapterConfig
    from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
    from vibe_llms.interfaces.cli.errors import ExitCode
    from vibe_llms.interfaces.cli.interrupts import run

    config = AdapterConfig(strict_validation=strict, model=model)
    application = load_application()
    warn_untrusted(application.configuration)
    bounds: dict[str, FlowBound] = {}
    errors: list[Finding] = []
    warnings: list[Finding] = []
    for file in files:
        try:
            checked = run(_check(application, file, config, tools, servers))
        except ConfigurationError as error:  # such as an unreadable file
            errors += error.findings
            continue
        errors += checked.errors
        warnings += checked.warnings
        if not checked.errors:
            warnings += _find_missing_requirements(application, checked, model)
        if checked.bound is not None:
            bounds[file] = checked.bound
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
        note(f"{file} is valid. A run makes at most {_describe(bound)}.")
    return ExitCode.SUCCESS


def _find_missing_requirements(
    application: Application, checked: TaskCheck, model: str | None
) -> list[Finding]:
    """Return what a task's models need and this machine lacks, such as a key."""
    import os

    from vibe_llms.flows.refusals import asks_model
    from vibe_llms.plugins.missing_requirements import survey_missing

    findings: dict[Finding, None] = {}  # without duplicates
    for part in checked.survey_parts():
        llm = part.task.resource_llm
        if not asks_model(part):
            continue
        variable = llm.api_key_env if model is None else None
        if variable is not None:
            requirements = [] if os.environ.get(variable) else [f"{variable} is not set."]
        else:
            provider = application.resolve_address(model or llm.address).provider
            missing = survey_missing(application.plugins, [provider])[provider]
            requirements = [
                f"Missing: {each}. {each.remedy}" for each in missing.requirements if each.prevents
            ]
        path = ("resource_llm", "provider")
        for requirement in requirements:
            message = f"Cannot use {model or llm.address} on this machine yet. {requirement}"
            findings[part.reading.find(path, message)] = None
    return list(findings)


def _describe(bound: FlowBound) -> str:
    from vibe_llms.flows.number_texts import describe_cost, describe_tokens

    parts = [
        "1 request" if bound.requests == 1 else f"{bound.requests:,} requests",
        describe_tokens(bound.tokens),
        describe_cost(bound.cost_cents),
    ]
    text = ", ".join(part for part in parts if part)
    if bound.reasons:
        text += f" (estimate: {bound.reasons[0].rstrip('.')})"
    return text


def _export(bound: FlowBound) -> dict[str, Any]:
    names = ("requests", "tokens", "cost_cents", "reasons")
    return {name: getattr(bound, name) for name in names}


async def _check(
    application: Application,
    file: str,
    config: AdapterConfig,
    tools: Sequence[str],
    servers: Sequence[str],
) -> TaskCheck:
    from vibe_llms.flows.adapter import UniversalAdapter

    names = split_names(tools)
    ensembles = await produce_ensembles(application, names, names)
    if servers:
        ensembles += await application.produce_mcp_ensembles(servers)
    return await UniversalAdapter(config, tools=ensembles, application=application).check(file)
