"""Server tools in each dialect, by the table ``data/dialects/server_tools.toml``.

A row of the table has a template of the vendor's tool. To write a tool, its options are put into
the template; to read a client's tool, the template is compared with it.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.dialects.extras import make_native, merge, without
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.tool_templates import bind, fill, find_placeholder, survey_placeholders
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.server_tools import NO_TOOL, ServerTool

JsonFields: TypeAlias = dict[str, Any]

SEARCH_OPTIONS: Final = "web_search_options"
"""Field of Chat Completions that turns the web search on."""

RESTRICTIONS: Final = frozenset({"domains", "blocked_domains", "tools", "approval"})
"""Options that limit what a tool may do: without them, the tool is not sent."""

VENDOR_IDS: Final = frozenset({"stores", "container", "files"})
"""Options with ids that only one vendor knows."""


@frozen(kw_only=True)
class ToolForm:
    """The form of a server tool in one service: a row of the table.

    Attributes:
        dialect: The protocol.
        name: The server tool.
        service: The service that has the tool.
        tool: Template of the entry in ``tools``; ``None`` if there is none.
        body: Template of further fields of the request.
        also: Further types by which clients name the tool.
        models: Patterns of the names of the models that have it; empty for all.
        needs: Options that must be set.
        absent: The meaning of options that a client leaves out.
        function: Description and schema of a function in place of the tool, if the caller executes
            it.
        source, date: The evidence.
    """

    dialect: str
    name: str
    service: str
    source: str
    date: datetime.date
    tool: Mapping[str, Any] | None = None
    body: Mapping[str, Any] = attrs.field(factory=dict)
    also: Sequence[str] = ()
    models: Sequence[str] = ()
    needs: Sequence[str] = ()
    absent: Mapping[str, Any] = attrs.field(factory=dict)
    function: Mapping[str, Any] | None = None

    @functools.cached_property
    def options(self) -> frozenset[str]:
        """The options that the form has."""
        names = survey_placeholders(self.tool) | survey_placeholders(self.body)
        return frozenset(option for name in names for option in find_placeholder(name).options)

    @property
    def kind(self) -> str:
        """The vendor's name of the tool: its type, or the field that turns it on."""
        if self.tool is None:
            return next(iter(self.body))
        return _identify(self.dialect, self.tool)

    def has_model(self, model: str) -> bool:
        """Return whether a model has the tool."""
        return not self.models or any(fnmatchcase(model, each) for each in self.models)


@functools.cache
def access_forms() -> tuple[ToolForm, ...]:
    """Return the table; it is read when a request first has a server tool."""
    import tomllib

    table = tomllib.loads(access_data("dialects", "server_tools.toml").read_text("utf-8"))
    return tuple(
        ToolForm(dialect=dialect, name=name, **row)
        for dialect, tools in table.items()
        for name, rows in tools.items()
        for row in rows
    )


@frozen
class WrittenTool:
    """A server tool in a vendor's format.

    Attributes:
        tool: The entry in ``tools``; ``None`` if there is none.
        body: Further fields of the request.
    """

    tool: dict[str, Any] | None
    body: dict[str, Any]


def write_server_tool(
    tool: ServerTool, path: str, ledger: Ledger, *, service: str, model: str, is_foreign: bool
) -> WrittenTool | None:
    """Write a server tool as the vendor's own; ``None``, with a loss, if the vendor has none.

    Args:
        path: Path of the tool, for losses.
        service: The vendor's service; empty if it has no server tools.
        model: Name of the model; empty if it is unknown.
        is_foreign: Whether the ids in the tool belong to another vendor.
    """
    form = _choose_form(tool, path, ledger, service, model, is_foreign=is_foreign)
    if form is None:
        return None
    if is_foreign and VENDOR_IDS.intersection(tool.list_options()):
        if VENDOR_IDS.intersection(form.needs):
            ledger.withhold(path, f"{tool.name}: its {', '.join(form.needs)} are another vendor's")
            return None
        for option in VENDOR_IDS.intersection(tool.list_options()):
            ledger.withhold(f"{path}.server_tool.{option}", "it is at another vendor")
        tool = attrs.evolve(tool, stores=(), container=None, files=())
    missing = [name for name in tool.list_options() if name not in form.options]
    # A vendor without approvals never asks.
    limits = [
        name
        for name in missing
        if name in RESTRICTIONS and (name != "approval" or tool.approval == "always")
    ]
    if limits:
        ledger.withhold(path, f"{tool.name} cannot be limited there: no {', '.join(limits)}")
        return None
    for name in missing:
        if name not in RESTRICTIONS:
            ledger.drop(f"{path}.server_tool.{name}", "the vendor's tool has no such option")
    return _fill_form(form, tool, path, ledger)


def _choose_form(
    tool: ServerTool, path: str, ledger: Ledger, service: str, model: str, *, is_foreign: bool
) -> ToolForm | None:
    forms = [
        each
        for each in access_forms()
        if (each.dialect, each.name, each.service) == (ledger.protocol, tool.name, service)
    ]
    suitable = [each for each in forms if each.has_model(model)]
    if not suitable:
        reason = NO_TOOL.format(tool.name)
        if forms:
            patterns = dict.fromkeys(pattern for each in forms for pattern in each.models)
            reason += f" for this model, only for {', '.join(patterns)}"
        ledger.withhold(path, reason)
        return None
    given = {*tool.list_options()}
    form = next((each for each in suitable if given.issuperset(each.needs)), None)
    if form is None:
        needed = " and ".join(suitable[0].needs)
        if is_foreign:
            ledger.withhold(path, f"{tool.name} needs {needed} there")
            return None
        raise RequestError(
            path=path,
            detail=f"The server tool {tool.name!r} needs {needed} there.",
            remedy=f"Pass them: ServerTool({tool.name!r}, {suitable[0].needs[0]}=…).",
        )
    return form


