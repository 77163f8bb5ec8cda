"""Server tools: tools that vendors define, and most of which they execute themselves."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import Native
from vibe_llms.messages.field_types import conform_fields, ensure_members
from vibe_llms.messages.json_values import copy_plain

SERVER_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "code_execution": ("container", "files"),
    "computer": ("display", "environment"),
    "file_search": ("stores", "max_results"),
    "image_generation": (),
    "maps": (),
    "mcp": ("label", "url", "tools", "approval", "authorization", "description"),
    "memory": (),
    "web_fetch": ("domains", "blocked_domains", "max_uses"),
    "web_search": ("domains", "blocked_domains", "max_uses", "max_results", "location"),
}
"""The options of each server tool."""

CALLER_TOOLS: Final = frozenset({"computer", "memory"})
"""Server tools whose calls the caller executes."""

NO_TOOL: Final = "the vendor has no {}"
"""Reason of the loss of a server tool."""

LOCATION_FIELDS: Final = ("city", "country", "region", "timezone")


def _conform_options(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Give each field a converter; see :func:`conform_fields`."""
    lists = [
        field.evolve(converter=functools.partial(ensure_members, classes=(str,), field=field.name))
        if field.default == ()
        else field
        for field in fields
    ]
    return conform_fields(cls, lists)


def _ensure_location(location: Mapping[str, str] | None) -> JsonObject | None:
    if location is None:
        return None
    unknown = [name for name in location if name not in LOCATION_FIELDS]
    if unknown or not all(isinstance(value, str) for value in location.values()):
        raise RequestError(
            path="location",
            detail=f"Invalid location {dict(location)!r}.",
            remedy=f"Give texts under these names: {', '.join(LOCATION_FIELDS)}.",
        )
    copied: JsonObject = copy_plain(location, "location", keeps_order=False)
    return copied or None


def _ensure_display(display: Iterable[int] | None) -> tuple[int, ...] | None:
    if display is None:
        return None
    size = tuple(display)
    if len(size) != 2 or not all(type(each) is int and each > 0 for each in size):
        raise RequestError(
            path="display",
            detail=f"Invalid display {display!r}.",
            remedy="Give width and height in pixels, such as (1280, 800).",
        )
    return size


def _ensure_native(native: Native | Mapping[str, Any] | None) -> Native | None:
    if native is None or isinstance(native, Native):
        return native
    import json  # most tools have no native fields

    fields = copy_plain(native, "native", keeps_order=True)
    if not isinstance(fields, dict):
        raise RequestError(
            path="native", detail="The native fields are not an object.", remedy="Give a dict."
        )
    return Native(protocol="", data=json.dumps(fields))


@frozen(slots=False, field_transformer=_conform_options)
class ServerTool:
    """A tool that a vendor defines, under one name for all vendors.

    Each dialect writes its vendor's own tool for it. A vendor without such a tool is not offered
    it, and an option that the vendor does not have is not sent; both are losses. If the missing
    option limits what the tool may do (``domains``, ``blocked_domains``, ``tools``,
    ``approval="always"``), the whole tool is withheld.

    Attributes:
        name: ``web_search``, ``web_fetch``, ``code_execution``, ``file_search``,
            ``image_generation``, ``maps``, ``computer``, ``memory`` or ``mcp``. Vendors execute all
            of them except ``computer`` and ``memory``, whose calls the caller executes.
        domains: The only domains that may be searched or fetched.
        blocked_domains: The domains that may not; not together with ``domains``.
        max_uses: Maximum number of calls in one answer.
        max_results: Maximum number of results of one search.
        location: Approximate location of the user for the search: ``city``, ``country`` (two
            letters), ``region`` and ``timezone``.
        stores: Ids of the vendor's stores of files to search.
        container: Id of the vendor's container in which code is executed; by default a new one.
        files: Ids of files, uploaded to the vendor, for code in a new container.
        display: Width and height of the computer's screen in pixels.
        environment: Kind of the computer, such as ``browser``.
        label: Name of the MCP server, which is also the name of the tool in a request.
        url: Address of the MCP server, which the vendor connects to.
        tools: Names of the only tools of the MCP server that may be called.
        approval: ``always`` to ask before each call of the MCP server, or ``never``. By default the
            vendor decides: OpenAI asks, others do not.
        authorization: Access token for the MCP server. It is a part of the request, wherever that
            is stored.
        description: Purpose of the MCP server.
        native: Further fields of the vendor's tool, as a dictionary; with a :class:`Native` for
            one protocol only.

    Raises:
        RequestError: The name is unknown, or an option is invalid or belongs to another tool.
    """

    name: str
    domains: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    blocked_domains: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    max_uses: int | None = attrs.field(default=None, kw_only=True)
    max_results: int | None = attrs.field(default=None, kw_only=True)
    location: Mapping[str, str] | None = attrs.field(
        default=None, converter=_ensure_location, kw_only=True
    )
    stores: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    container: str | None = attrs.field(default=None, kw_only=True)
    files: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    display: tuple[int, ...] | None = attrs.field(
        default=None, converter=_ensure_display, kw_only=True
    )
    environment: str | None = attrs.field(default=None, kw_only=True)
    label: str | None = attrs.field(default=None, kw_only=True)
    url: str | None = attrs.field(default=None, kw_only=True)
    tools: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    approval: Literal["always", "never"] | None = attrs.field(default=None, kw_only=True)
    authorization: str | None = attrs.field(default=None, kw_only=True, repr=False)
    description: str | None = attrs.field(default=None, kw_only=True)
    native: Native | None = attrs.field(default=None, converter=_ensure_native, kw_only=True)

    __hash__ = None  # type: ignore[assignment]  # the location is a dictionary

    def __attrs_post_init__(self) -> None:
        known = SERVER_TOOLS.get(self.name)
        if known is None:
            from vibe_llms.foundation.suggestions import end_among

            raise RequestError(
                path="name",
                detail=f"Unknown server tool {self.name!r}{end_among(self.name, SERVER_TOOLS)}",
                remedy="Offer another tool of the vendor as an InvocableDescription with native.",
            )
        for option in self.list_options():
            if option not in known:
                raise RequestError(
                    path=option,
                    detail=f"The server tool {self.name!r} has no option {option!r}.",
                    remedy=f"Its options: {', '.join(known) or 'none'}.",
                )
        if self.domains and self.blocked_domains:
            raise RequestError(
                path="blocked_domains",
                detail="A server tool has either domains or blocked_domains.",
                remedy="Remove one of them.",
            )
        if self.name == "mcp" and not self.label:
            raise RequestError(
                path="label",
                detail="The server tool 'mcp' needs a label.",
                remedy="Give the server a short name, such as label='github'.",
            )

    def list_options(self) -> list[str]:
        """Return the names of the options that are set, without ``native``."""
        return [name for name in _OPTIONS if getattr(self, name) not in (None, ())]


_OPTIONS: Final = tuple(dict.fromkeys(name for names in SERVER_TOOLS.values() for name in names))
