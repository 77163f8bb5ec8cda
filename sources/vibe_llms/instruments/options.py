"""What can be said to an instrument about what it asks, besides the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import WindowPolicy
from vibe_llms.nearness import suggest
from vibe_llms.plain import JsonObject, JsonValue

if TYPE_CHECKING:
    from vibe_llms.instruments.parsers.dialogue import Listener


class RequestOptions(TypedDict, total=False):
    """What can be said about a request besides its prompt.

    Attributes:
        system: Instructions, put before everything.
        invocables: What the model may invoke.
        invocation_choice: ``auto``, ``none``, ``required``, or the name of an invocable.
        schema: A JSON Schema to which the answer must conform.
        continuation: The model shall go on with its own last turn.
        controls: Values for this request only; they win over the model's own.
        window: What becomes of the oldest turns where the conversation exceeds the model's window:
            ``stop``, ``drop`` or ``summarize``.
        lenient: A control that the model does not take is left out, as a loss that is told.
        native: Parameters in the words of the vendor who is asked, as it documents them; what the
            request itself says wins over them, and that is told as a loss.
    """

    system: str
    invocables: Sequence[InvocableDescription]
    invocation_choice: str
    schema: JsonObject
    continuation: bool
    controls: Mapping[str, JsonValue]
    window: WindowPolicy
    lenient: bool
    native: JsonObject | Native


class ParseOptions(RequestOptions, total=False):
    """What can be said about a request whose answer becomes a value.

    Attributes:
        listener: Called with each :class:`.Attempt`.
    """

    listener: Listener | None


def check_options(options: Mapping[str, object]) -> None:
    """Refuses an option that there is none of, most often a control. Raises TypeError."""
    for name in options.keys() - RequestOptions.__optional_keys__:
        hint = suggest(name, RequestOptions.__optional_keys__)
        raise TypeError(
            f"There is no option {name!r}{hint} The value of a control goes into "
            f"'controls', as in controls={{{name!r}: …}}."
        )