def _fill_form(form: ToolForm, tool: ServerTool, path: str, ledger: Ledger) -> WrittenTool:
    native = tool.native
    if native is not None and not native.protocol:  # for every protocol
        native = attrs.evolve(native, protocol=ledger.protocol)
    extras = ledger.read_sendable(native, f"{path}.server_tool")
    body = fill(form.body, tool)
    if form.tool is None:
        if body is ABSENT:  # the field turns the tool on, even if it is empty
            body = {next(key for key, each in form.body.items() if isinstance(each, Mapping)): {}}
        return WrittenTool(None, merge(body, extras))
    body = {} if body is ABSENT else body
    filled = {
        # An object of constants is not left out.
        name: fill(template, tool) if survey_placeholders(template) else template
        for name, template in form.tool.items()
    }
    written = {
        # An object of the protocol, such as ``googleSearch``, is needed even if it is empty.
        name: {} if value is ABSENT else value
        for name, value in filled.items()
        if value is not ABSENT or ledger.protocol == "generate_content"
    }
    return WrittenTool(merge(written, extras), body)


def find_function(invocable: InvocableDescription) -> InvocableDescription | None:
    """Return the function that stands for a server tool which the vendor lacks, if there is one.

    It is the invocable's own, or that of the table.
    """
    if invocable.schema is not None:
        return attrs.evolve(invocable, native=None)
    tool = invocable.server_tool
    functions = (form.function for form in access_forms() if tool and form.name == tool.name)
    function = next(filter(None, functions), None)
    return None if function is None else attrs.evolve(invocable, native=None, **function)


def read_server_tool(
    dialect: str, tool: Mapping[str, Any], body: Mapping[str, Any]
) -> ServerTool | None:
    """Return a client's tool as a server tool; ``None`` if it has no counterpart.

    Fields that only the client's protocol has become native fields of the server tool. If such a
    field limits the tool in a way that cannot be translated, there is no counterpart.

    Args:
        tool: The client's tool.
        body: The whole request, as some tools have fields outside of ``tools``.
    """
    # The services of a dialect share types: the form that explains most of the tool applies.
    readings = [
        _read(form, tool, body) for form in _index_forms(dialect).get(_identify(dialect, tool), ())
    ]
    if not readings:
        return None
    form, found, left = min(readings, key=lambda reading: len(str(reading[2])))
    if _limits(form.tool, left) or not found.keys() >= {*form.needs}:
        return None
    return _make(form, found, dialect, left)


def _read(
    form: ToolForm, tool: Mapping[str, Any], body: Mapping[str, Any]
) -> tuple[ToolForm, JsonFields, JsonFields]:
    """Return a form, the options found by it, and the fields of the tool that it does not have."""
    found: JsonFields = {}
    left = bind(form.tool, tool, found)
    for name, template in form.body.items():
        if isinstance(template, list) and template and body.get(name):
            bind(template, body[name], found)
    return form, found, {} if left is ABSENT else without(left, "type")


def find_own_fields(dialect: str, tool: ServerTool, body: Mapping[str, Any]) -> JsonFields:
    """Return the fields of a client's request that only one tool has, such as its MCP server."""
    if dialect != "messages" or tool.name != "mcp":
        return {}
    servers = body.get("mcp_servers")
    own = [
        each
        for each in (servers if isinstance(servers, list) else ())
        if isinstance(each, Mapping) and each.get("name") == tool.label
    ]
    return {"mcp_servers": own} if own else {}


def read_search_options(dialect: str, options: Mapping[str, Any]) -> ServerTool | None:
    """Return the web search that a client turns on with ``web_search_options``."""
    form = next(
        each
        for each in access_forms()
        if (each.dialect, each.name, each.tool) == (dialect, "web_search", None)
    )
    found: JsonFields = {}
    left = bind(form.body, {SEARCH_OPTIONS: options}, found)
    return _make(form, found, dialect, {} if left is ABSENT else left)


def _make(
    form: ToolForm, found: Mapping[str, Any], dialect: str, left: Mapping[str, Any]
) -> ServerTool | None:
    options = {**form.absent, **found}
    if size := options.pop("display", None):
        options["display"] = [size[part] for part in sorted(size)]
    native = make_native(dialect, left) if left else None
    try:
        return ServerTool(form.name, **options, native=native)
    except RequestError:  # the vendor reports what is wrong
        return None


@functools.cache
def _index_forms(dialect: str) -> Mapping[str, Sequence[ToolForm]]:
    """Return the forms of a dialect by the types of their tools."""
    index: dict[str, list[ToolForm]] = {}
    for form in access_forms():
        if form.dialect == dialect and form.tool is not None:
            for kind in (_identify(dialect, form.tool), *form.also):
                index.setdefault(kind, []).append(form)
    return index


def _identify(dialect: str, tool: Mapping[str, Any]) -> str:
    """Return the type of a tool, which in generateContent is the name of its only field."""
    if dialect == "generate_content":
        return next(iter(tool), "")
    if dialect == "bedrock":
        inner = tool.get("systemTool")
        return str(inner.get("name")) if isinstance(inner, Mapping) else ""
    return str(tool.get("type"))


def _limits(template: Mapping[str, Any] | None, left: Mapping[str, Any]) -> bool:
    """Return whether a field that limits the tool was not understood."""
    return any(
        RESTRICTIONS.intersection(
            option
            for name in survey_placeholders(each)
            for option in find_placeholder(name).options
        )
        for key, each in (template or {}).items()
        if key in left
    )
