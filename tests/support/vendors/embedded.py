"""Weights of the embedded models, downloaded once and linked into data directories."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.foundation.limits import Limits
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.local.client import CONTEXT_TOKENS, PARALLEL
from vibe_llms.providers.local.embedding import choose_pin
from vibe_llms.providers.local.inference import LoadSettings, acquire_server, release_server
from vibe_llms.providers.local.pins import SMOLLM2, Pin, compose_stored_path
from vibe_llms.providers.local.weights import acquire_weights

DATA_VARIABLE = "VIBE_LLMS_TESTS_DATA_HOME"
"""The variable for the user's folder of data, the only one of theirs that tests share."""


class _Agreement:
    """Consent that is always given, and progress that is not shown."""

    def ask(self, subject: str, question: str) -> bool:
        return True

    def start(self, total: int | None, label: str) -> None: ...

    def advance(self, amount: int) -> None: ...

    def finish(self) -> None: ...


@functools.cache
def acquire_shared_weights(pin: Pin = SMOLLM2) -> Path:
    """Return the weights in the user's data directory; download them the first time."""
    environment = {**os.environ, "XDG_DATA_HOME": os.environ[DATA_VARIABLE]}
    configuration = load_configuration(command_line={"yes": True}, environment=environment)
    context = ProviderContext(
        name="local",
        data_directory=configuration.data_directory / "providers" / "local",
        cache_directory=configuration.cache_directory / "providers" / "local",
        consent=_Agreement(),
        progress=_Agreement(),
        produce_attributes=lambda: None,
    )
    return acquire_weights(pin, context)


def lend_weights(data_directory: Path) -> None:
    """Link the weights into another data directory, where ``local`` finds them."""
    place = compose_stored_path(SMOLLM2, data_directory / "providers" / "local")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        place.symlink_to(acquire_shared_weights())


def lend_embedder(directory: Path) -> None:
    """Link the embedder's folder, with its library, into a data directory of the provider."""
    lend_folder(choose_pin(), directory)


def lend_folder(pin: Pin, directory: Path) -> None:
    """Link a folder of weights into a data directory of the provider."""
    shared = acquire_shared_weights(pin).parent
    place = compose_stored_path(pin, directory).parent
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(shared)


@contextlib.contextmanager
def keep_loaded(path: Path) -> Iterator[Path]:
    """Keep weights loaded for the clients of several tests.

    Loading takes longer than most answers.
    """
    settings = LoadSettings(
        path=path.absolute(),
        context_tokens=CONTEXT_TOKENS,
        parallel=PARALLEL,
        waiting=Limits().waiting_requests,
    )
    server = acquire_server(settings)
    try:
        yield path
    finally:
        release_server(server)
