"""Modules of other packages that run at their first use, not when they are imported.

Click, attrs, asyncio and msgspec import modules that most commands never use, such as TLS. They
take a twelfth of the instructions of ``vibe ask``. The program defers the modules listed here; the
library does not, because other programs decide about their own imports.

A deferred module is found when it is imported, so a missing module fails as usual. Its code runs
when an attribute is read that is not there yet. Modules that read such an attribute while they are
imported gain nothing and are not listed.
"""

from __future__ import annotations

import sys
from _thread import RLock  # `threading` is not imported yet
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from typing import Any

DEFERRED = frozenset(
    {
        "asyncio.sslproto",
        "asyncio.staggered",
        "attr.validators",
        "attrs.validators",
        "ipaddress",
        "msgspec.inspect",
        "ntpath",
        "ssl",
        "textwrap",
        "tokenize",
    }
)
"""Names of the modules; none is a package."""


class DeferredModule(ModuleType):
    """Module whose code has not run yet. It becomes an ordinary module when it runs."""

    def __getattr__(self, name: str) -> Any:
        _run(self, name)
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        _run(self, "__dir__")
        return dir(self)


class _Work:
    """What a deferred module waits for: an entry of its namespace.

    Args:
        loader: Loader that runs the code.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.lock = RLock()
        self.is_running = False


_WORK = "__vibe_llms_work__"


def _run(module: ModuleType, attribute: str) -> None:
    """Run the code of a module once; other threads wait until it has run."""
    namespace = vars(module)
    work = namespace.get(_WORK)
    if work is None:
        return
    with work.lock:
        if _WORK not in namespace:
            return
        if work.is_running:  # its own code, or a module that it imports, reads it too early
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")
        work.is_running = True
        try:
            work.loader.exec_module(module)
            module.__class__ = ModuleType
            del namespace[_WORK]
        finally:
            work.is_running = False


class _DeferringLoader:
    """Loader that makes a module a deferred one and runs nothing."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        vars(module)[_WORK] = _Work(self._loader)
        module.__class__ = DeferredModule


class DeferringFinder:
    """Finder for the start of ``sys.meta_path``: modules of the list get a deferring loader."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have for a module of the list."""
        if name not in DEFERRED:
            return None
        for finder in sys.meta_path:
            spec = None if finder is cls else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _DeferringLoader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


def install() -> None:
    """Defer the modules of the list in this process, unless they are imported already."""
    if DeferringFinder not in sys.meta_path:
        sys.meta_path.insert(0, DeferringFinder)
