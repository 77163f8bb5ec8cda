"""What the dialects share where clients are served: no call needs any of this.

An answer that is not whole goes as one that is not, if need be as one that a limit has cut: nobody
is to take it for the end. What the protocol's word does not say is told as a loss.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import ControlError, ConverseError, RequestError
from vibe_llms.messages.canisters import AnyCanister, Origin, StopReason
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, is_answerable
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.controls import Control, check_control
from vibe_llms.models.genera import Genus
from vibe_llms.plain import JsonObject, JsonValue

UNKNOWN_MODEL: Final = ModelAttributes(
    address=ModelAddress("client", "client"), genus=Genus.CONVERSER, controls=(), traced=()
)
"""Stands for a client, of which nothing is known that it would not take."""


@contextmanager
def refuse_nonsense(what: str, protocol: str, path: str = "") -> Iterator[None]:
    """Makes a RequestError of what goes wrong while something of another form is read.

    Args:
        what: Is read.
        protocol: Whose reference says what it should be.
    """
    try:
        yield
    except ConverseError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            path=path,
            detail=f"{what} makes no sense: {error!r}.",
            remedy=f"Compare it with the reference of {protocol}.",
        ) from error


def compose_request(
    canisters: Translation[tuple[AnyCanister, ...]],
    controls: Mapping[str, JsonValue],
    invocables: Translation[tuple[tuple[InvocableDescription, ...], str]],
    schema: Translation[JsonObject | None],
    *,
    native: Native | None,
    model: str = "",
) -> Translation[Request]:
    """Returns the request of a client, whose parts were read each by itself, and all losses.

    Args:
        native: What it says besides, in the words of its protocol.
    """
    said, (described, choice) = canisters.value, invocables.value
    request = Request(
        canisters=said,
        model=model,
        controls=controls,
        invocables=described,
        invocation_choice=choice,
        schema=schema.value,
        continuation=bool(said) and not is_answerable(said[-1]),
        native=native,
    )
    return Translation(request, (*canisters.losses, *invocables.losses, *schema.losses))


def keeps_word(origin: Origin, protocol: str) -> bool:
    """Tells whether the vendor's own word goes: it spoke this protocol, and had said why.

    A stream that somebody left has no such word, and must not look as if it had come to its end.
    """
    is_left = origin.native_stop_reason is None and origin.stop_reason is StopReason.INTERRUPTED
    return origin.protocol == protocol and not is_left


def tell_stop(origin: Origin, word: str, understood: StopReason, ledger: Ledger) -> None:
    """Takes down that an answer ended for another reason than the word says.

    Args:
        understood: What whoever reads the word will take for the reason.
    """
    if understood is not origin.stop_reason:
        reason = f"{origin.stop_reason} goes as {word!r}: this protocol has no word for it"
        ledger.coerce("metadata.origin.stop_reason", reason)


def fits_control(name: str, value: JsonValue, attributes: ModelAttributes | None) -> bool:
    """Tells whether a value in a request can be that of a control.

    Args:
        attributes: Of the model that is asked: only its controls count. Without them the common
            ones do.
    """
    control = attributes.access_control(name) if attributes else _access_common_control(name)
    if control is None:
        return False
    try:
        check_control(control, value)
    except ControlError:
        return False
    return True


@functools.cache
def _access_common_control(name: str) -> Control | None:
    from vibe_llms.models.definitions import produce_control
    from vibe_llms.models.keys import KEYS_BY_NAME

    key = KEYS_BY_NAME.get(name)
    return None if key is None else produce_control(name, key.definition)
