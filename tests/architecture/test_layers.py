"""Who may import whom, said in words.

The rules themselves stand in ``pyproject.toml``, where ``lint-imports`` checks them along whole
chains of imports. The tests here read the same rules and look at each import by itself, so that
whoever breaks one learns which line did it, why it is wrong, and what to do instead.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from support.quality.source_imports import MODULES, list_imports, strip_package

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sources" / "vibe_llms"
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
}
LAYERS = [
    [name.strip() for name in layer.split("|")] for layer in reversed(CONTRACTS["layers"]["layers"])
]
"""Lowest first."""


def find_layer(name: str) -> tuple[int, str] | None:
    """Returns the height of a module and the entry of the contract that it falls under."""
    for height, entries in enumerate(LAYERS):
        for entry in entries:
            if name == entry or name.startswith(f"{entry}."):
                return height, entry
    return None


def explain_layers() -> str:
    """Draws the contract, highest first."""
    return "\n".join(f"  {' | '.join(entries)}" for entries in reversed(LAYERS))


def test_imports_point_downwards() -> None:
    """A module imports from lower layers only, and never from a sibling."""
    complaints = []
    for found in list_imports():
        target = strip_package(found.imported)
        here, there = find_layer(found.importer), find_layer(target or "")
        if here is None or there is None or here[1] == there[1] or here[0] > there[0]:
            continue
        if found.is_for_types and found.importer.startswith("plugins.specification."):
            continue  # what a hook returns is made far above the module that says so
        relation = "stands beside" if here[0] == there[0] else "stands above"
        complaints.append(
            f"{found.place} imports {found.imported}, but {there[1]} {relation} {here[1]}.\n"
            "  Let the caller hand in what is needed, or give the idea that both share a module"
            " of its own further down."
        )

    assert not complaints, "\n".join([*complaints, "The layers:", explain_layers()])


def test_the_public_names_are_for_others() -> None:
    """Inside the package a name is imported from where it lives, not through the front door."""
    complaints = [
        f"{found.place} imports {found.imported}: import it from the module that defines it."
        for found in list_imports()
        if (name := strip_package(found.imported)) is not None
        and name not in MODULES
        and "." not in name
    ]

    assert not complaints, "\n".join(complaints)


def test_every_package_has_its_layer() -> None:
    """A new package is written into the contract on the day it is made."""
    homeless = sorted(
        name
        for name in MODULES
        if name not in ("", "__main__", "foundation", "plugins") and find_layer(name) is None
    )

    assert not homeless, (
        f"No layer for {', '.join(homeless)}: add it to the contract 'layers' in pyproject.toml,"
        f" then draw it anew with `python documentation/draw_layers.py`.\n{explain_layers()}"
    )


def test_nothing_names_a_vendor() -> None:
    """Providers enter through the configuration; no module imports one by its name."""
    vendors = survey_vendors()
    complaints = [
        f"{found.place} imports {found.imported}: the configuration names providers, and each"
        " vendor's folder can be deleted without harm to the rest."
        for found in list_imports()
        for vendor in vendors
        if f"{strip_package(found.imported)}.".startswith(f"providers.{vendor}.")
        and not f"{found.importer}.".startswith(f"providers.{vendor}.")
    ]

    assert not complaints, "\n".join(complaints)


def survey_folders(*home: str) -> list[str]:
    """Returns the names of the folders below one."""
    return sorted(path.parent.name for path in PACKAGE.joinpath(*home).glob("*/__init__.py"))


def survey_vendors() -> list[str]:
    """Returns the names of the folders of vendors."""
    return survey_folders("providers")


@pytest.mark.parametrize(
    ("contract", "home"), [("vendors", ("providers",)), ("ensembles", ("invocables", "shipped"))]
)
def test_the_contract_knows_all_whom_it_protects(contract: str, home: tuple[str, ...]) -> None:
    """The contract that protects vendors, or ensembles, from being named lists each of them."""
    prefix = ".".join(("vibe_llms", *home, ""))
    listed = sorted(name.removeprefix(prefix) for name in CONTRACTS[contract]["protected_modules"])

    assert listed == survey_folders(*home), f"Bring {contract} in pyproject.toml up to date."


HOMES = {
    **dict.fromkeys(("dbos", "sqlalchemy"), ("agents.durable.",)),
    "botocore": ("providers.", "testing.simulator.amazon_signatures"),
    "obstore": ("conversations.stores.object",),
}
"""Where a library may be imported that is no vendor's of models."""


@pytest.mark.parametrize("library", sorted(CONTRACTS["kits"]["forbidden_modules"]))
def test_a_vendors_library_stays_in_its_folder(library: str) -> None:
    """An SDK or an inference library is imported in the one folder that is about it."""
    complaints = [
        f"{found.place} imports {found.imported}: only a vendor's own folder may."
        for found in list_imports()
        if found.imported.split(".")[0] == library
        and not found.importer.startswith(HOMES.get(library, ("providers.", "invocables.mcp.")))
    ]

    assert not complaints, "\n".join(complaints)
