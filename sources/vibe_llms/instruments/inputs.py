"""Inputs of an instrument: a text, contents, canisters, or a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeAlias, cast

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject, is_encodable
from vibe_llms.messages.canisters import CANISTER_CLASSES, AnyCanister, UserCanister
from vibe_llms.messages.contents import AnyContent, Native, TextualContent
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.trusting import trusted


class HasCanisters(Protocol):
    """An object with a history, such as a ``Conversation``."""

    @property
    def id(self) -> str:
        """Id of the object."""

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """The canisters, oldest first."""


Input: TypeAlias = (
    str
    | AnyContent
    | Sequence[str | AnyContent]
    | AnyCanister
    | Sequence[AnyCanister]
    | HasCanisters
)
"""Input of an instrument: a text, contents of one message, canisters, or a conversation."""

PLACEHOLDER: Final = "?"
"""Text in place of the question, in a request that serves as a template for others."""

_CANISTERS = tuple(CANISTER_CLASSES.values())

_make_text: Final = trusted(TextualContent)
_make_user_canister: Final = trusted(UserCanister)


def gather_canisters(prompt: Input) -> tuple[AnyCanister, ...]:
    """Return the canisters of an input, oldest first."""
    if prompt.__class__ is str:  # fast path
        return (produce_user_canister(prompt),)
    if isinstance(prompt, str):  # of a subclass, such as the members of a StrEnum
        return (UserCanister(prompt),)
    if isinstance(prompt, _CANISTERS):
        return (prompt,)
    if hasattr(prompt, "canisters"):
        return tuple(prompt.canisters)
    if isinstance(prompt, (list, tuple)) and not prompt:
        return ()
    if isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], _CANISTERS):
        return tuple(cast(Sequence[AnyCanister], prompt))
    return (UserCanister(cast("AnyContent | Sequence[AnyContent]", prompt)),)


def produce_user_canister(text: str) -> UserCanister:
    """Create a user's canister from a text; a fast path for the most frequent input."""
    if not is_encodable(text):
        return UserCanister(text)  # raises the error about the text
    return _make_user_canister(
        timestamp=access_now(),
        content=(_make_text(text=text),),
        id=produce_identity(),
    )


def produce_native(parameters: JsonObject | Native | None) -> Native | None:
    """Return parameters in a vendor's own format; a JSON object is for the provider in use.

    Raises:
        RequestError: The parameters are not a JSON object.
    """
    if parameters is None or isinstance(parameters, Native):
        return parameters
    import msgspec

    try:
        if not isinstance(parameters, Mapping):
            raise TypeError(f"it is of the type {type(parameters).__name__}")
        data = msgspec.json.encode(dict(parameters)).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            path="native",
            detail=f"The native parameters are not a JSON object: {error}.",
            remedy='Pass a dictionary, such as native={"logit_bias": {"42": -100}}.',
        ) from error
    return Native(protocol="", data=data)
