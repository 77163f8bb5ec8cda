"""``vibe blame``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.interfaces.cli.access import find_identity, open_store
from vibe_llms.interfaces.cli.options import command, json_option, optional_conversation_argument
from vibe_llms.interfaces.cli.output import write_json, write_moment, write_table

if TYPE_CHECKING:
    from vibe_llms.runs.attribution import Attribution


@command("blame")
@optional_conversation_argument
@json_option
def blame(identity: str | None, as_json: bool) -> None:
    """Show for each message who wrote it: conversation, turn, model, instructions, time and cost.

    Without ID, show the newest. A fork names the ancestor in which a message was written; a merge
    or a cherry-pick names its source. The column `prompt` has the number of the instructions that
    the model had received, the skills that it had loaded, and in a flow the node whose prompt it
    answered.
    """
    from vibe_llms.runs.attribution import attribute_messages

    store = open_store()
    found = attribute_messages(store, find_identity(store, identity))
    if as_json:
        write_json([_describe(each) for each in found])
        return
    write_table(
        [_compose_row(each) for each in found],
        headers=("message", "turn", "conversation", "time", "by", "prompt", "cost", "text"),
        styles=("", "", "cyan", "dim", "", "dim"),
    )


def _describe(each: Attribution) -> dict[str, Any]:
    origin = each.origin
    return {
        "index": each.index,
        "id": each.canister.id,
        "turn": each.turn,
        "role": each.canister.role,
        "conversation": each.conversation,
        "time": each.at,
        "model": None if origin is None else f"{origin.provider}:{origin.model}",
        "stop_reason": None if origin is None else origin.stop_reason,
        "instructions": each.instructions,
        "skills": each.skills,
        "node": each.node or None,
        "amount": None if each.amount is None else str(each.amount),
        "currency": "USD",
        "text": _write_text(each),
    }


def _compose_row(each: Attribution) -> tuple[str, ...]:
    from vibe_llms.foundation.money import write_dollars

    prompt = [] if each.instructions is None else [f"[{each.instructions}]"]
    origin = each.origin
    return (
        f"[{each.index}]",
        str(each.turn),
        each.conversation,
        write_moment(each.at),
        each.canister.role if origin is None else f"{origin.provider}:{origin.model}",
        " ".join([*prompt, *each.skills, *([each.node] if each.node else [])]),
        "" if each.amount is None else write_dollars(each.amount),
        _write_text(each),
    )


def _write_text(each: Attribution) -> str:
    from vibe_llms.interfaces.cli.chat.output import describe_canister

    return "\n".join(text for _, text in describe_canister(each.canister))
