"""Calls that another vendor executed itself, in the form of a client's protocol.

The client can read such a call and its result, and returns both with its next request. There, they
are recognized by their ids: the client's own vendor did not execute them, and would reject them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs

from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import ParseError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import Citation, TextualContent
from vibe_llms.messages.requests import Response

_MARK: Final = "_vibe_"
_CODE_FIELDS: Final = ("code", "command")
_Item = TypeVar("_Item")
_Canister = TypeVar("_Canister", bound=AnyCanister)


def compose_id(prefix: str, invocation_id: str) -> str:
    """Return the id of another vendor's call in a client's protocol."""
    return prefix + _MARK + re.sub("[^A-Za-z0-9_]", "", invocation_id)[:48]


def is_foreign_id(identity: object) -> bool:
    """Return whether the id of a call is one of :func:`compose_id`."""
    return isinstance(identity, str) and _MARK in identity


def leave_to_its_vendor(canister: _Canister, identity: object) -> _Canister:
    """Return a client's call or result; without native data if another vendor executed it.

    Args:
        identity: The id of the call in the client's request.
    """
    return attrs.evolve(canister, native=None) if is_foreign_id(identity) else canister


@frozen
class ExecutionForms:
    """The forms of executed calls in one protocol.

    Attributes:
        protocol: The protocol.
        write_call: Returns the native fields of a call; ``None`` if the protocol has no such call.
        write_result: Returns the native fields of a result, from the result and the native fields
            of its call; ``None`` if the protocol cannot represent it.
        read_call: Reads native fields again, so that the arguments are those in the fields.
    """

    protocol: str
    write_call: Callable[[InvocationCanister], dict[str, Any] | None]
    write_result: Callable[[ResultCanister, dict[str, Any]], dict[str, Any] | None]
    read_call: Callable[[dict[str, Any]], InvocationCanister] | None = None


@define
class ExecutionAdopter:
    """Gives the calls and results of other vendors the native data of a client's protocol."""

    forms: ExecutionForms
    _calls: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    def adopt(self, item: _Item) -> _Item:
        """Return a call or a result with native data of the protocol; anything else unchanged."""
        if not isinstance(item, (InvocationCanister, ResultCanister)):
            return item
        native = item.native
        is_own = native is not None and native.protocol == self.forms.protocol
        if item.owner is not Owner.VENDOR or is_own:
            return item
        if isinstance(item, InvocationCanister):
            fields = self.forms.write_call(item)
            if fields is not None:
                self._calls[item.invocation_id] = fields
        else:
            call = self._calls.get(item.invocation_id)
            fields = None if call is None else self.forms.write_result(item, call)
        if fields is None:
            return item
        native = make_native(self.forms.protocol, fields)
        adopted: Any = attrs.evolve(item, native=native, origin=None)
        if isinstance(item, InvocationCanister) and self.forms.read_call is not None:
            read = self.forms.read_call(fields)
            adopted = attrs.evolve(adopted, arguments=read.arguments, form=read.form)
        return adopted  # type: ignore[no-any-return]


def adopt_executions(response: Response, forms: ExecutionForms, ledger: Ledger) -> Response:
    """Return a response with the calls of other vendors in the form of the client's protocol."""
    if not any(getattr(each, "owner", None) is Owner.VENDOR for each in response.canisters):
        return response
    adopter = ExecutionAdopter(forms)
    canisters: list[AnyCanister] = []
    for index, canister in enumerate(response.canisters):
        adopted = adopter.adopt(canister)
        if adopted is not canister:
            reason = "another vendor executed this; the client receives what its protocol can show"
            ledger.coerce(f"canisters[{index}]", reason)
        canisters.append(adopted)
    return attrs.evolve(response, canisters=canisters)


def read_fields(call: InvocationCanister) -> dict[str, Any]:
    """Return the arguments of a call; code has the name ``code``."""
    if call.form == "text":
        return {"code": call.arguments}
    try:
        arguments = call.parse_arguments()
    except ParseError:
        return {}
    return dict(arguments) if isinstance(arguments, dict) else {}


def read_code(call: InvocationCanister) -> str:
    """Return the code of a call."""
    fields = read_fields(call)
    return next((str(fields[name]) for name in _CODE_FIELDS if name in fields), "")


def read_query(call: InvocationCanister) -> str:
    """Return the query of a search; the first one of several."""
    fields = read_fields(call)
    queries = fields.get("queries")
    first = queries[0] if isinstance(queries, list) and queries else ""
    return str(fields.get("query") or first)


def read_result_text(result: ResultCanister) -> str:
    """Return the text of a result."""
    texts = [each.text for each in result.content if isinstance(each, TextualContent)]
    return "\n".join(texts)


def list_sources(result: ResultCanister) -> list[Citation]:
    """Return the pages that a search found."""
    return [
        citation
        for content in result.content
        if isinstance(content, TextualContent)
        for citation in content.citations
        if citation.url
    ]
