"""Cache of the methods that attrs generates.

attrs generates the source of each class's methods and compiles it whenever a program starts, which
takes half of the time to define a class. The same source gives the same code, so it is compiled
once (:mod:`.compiled_cache`).
"""

from __future__ import annotations

from importlib.util import cache_from_source
from typing import Any, Final

import attr._make

from vibe_llms.foundation.compiled_cache import CompiledCache

_OURS: Final = "vibe_llms."


class MethodCache:
    """Replacement for ``compile``, for the module of attrs that compiles methods and for ours.

    Args:
        path: File of the compiled methods.
    """

    def __init__(self, path: str) -> None:
        self._cache = CompiledCache(path)

    def __len__(self) -> int:
        return len(self._cache)

    def __call__(self, source: Any, filename: str, mode: str) -> Any:
        """Compile a source, or return its code from the cache."""
        if not isinstance(source, str) or _OURS not in filename:
            return compile(source, filename, mode)
        key = f"{filename}\n{mode}\n{source}"
        code = self._cache.find(key)
        if code is None:
            code = compile(source, filename, mode)
            self._cache.add(key, code)
        return code

    def write(self) -> None:
        """Add the newly compiled methods to the file."""
        self._cache.write()


compile_generated: Final = MethodCache(f"{cache_from_source(__file__)}.methods")
"""Compiles generated source like ``compile``; the name of the file must have our package in it."""


def install() -> None:
    """Make attrs use the cache of this installation."""
    # In the module, this name has precedence over the built-in function.
    attr._make.compile = compile_generated  # type: ignore[attr-defined]
