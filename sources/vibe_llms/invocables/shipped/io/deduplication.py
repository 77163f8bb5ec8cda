"""Which results about files are stale."""

from __future__ import annotations

import attrs

from vibe_llms.invocables.deduplicators import ByArgument
from vibe_llms.plain import JsonObject

_RANGE = ("first_line", "lines")


@attrs.frozen
class ByFile:
    """A file that is read or written whole makes what was said of it before stale.

    Of a file that is read in parts, each part is a thing of its own: the second does not make
    the first stale.
    """

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Returns the file, and the part where it is one."""
        path = arguments.get("path")
        if not isinstance(path, str):
            return None
        parts = [part for part in path.split("/") if part not in ("", ".")]
        plain = {**arguments, "path": f"{'/' * path.startswith('/')}{'/'.join(parts)}"}
        whole = ByArgument("path", "file").identify(name, plain)
        given = {key: arguments[key] for key in _RANGE if key in arguments}
        return f"{whole}:{sorted(given.items())}" if given else whole
