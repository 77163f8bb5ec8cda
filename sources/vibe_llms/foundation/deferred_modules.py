"""Modules of other packages that run at their first use, not when they are imported.

Click, attrs, asyncio and msgspec import modules that most commands never use, such as TLS. They
take a twelfth of the instructions of ``vibe ask``. The program defers the modules listed here; the
library does not, because other programs decide about their own imports.

A deferred module is found when it is imported, so a missing module fails as usual. Its code runs
when an attribute is first read or set; other threads wait meanwhile. Modules that read an attribute
while they are imported gain nothing and are not listed.
"""

from __future__ import annotations

import sys
from _thread import RLock  # `threading` is not imported yet
from importlib.machinery import PathFinder
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


_KNOWN = frozenset(
    {
        *("__class__", "__dict__", "__file__", "__loader__", "__name__", "__package__"),
        *("__path__", "__spec__"),
    }
)
"""Attributes that Python's import reads and sets, and that are there before the code has run."""


class DeferredModule(ModuleType):
    """Module whose code has not run yet. It becomes an ordinary module when it has run."""

    def __getattribute__(self, name: str) -> Any:
        if name not in _KNOWN:
            _run(self)
        return ModuleType.__getattribute__(self, name)  # it may be no instance of this class now

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _KNOWN:
            _run(self)
        ModuleType.__setattr__(self, name, value)


class _Work:
    """Work of a deferred module: an entry of its namespace.

    Args:
        loader: Loader that runs the code.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.lock = RLock()
        self.is_running = False


_WORK = "__vibe_llms_work__"


def _run(module: ModuleType) -> None:
    """Run the code of a module once; other threads wait until it has run."""
    namespace = vars(module)
    work = namespace.get(_WORK)
    if work is None:
        return
    with work.lock:
        # The code of the module, or a module that it imports, may read the attributes so far.
        if _WORK not in namespace or work.is_running:
            return
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
        if name not in DEFERRED or (name == "ssl" and not _has_tls()):
            return None
        for finder in sys.meta_path:
            spec = None if finder is cls else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _DeferringLoader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


def _has_tls() -> bool:
    """Return whether Python was built with TLS; without it, the import of ``ssl`` fails."""
    return PathFinder.find_spec("_ssl") is not None or "_ssl" in sys.builtin_module_names


def install() -> None:
    """Defer the modules of the list in this process, unless they are imported already."""
    if DeferringFinder not in sys.meta_path:
        sys.meta_path.insert(0, DeferringFinder)
