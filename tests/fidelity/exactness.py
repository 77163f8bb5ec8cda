"""Compares what is reported as lost with what is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from fidelity.alterations import Alteration, alter_request, is_whole
from fidelity.parties import Party
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request

KEPT_AWAY: Final = frozenset({LossKind.DROPPED, LossKind.WITHHELD})


@attrs.frozen
class Fault:
    """A field about which the report is wrong.

    Attributes:
        kind: ``silent`` or ``false alarm``.
    """

    kind: str
    path: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.path} ({self.told})"


def covers(loss: Loss, path: str) -> bool:
    """Tells whether a loss is of a field, or of what the field is in."""
    if loss.kind is LossKind.SYNTHESIZED:
        return False
    return path == loss.path or path.startswith((f"{loss.path}.", f"{loss.path}["))


def find_faults(request: Request, party: Party) -> Iterator[Fault]:
    """Yields the fields that are lost in silence, and those reported although they go."""
    base = party.nativize(request)
    for alteration in alter_request(request, party.protocol):
        try:
            altered = party.nativize(alteration.request)
        except RequestError:
            continue  # which is loud
        told = _tell(base.losses, alteration.path)
        lost = [loss for loss in told if loss.kind in KEPT_AWAY]
        if altered.value != base.value:
            if lost and alteration.was_set:
                yield Fault("false alarm", alteration.path, str(lost[0]))
            continue
        is_told = told or _tell_within(altered.losses, alteration.path)
        if not is_told and not _is_readable_form(request, alteration, party):
            yield Fault("silent", alteration.path, "nothing is reported")


def _tell(losses: Iterable[Loss], path: str) -> list[Loss]:
    return [loss for loss in losses if covers(loss, path)]


def _tell_within(losses: Iterable[Loss], path: str) -> list[Loss]:
    """Returns the losses of a field, or of something in it."""
    inner = (f"{path}.", f"{path}[")
    return [loss for loss in losses if covers(loss, path) or loss.path.startswith(inner)]


def _is_readable_form(request: Request, alteration: Alteration, party: Party) -> bool:
    if party.protocol == "ollama_chat" and alteration.path.endswith(".mime_type"):
        return True  # the server goes by the bytes
    return is_whole(request, alteration.path, party.protocol, party.name)
