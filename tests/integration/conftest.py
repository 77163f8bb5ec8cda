"""The embedded model for tests with real inference."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.screens.browsers import Tab, open_browser
from support.screens.terminals import Terminals
from support.vendors import embedded
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.local import produce_provider
from vibe_llms.providers.local.client import LocalModel


@pytest.fixture(scope="session", autouse=True)
def share_trust() -> Iterator[None]:
    """Lets official clients share whom they trust: each would read all authorities by itself."""
    import httpcore2

    with pytest.MonkeyPatch.context() as patching:
        once = functools.cache(httpcore2.default_ssl_context)
        patching.setattr(httpcore2, "default_ssl_context", once)
        yield


@pytest.fixture(scope="session")
def weights() -> Path:
    """The GGUF file that ``VIBE_LLMS_WEIGHTS`` names, else the one found or fetched for tests."""
    named = os.environ.get("VIBE_LLMS_WEIGHTS")
    return Path(named) if named else embedded.acquire_shared_weights()


@pytest.fixture(scope="module")
def loaded_weights(weights: Path) -> Iterator[Path]:
    """The weights, loaded once for all clients of a module that say nothing of their window."""
    with embedded.keep_loaded(weights) as path:
        yield path


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Terminals]:
    """Opens terminals in which ``vibe`` runs, and closes them at the end."""
    terminals = Terminals(tmp_path)
    yield terminals
    terminals.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    """One browser for all tests of a module."""
    async with open_browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest_asyncio.fixture(loop_scope="module")
async def tab(browser: Tab) -> Tab:
    """An empty page."""
    await browser.look()
    await browser.visit("about:blank")
    browser.forget()
    return browser


class NobodyToAsk:
    """Consent that must not be needed, and progress that must not be made."""

    def ask(self, subject: str, question: str) -> bool:
        raise AssertionError(f"asked about {subject}")

    def start(self, total: int | None, label: str) -> None:
        raise AssertionError(label)

    def advance(self, amount: int) -> None: ...

    def finish(self) -> None: ...


@pytest.fixture
def local_context(weights: Path, tmp_path: Path) -> ProviderContext:
    """The context of a provider ``local`` whose default model is the embedded one."""
    return ProviderContext(
        name="local",
        settings={"path": str(weights)},
        data_directory=tmp_path / "data",
        cache_directory=tmp_path / "cache",
        consent=NobodyToAsk(),
        progress=NobodyToAsk(),
        produce_attributes=lambda: Catalogue().access_integrator("local"),
    )


@pytest.fixture
async def local_model(
    loaded_weights: Path, local_context: ProviderContext
) -> AsyncIterator[LocalModel]:
    """The embedded model, of which a module loads one; the client is closed at the end."""
    client = produce_provider(local_context).produce_client()
    model = await client.access_model()
    assert isinstance(model, LocalModel)
    yield model
    await client.close()
