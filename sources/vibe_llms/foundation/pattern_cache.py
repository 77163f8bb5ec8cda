"""Cache of the regular expressions that modules compile when they are imported.

The libraries and modules of a short command compile some fifty expressions, in Python, which is a
twentieth of its time. The program keeps the code of each (:mod:`.compiled_cache`). Expressions that
a function compiles are not kept, because they may contain a user's text.
"""

from __future__ import annotations

import re
import sys
from importlib.util import cache_from_source
from typing import Any, Final

from vibe_llms.foundation.compiled_cache import CompiledCache

_CODE_OF_FUNCTIONS: Final = 0x1  # inspect.CO_OPTIMIZED, which neither modules nor classes have
_EXTENSION_MODULE: Final = "_call_with_frames_removed"
"""Function of importlib that executes an extension module, which has no frame."""


class PatternCache:
    """Replacement for the function that compiles expressions for :mod:`re`.

    Args:
        path: File of the compiled expressions.
    """

    def __init__(self, path: str) -> None:
        self._cache = CompiledCache(path)
        self._compiler: Any = re._compiler  # type: ignore[attr-defined]
        self._compile = self._compiler.compile

    def __len__(self) -> int:
        return len(self._cache)

    def __call__(self, pattern: Any, flags: int = 0) -> Any:
        """Compile an expression, or make it of its code from the cache."""
        if flags & (re.DEBUG | re.LOCALE) or not _is_called_by_module():
            return self._compile(pattern, flags)
        flags = int(flags)
        key = f"{sys.hexversion}\n{flags}\n{pattern!r}"
        values = self._cache.find(key)
        if values is None:
            values = self._translate(pattern, flags)
            self._cache.add(key, values)
        return self._compiler._sre.compile(pattern, *values)

    def _translate(self, pattern: Any, flags: int) -> tuple[Any, ...]:
        """Return what ``_sre.compile`` makes an expression of, as :mod:`re` does."""
        parsed = self._compiler._parser.parse(pattern, flags)
        state = parsed.state
        names: list[str | None] = [None] * state.groups
        for name, number in state.groupdict.items():
            names[number] = name
        code = list(map(int, self._compiler._code(parsed, flags)))
        return flags | state.flags, code, state.groups - 1, state.groupdict, tuple(names)

    def write(self) -> None:
        """Add the newly compiled expressions to the file."""
        self._cache.write()


def _is_called_by_module() -> bool:
    """Return whether the code of a module or class compiles an expression."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == "re":
        frame = frame.f_back
    if frame is None:
        return False
    code = frame.f_code
    return not code.co_flags & _CODE_OF_FUNCTIONS or code.co_name == _EXTENSION_MODULE


def install() -> None:
    """Make :mod:`re` use the cache of this installation, in this process."""
    cache = PatternCache(f"{cache_from_source(__file__)}.patterns")
    cache._compiler.compile = cache
