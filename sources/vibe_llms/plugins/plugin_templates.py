"""Template of a new plugin's package: a module, its tests, and its metadata."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Final

from vibe_llms.configuration.definitions import is_plugin_name
from vibe_llms.exceptions import PluginError
from vibe_llms.foundation.package_data import access_data

KINDS: Final = ("provider", "embedder", "ensemble")


def make_plugin(name: str, kind: str, folder: Path) -> tuple[Path, ...]:
    """Write a new package into its own folder.

    Args:
        name: The name of the provider or the ensemble; an embedder is a provider, too.
        kind: One of ``KINDS``.
        folder: Parent of the package's folder, which is named like the plugin.

    Returns:
        The written files.

    Raises:
        PluginError: The name is invalid or already exists, or the files cannot be written.
    """
    module = f"vibe_{name}".replace("-", "_").replace(".", "_").lower()
    if not is_plugin_name(name) or not module.isidentifier():
        raise PluginError(
            plugin=name,
            detail=f"Invalid plugin name {name!r}.",
            remedy="Use letters, digits and '-', as in: vibe plugins new my-vendor",
        )
    place = folder / name
    short = module.removeprefix("vibe_")
    class_prefix = "".join(map(str.capitalize, short.split("_")))
    substitutions = {
        "NameProvider": f"{class_prefix}Provider",
        "NameVendor": f"{class_prefix}Vendor",
        "VARIABLE": f"{short.upper()}_API_KEY",
        "DISTRIBUTION": module.replace("_", "-"),
        "MODULE": module,
        "NAME": name,
        "TODAY": date.today().isoformat(),
    }
    files = {
        place / "pyproject.toml": "pyproject.txt",
        place / "README.rst": "readme.txt",
        place / "sources" / module / "__init__.py": f"{kind}/module.txt",
        place / "tests" / f"test_{module}.py": f"{kind}/test.txt",
    }
    if kind != "ensemble":
        files[place / "tests" / "conftest.py"] = f"{kind}/conftest.txt"
    if kind == "embedder":
        files[place / "sources" / module / "models" / "attributes.toml"] = f"{kind}/attributes.txt"
    try:
        place.mkdir(parents=True)  # never into an existing folder
        try:
            for file, template in files.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(_fill(template, substitutions), encoding="utf-8")
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)  # otherwise a second attempt would fail
            raise
    except OSError as error:
        raise PluginError(
            plugin=name,
            detail=f"{place} cannot be created: {error.strerror}.",
            remedy="Use another name, or another folder.",
        ) from error
    return tuple(files)


def _fill(template: str, substitutions: dict[str, str]) -> str:
    text = access_data("plugins", *template.split("/")).read_text("utf-8")
    for placeholder, value in substitutions.items():
        text = text.replace(placeholder, value)
    lines = text.splitlines()
    if len(lines) > 1 and set(lines[1]) == {"="}:  # adapt the underline to the title's length
        lines[1] = "=" * len(lines[0])
    return "\n".join(lines) + "\n"
