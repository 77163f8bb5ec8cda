"""Ask the user on the terminal to approve calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from typing import NoReturn

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.interfaces.cli.keyboard import Screen, ask_line_async, can_ask, take_turn
from vibe_llms.interfaces.cli.output import note, reveal, reveal_lines, shorten, style
from vibe_llms.interfaces.cli.program import compose_again, compose_command
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    DeferringApprover,
    Scope,
    allow,
    consult,
    deny,
    edit,
)

_CHOICES = "Allow [o]nce, [a]lways (this call), [n]ever, [e]dit, or Enter to deny? "
_CHARACTERS_LIMIT = 4_000
"""Maximum length of the arguments that are shown at once; users would not read more."""


@define
class TerminalApprover:
    """``Approver`` that asks the user at the terminal; without a terminal, it allows nothing.

    Attributes:
        allowed: Names of invocables that need no approval; ``all`` means every one. Calls that
            may already have taken effect need approval nevertheless.
        screen: Display that is paused during a question.
        has_user: Returns whether a user can be asked.
        report: Receives a hint how to allow a call, once per name, if no user can be asked.
        policy: Approver that decides first; the user is asked if it defers.
        is_stored: Whether the run is stored, so that a request can be answered later: then it stays
            open without a terminal. Otherwise it is denied.
    """

    allowed: Collection[str] = ()
    screen: Screen | None = None
    has_user: Callable[[], bool] = can_ask
    report: Callable[[str], object] = note
    policy: DeferringApprover | None = None
    is_stored: bool = False
    _reported: set[str] = attrs.field(factory=set, init=False)

    async def approve(self, request: ApprovalRequest) -> Approval | None:
        """Ask, and return the answer; ``None`` leaves the request open."""
        if not request.in_doubt and ({"all", request.name} & set(self.allowed)):
            return allow(request)

        def report_failure(error: BaseException) -> None:
            reason = shorten(f"{type(error).__name__}: {error}", 300)
            note(f"{request.name} was not executed: the approver failed: {reason}")

        if self.policy is not None:
            approval = await consult(self.policy, request, report_failure)
            if approval is not None:
                return approval
        if not self.has_user():
            if self.is_stored:
                return None
            if not request.in_doubt and request.name not in self._reported:
                self._reported.add(request.name)
                self.report(f"{request.name} was not executed. {advise_to_allow(request.name)}")
            return deny(request, "No terminal to ask for approval.")
        async with take_turn(self.screen):
            return await ask(request, is_cut=_show(request))


def advise_to_allow(name: str) -> str:
    """Describe how to allow an invocable if no user can be asked."""
    return f"No terminal to ask for approval. To allow it: {compose_again('--allow', name)}"


def advise_to_answer(identity: str, *resume_arguments: str) -> str:
    """Describe how to answer the waiting calls of a run, and how to resume it afterwards."""
    approve = compose_command("runs", "approve", identity)
    return f"Answer with: {approve}; then continue with: {compose_command(*resume_arguments)}"


async def ask(request: ApprovalRequest, *, is_cut: bool = False) -> Approval:
    """Ask the user at the terminal for an answer to a request that was shown.

    Args:
        is_cut: Whether the arguments were not shown completely.
    """
    while True:
        answer = await ask_line_async(f"[s]how all, {_CHOICES}" if is_cut else _CHOICES)
        match answer.strip().lower():  # whole words only: other text is not an answer
            case "s" | "show" | "show all" if is_cut:
                sys.stderr.write(f"{write_arguments(request)}\n")
            case "o" | "once" | "y" | "yes":
                return allow(request)
            case "a" | "always":
                return allow(request, scope=Scope.CALL)
            case "n" | "never" | "no":
                reason = await ask_line_async("Reason for the model (Enter for none)? ")
                return deny(request, reason, scope=Scope.CALL)
            case "e" | "edit":
                arguments = await _read_arguments(request)
                if arguments is not None:
                    return edit(request, arguments)
            case "":
                return deny(request, "The user declined this call.")


def write_arguments(request: ApprovalRequest) -> str:
    """Format the arguments as JSON without invisible characters."""
    return reveal_lines(json.dumps(json.loads(request.arguments), indent=2, ensure_ascii=False))


def _show(request: ApprovalRequest) -> bool:
    """Show the request; return whether arguments were cut because of their length."""
    arguments = write_arguments(request)
    is_cut = len(arguments) > _CHARACTERS_LIMIT
    if is_cut:
        hidden = len(arguments) - _CHARACTERS_LIMIT
        arguments = f"{arguments[:_CHARACTERS_LIMIT]} … and {hidden} more characters"
    sys.stderr.write(style(write_head(request), "yellow", "bold", stream=sys.stderr) + "\n")
    sys.stderr.write(arguments + "\n")
    return is_cut


def write_head(request: ApprovalRequest) -> str:
    """Format the question about a request, without invisible characters."""
    if request.in_doubt:
        return reveal(
            f"{request.name} was started before, and its effect is unknown. Execute it, "
            "possibly a second time?"
        )
    return reveal(f"{request.name} asks to be executed: {shorten(request.description, 100)}")


async def _read_arguments(request: ApprovalRequest) -> JsonObject | None:
    """Read replacement arguments; ``None`` if there are none or they are invalid."""
    text = await ask_line_async(f"Arguments, as JSON, instead of {reveal(request.arguments)}: ")
    try:
        return parse_arguments(text)
    except ValueError as error:
        sys.stderr.write(f"{reveal(str(error))}\n")
        return None


def parse_arguments(text: str) -> JsonObject:
    """Parse typed arguments. Raises ValueError with the reason."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Invalid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ValueError("Not a JSON object.")
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
