"""Names of a package that are imported at their first use."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` alone would take a fifth of an interpreter's start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def produce_attribute_access(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a package that imports its names on demand.

    Args:
        package: The importable name of the package.
        homes: The module of each public name: its name relative to the package, or its full name
            if it is in another one.

    Returns:
        Functions to assign to ``__getattr__`` and ``__dir__`` in the package.
    """

    def access(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        module = home if home.startswith("vibe_llms.") else f"{package}.{home}"
        value = getattr(importlib.import_module(module), name)
        # From now on Python finds it there, without calling this.
        importlib.import_module(package).__dict__[name] = value
        return value

    def survey() -> list[str]:
        return sorted(homes)

    return access, survey


class MovedModules:
    """A finder for the end of ``sys.meta_path``: importing a moved module names the new one."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise an error that names the new module, if the imported one has moved."""
        if not name.startswith("vibe_llms."):
            return
        from vibe_llms.foundation.moved_modules import MOVED

        if name in MOVED:
            raise ModuleNotFoundError(f"{name} has moved. Import {MOVED[name]}.", name=name)
