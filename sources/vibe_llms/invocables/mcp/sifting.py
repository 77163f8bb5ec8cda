"""Removal of entries that break the protocol from a server's lists.

The official package refuses a whole list for one bad entry. Here an entry is repaired if its
meaning is clear (a schema that is null, an optional field that is null), or left out with a
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
"""Maps the field of a result to its request."""


class SiftedStream:
    """The messages of a server, with sifted lists.

    Args:
        stream: Of the official package, or a compatible one.
        server: Named in warnings.
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
        return self._sift(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._sift(await anext(self._stream))

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

    def _sift(self, item: Any) -> Any:
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict):
            self._version = str(result.get("protocolVersion") or self._version)
            for field, method in _METHODS.items():
                if isinstance(result.get(field), list):
                    self._sift_list(result, field, method)
        return item

    def _sift_list(self, result: dict[str, Any], field: str, method: str) -> None:
        if not self._find_fault(result, method):
            return
        kept = []
        for place, entry in enumerate(result[field]):
            mended = _mend(entry, field)
            if fault := self._find_fault({**result, field: [mended]}, method):
                named = mended.get("name") if isinstance(mended, Mapping) else None
                _logger.warning(
                    "%s[%d]%s of %s is left out: %s",
                    *(field, place, f" ({named})" if named else "", self._server, fault),
                )
            else:
                kept.append(mended)
        result[field] = kept  # the package reports any other fault of the result

    def _find_fault(self, result: Mapping[str, Any], method: str) -> str:
        from mcp_types.methods import validate_server_result
        from mcp_types.version import LATEST_PROTOCOL_VERSION
        from pydantic import ValidationError

        try:
            validate_server_result(method, self._version or LATEST_PROTOCOL_VERSION, result)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"][2:]))  # after the list and its one entry
            return f"{place}: {first['msg']}".removeprefix(": ")
        except (KeyError, ValueError):
            pass  # another version, unknown here
        return ""


def _mend(entry: Any, field: str) -> Any:
    """Return an entry without nulls, and a tool's schema as one of an object."""
    if not isinstance(entry, Mapping):
        return entry
    mended = {name: value for name, value in entry.items() if value is not None}
    schema = mended.get("inputSchema", {})
    if field == "tools" and isinstance(schema, Mapping) and schema.get("type") is None:
        mended["inputSchema"] = {**schema, "type": "object"}
    return mended
