"""Run the contract of providers for one plugin, and report each promise."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.exceptions import PluginError, UnknownNameError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.models.genera import Genus

_SUITE = "vibe_llms.testing.contracts.suite"


@frozen(kw_only=True)
class Promise:
    """One promise of the contract, and whether the plugin keeps the promise.

    Attributes:
        name: The name of its test, in words.
        meaning: The promise, in a sentence.
        is_kept: True if it was kept.
        reason: Why it was broken, in a line.
    """

    name: str
    meaning: str
    is_kept: bool
    reason: str = ""


def run_contract(
    module: str,
    *,
    provider: str = "",
    model: str = "",
    settings: Sequence[str] = (),
    report: Callable[[Promise], None],
) -> list[Promise]:
    """Test each promise of the contract, and report each result as soon as it is known.

    Args:
        module: The plugin's module; the current directory is on the path.
        provider, model: Names of the provider and the model, if the plugin has several.
        settings: The provider's settings, each as ``KEY=VALUE``.
        report: Called with each promise.

    Raises:
        DependencyError: pytest is not installed.
        PluginError: The contract could not be run at all, or the model does not converse.
    """
    with needing("testing", "pytest", "Running the contract"):
        import pytest
    from vibe_llms.testing.contracts.worlds import find_provider
    from vibe_llms.testing.pytest_plugin import read_setting

    sys.path.insert(0, str(Path.cwd()))
    provider = provider or find_provider(module)
    try:
        table = dict(map(read_setting, settings))
    except pytest.UsageError as error:
        raise PluginError(plugin=module, detail=str(error)) from error
    if not asyncio.run(_converses(module, provider, model, table)):
        raise PluginError(
            plugin=module,
            detail=f"{':'.join(filter(None, (provider, model)))} does not converse.",
            remedy="Test models of other genera with CallModelContract, in pytest.",
        )
    reporter = _Reporter(report)
    # Ignore the author's own configuration of pytest: no files, no conftest, no cache.
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-c", os.devnull, "--noconftest"]
    options += ["-p", "vibe_llms.testing.pytest_plugin", "--pyargs", _SUITE]
    options += [f"--provider-module={module}", f"--provider-name={provider}"]
    options += [f"--provider-model={model}"]
    options += [f"--provider-setting={setting}" for setting in settings]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    status = pytest.main(options, plugins=[reporter])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not reporter.promises:
        raise PluginError(
            plugin=module, detail=f"The contract could not be run on {module}: {status!s}."
        )
    return reporter.promises


async def _converses(module: str, provider: str, model: str, settings: Mapping[str, Any]) -> bool:
    """Return False if a model is known not to converse; other errors are left to the contract."""
    from vibe_llms.providers.call_vendors import CallVendor
    from vibe_llms.providers.genera import ensure_converser
    from vibe_llms.testing.contracts.worlds import World

    with tempfile.TemporaryDirectory() as directory:
        try:
            async with World(
                module=module,
                name=provider,
                model_name=model,
                settings=settings,
                directory=Path(directory),
            ) as world:
                ensure_converser(world.model.descriptor)
                return not isinstance(getattr(world.client, "vendor", None), CallVendor)
        except UnknownNameError as error:
            return error.kind != Genus.CONVERSER
        except Exception:
            return True


@define(eq=False)
class _Reporter:
    """Plugin of pytest that reports the result of each test as a promise."""

    report: Callable[[Promise], None]
    promises: list[Promise] = attrs.field(factory=list)
    _meanings: dict[str, str] = attrs.field(factory=dict)

    def pytest_collection_modifyitems(self, items: list[object]) -> None:
        for item in items:
            text = getattr(item, "obj", None).__doc__ or ""
            self._meanings[getattr(item, "nodeid", "")] = text.strip().partition("\n")[0]

    def pytest_runtest_logreport(self, report: object) -> None:
        from vibe_llms.testing.contracts.promises import BrokenPromise

        when, failed = getattr(report, "when", ""), getattr(report, "failed", False)
        # Report the set-up of a test only if it fails, because then the test is not called.
        if when != "call" and not failed:
            return
        identity = getattr(report, "nodeid", "")
        crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
        reason = " ".join(str(getattr(crash, "message", "")).split()) if failed else ""
        error_name, colon, detail = reason.partition(": ")
        if colon and error_name.endswith(BrokenPromise.__name__):
            reason = detail
        promise = Promise(
            name=identity.rpartition("::")[2].removeprefix("test_").replace("_", " "),
            meaning=self._meanings.get(identity, ""),
            is_kept=not failed,
            reason=reason,
        )
        self.promises.append(promise)
        self.report(promise)
