"""``vibe tools``: invocables for models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_application, load_configuration, warn_untrusted
from vibe_llms.interfaces.cli.options import (
    INVOCABLE,
    Command,
    Group,
    consent_option,
    json_option,
)
from vibe_llms.interfaces.cli.output import (
    note,
    reveal,
    reveal_head,
    reveal_lines,
    write,
    write_explanations,
    write_json,
    write_styled,
    write_table,
)
from vibe_llms.interfaces.cli.tooling import (
    ensure_allowed,
    produce_ensembles,
    split_names,
    tool_options,
)

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.foundation.json_types import JsonObject
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.invocables.registry import Registration, Registry


@click.group("tools", cls=Group, default="list")
def tools() -> None:
    """List, explain and call tools. Without a command: list."""


@tools.command("list", cls=Command)
@tool_options
@json_option
def list_(as_json: bool, **options: Any) -> None:
    """List the tools of all configured ensembles, or of those named.

    Connects to the ensembles, and reports those that cannot be connected. The column `tokens`
    estimates how many tokens each tool adds to every request.
    """
    application = load_application()
    warn_untrusted(application.configuration)
    rows, failures = _survey(application, options)
    for text in failures:
        note(text)
    if as_json:
        write_json([{**_encode(each), "tokens": tokens} for each, tokens in rows])
        return
    if not rows and not failures:
        note("No tools found; `vibe tools` lists those of all configured ensembles.")
    write_table(
        [
            *(
                (
                    _name(each),
                    each.ensemble,
                    _describe(each),
                    f"~{tokens}",
                    reveal_head(each.invoker.description),
                )
                for each, tokens in rows
            ),
            *(
                (f"{name}: {count} in all", "", "", f"~{tokens}", "")
                for name, count, tokens in _sum_by_ensemble(rows)
            ),
        ],
        headers=("name", "ensemble", "effect", "tokens", "purpose"),
        styles=("cyan", "", "dim", "", ""),
    )


@tools.command("show", cls=Command)
@click.argument("name", type=INVOCABLE)
@tool_options
@json_option
def show(name: str, as_json: bool, **options: Any) -> None:
    """Explain one tool: purpose, parameters and limits."""
    import json

    rows, _ = _survey(load_application(), options)
    registration, tokens = _find(rows, name)
    if as_json:
        write_json({**_encode(registration), "tokens": tokens})
        return
    invoker = registration.invoker
    write_styled(reveal(f"{invoker.name}  ({registration.ensemble})"), "bold")
    write(reveal_lines(invoker.description))
    write()
    limit = invoker.time_limit_seconds
    write_explanations(
        [
            ("effect", str(invoker.effect), "effect on the world"),
            ("needs approval", "yes" if invoker.needs_approval else "no", "before each call"),
            ("time limit", "none" if limit is None else f"{limit:g} s", "for one call"),
            ("output limit", f"{invoker.output_limit_characters} characters", "of one result"),
            ("tokens", f"about {tokens}", "of its schema, in every request"),
        ]
    )
    write(reveal_lines(json.dumps(dict(invoker.schema), indent=2, ensure_ascii=False)))


@tools.command("call", cls=Command)
@click.argument("name", type=INVOCABLE)
@click.argument("arguments", nargs=-1)
@tool_options
@consent_option
@json_option
async def call(
    name: str, arguments: tuple[str, ...], yes: bool, as_json: bool, **options: Any
) -> None:
    """Call a tool as a model would.

    ARGUMENTS are one JSON object, or NAME=VALUE pairs with values as JSON or text:

    \b
        vibe tools call read_file path=notes.txt
        vibe tools call read_file '{"path": "notes.txt"}'
    """
    from vibe_llms.invocables import InvocationContext, perform
    from vibe_llms.messages.codec.converter import produce_converter
    from vibe_llms.messages.contents import NativeContent, TextualContent

    application = load_application(yes=yes, approver=options["approver"])
    values = _read_arguments(arguments)
    async with _connect(application, options) as registry:
        invoker = registry.access(name)
        ensure_allowed(options["allowed"], registry)
        approved = await _approve(application, invoker, values, options)
        context = InvocationContext(invocation_id="call", listener=note)
        outcome = await perform(invoker, approved, context)
    if as_json:
        unstructure = produce_converter().unstructure
        contents = [unstructure(content) for content in outcome.contents]
        write_json({"contents": contents, "is_error": outcome.is_error})
    else:
        for content in outcome.contents:
            text = content.text if isinstance(content, TextualContent | NativeContent) else ""
            write(text or f"[{content.type}]")
    if outcome.is_error:
        raise SystemExit(1)  # the result contains the error


async def _approve(
    application: Application, invoker: Any, arguments: JsonObject, options: dict[str, Any]
) -> JsonObject:
    """Ask for approval if the invocable needs it; return the approved arguments.

    The user has typed the call, but an approver of a plugin may decide otherwise.

    Raises:
        TrustError: The call was not approved.
    """
    from vibe_llms.exceptions import Stage, TrustError
    from vibe_llms.interfaces.cli.approving import TerminalApprover, advise_to_allow
    from vibe_llms.interfaces.cli.keyboard import can_ask
    from vibe_llms.invocables.approvals import produce_approval_request, settle

    # Invalid arguments need no approval: the call fails anyway.
    if not invoker.needs_approval or await invoker.examine(arguments):
        return arguments
    request = produce_approval_request(
        "call", invoker.name, arguments, description=invoker.description, effect=invoker.effect
    )
    policy = await application.produce_approver()
    allowed = split_names(options["allowed"])
    # The hint is not printed, because it is the remedy of the error below.
    approver = TerminalApprover(allowed, report=lambda hint: None, policy=policy)
    approval = await approver.approve(request)
    assert approval is not None  # `None` is only for runs that are stored
    approved = settle(request, approval)
    if approved is None:
        reason = f" {approval.reason}" if policy is not None and approval.reason else ""
        if not can_ask():
            remedy = advise_to_allow(invoker.name)
        else:
            remedy = "Answer yes when asked." if policy is None else "Its approver refused it."
        raise TrustError(
            detail=f"{invoker.name} was not executed: it was not approved.{reason}",
            remedy=remedy,
            stage=Stage.EXECUTE,
        )
    return approved


def _read_arguments(texts: Sequence[str]) -> JsonObject:
    import json

    from vibe_llms.interfaces.cli.option_values import parse_controls

    if len(texts) == 1 and texts[0].lstrip().startswith("{"):
        try:
            value = json.loads(texts[0])
        except ValueError as error:
            raise click.UsageError(f"The arguments are not valid JSON: {error}.") from error
        if isinstance(value, dict):
            return value
    return parse_controls(tuple(texts), kind="argument", example="path=notes.txt")


@asynccontextmanager
async def _connect(application: Application, options: dict[str, Any]) -> AsyncIterator[Registry]:
    """Connect the named ensembles, or all that are configured."""
    from vibe_llms.exceptions import ConverseError
    from vibe_llms.invocables.registry import Registry

    names, servers = split_names(options["tools"]), options["servers"]
    is_named = bool(names or servers)
    ensembles: list[Ensemble] = []
    async with application:
        for name in names if is_named else application.configuration.ensembles:
            try:
                ensembles += await produce_ensembles(application, [name], names)
            except ConverseError as error:
                if is_named:
                    raise
                note(f"{name}: {error}")
        if servers or (not is_named and application.configuration.servers):
            ensembles += await _produce_servers(application, servers or None)
        # If all are listed, an ensemble that cannot be connected must not hide the others.
        guard = await application.access_argument_guard()
        async with Registry(ensembles, tolerant=not is_named, guard=guard) as registry:
            yield registry


async def _produce_servers(
    application: Application, sources: Sequence[str] | None
) -> Sequence[Ensemble]:
    from vibe_llms.interfaces.cli.elicitation import TerminalElicitor
    from vibe_llms.interfaces.cli.keyboard import can_ask
    from vibe_llms.invocables.mcp.oauth.settings import TellingAuthorizer

    return await application.produce_mcp_ensembles(
        sources,
        elicitor=TerminalElicitor(),
        authorizer=TellingAuthorizer(note) if can_ask() else None,
    )


def _survey(
    application: Application, options: dict[str, Any]
) -> tuple[list[tuple[Registration, int]], list[str]]:
    """Return the invocables with the cost of their schemas, and the connection failures."""
    from vibe_llms.interfaces.cli.interrupts import run
    from vibe_llms.models.counting import count_invocable

    async def perform() -> tuple[list[tuple[Registration, int]], list[str]]:
        async with _connect(application, options) as registry:
            rows = [
                (each, count_invocable(each.description, None).tokens) for each in registry.survey()
            ]
            return rows, [*map(str, registry.failures.values()), *registry.collisions]

    return run(perform())


def _sum_by_ensemble(rows: Sequence[tuple[Registration, int]]) -> list[tuple[str, int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for each, tokens in rows:
        count, total = sums.get(each.ensemble, (0, 0))
        sums[each.ensemble] = (count + 1, total + tokens)
    return [(name, count, total) for name, (count, total) in sums.items()]


def _find(rows: Sequence[tuple[Registration, int]], name: str) -> tuple[Registration, int]:
    from vibe_llms.exceptions import UnknownNameError
    from vibe_llms.foundation.suggestions import find_near

    for row in rows:
        if row[0].invoker.name == name:
            return row
    names = [each.invoker.name for each, _ in rows]
    raise UnknownNameError(
        kind="invocable", name=name, known=tuple(find_near(name, names) or names)
    )


def _describe(registration: Registration) -> str:
    invoker = registration.invoker
    return f"{invoker.effect}, asks" if invoker.needs_approval else str(invoker.effect)


def survey_names(ensembles: Sequence[str]) -> list[str]:
    """Return the names of the tools in these ensembles, which are connected for it."""
    from vibe_llms.application import Application

    names = split_names(ensembles)
    if not names:
        return []
    options = {"tools": names, "servers": (), "allowed": ()}
    rows, _ = _survey(Application(load_configuration()), options)
    return [each.invoker.name for each, _ in rows]


def _name(registration: Registration) -> str:
    return reveal(registration.invoker.name)


def _encode(registration: Registration) -> dict[str, Any]:
    invoker = registration.invoker
    return {
        "name": invoker.name,
        "ensemble": registration.ensemble,
        "description": invoker.description,
        "schema": invoker.schema,
        "effect": str(invoker.effect),
        "needs_approval": invoker.needs_approval,
        "time_limit_seconds": invoker.time_limit_seconds,
        "output_limit_characters": invoker.output_limit_characters,
    }
