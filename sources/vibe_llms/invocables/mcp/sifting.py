"""Filter for entries of a server's lists that violate the protocol.

The official package refuses a whole list because of one invalid entry. This filter repairs an entry
if its meaning is clear (a schema or an optional field that is null), or omits the entry with a
warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

_logger = logging.getLogger(__name__)

_METHODS: Final = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
"""Maps the field of a list in a result to the method of its request."""


class FilteredStream:
    """Stream of a server's messages, with filtered lists.

    Args:
        stream: The stream of the official package, or a compatible one.
        server: The name of the server, for warnings.
    """

    def __init__(self, stream: Any, server: str) -> None:
        self._stream = stream
        self._server = server
        self._version = ""

    @property
    def last_context(self) -> Any:
        """The context of the last message's sender, if the stream knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        return self._filter(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._filter(await anext(self._stream))

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:
        return await self._stream.__aexit__(kind, error, traceback)

    def _filter(self, item: Any) -> Any:
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict):
            self._version = str(result.get("protocolVersion") or self._version)
            for field, method in _METHODS.items():
                if isinstance(result.get(field), list):
                    self._filter_list(result, field, method)
        return item

    def _filter_list(self, result: dict[str, Any], field: str, method: str) -> None:
        if not self._find_fault(result, method):
            return
        entries = []
        for index, entry in enumerate(result[field]):
            repaired = _repair(entry, field)
            if fault := self._find_fault({**result, field: [repaired]}, method):
                name = repaired.get("name") if isinstance(repaired, Mapping) else None
                _logger.warning(
                    "%s[%d]%s of %s is left out: %s",
                    *(field, index, f" ({name})" if name else "", self._server, fault),
                )
            else:
                entries.append(repaired)
        result[field] = entries  # the package reports any other fault of the result

    def _find_fault(self, result: Mapping[str, Any], method: str) -> str:
        from mcp_types.methods import validate_server_result
        from mcp_types.version import LATEST_PROTOCOL_VERSION
        from pydantic import ValidationError

        try:
            validate_server_result(method, self._version or LATEST_PROTOCOL_VERSION, result)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"][2:]))  # without the list and the index
            return f"{place}: {first['msg']}".removeprefix(": ")
        except (KeyError, ValueError):
            pass  # the package does not know this version of the protocol
        return ""


def _repair(entry: Any, field: str) -> Any:
    """Return an entry without nulls, and with a tool's schema of the type object."""
    if not isinstance(entry, Mapping):
        return entry
    repaired = {name: value for name, value in entry.items() if value is not None}
    schema = repaired.get("inputSchema", {})
    if field == "tools" and isinstance(schema, Mapping) and schema.get("type") is None:
        repaired["inputSchema"] = {**schema, "type": "object"}
    return repaired
