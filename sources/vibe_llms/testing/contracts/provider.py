"""Contract of providers: inherit it, name the plugin's module, and run it with pytest."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from vibe_llms.testing.contracts.conversing import ConversingPromises, stream_synchronously
from vibe_llms.testing.contracts.promises import BrokenPromise, promise, require
from vibe_llms.testing.contracts.translating import TranslatingPromises
from vibe_llms.testing.contracts.worlds import CANARY, World, find_provider, load_manager

HEAVY_MODULES = (
    "aiohttp",
    "anthropic",
    "google.genai",
    "httpx",
    "httpx2",
    "jsonschema",
    "ollama",
    "openai",
    "pydantic",
    "requests",
    "rich",
    "torch",
    "xllamacpp",
)
"""Modules that a plugin may use but must not import before it needs them."""

_PROBE = """
import importlib, json, sys
sys.path[:] = json.loads(sys.stdin.read())
module = importlib.import_module(sys.argv[1])
names = [specification.name for specification in module.survey_providers()]
json.dump([names, [name for name in sys.argv[2:] if name in sys.modules]], sys.stdout)
"""


class ProviderContract(ConversingPromises, TranslatingPromises):
    """Contract of every provider.

    Attributes:
        module: The plugin's module.
        name: The provider's name, if the plugin has several.
        model: A model's name; by default the provider's default model.
        settings: The provider's table in the configuration.
    """

    module: ClassVar[str]
    name: ClassVar[str] = ""
    model: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Any]] = {}

    @contextlib.contextmanager
    def prepare(self, directory: Path) -> Iterator[World]:
        """Prepare the world of one promise; override this to start a server."""
        yield World(
            module=self.module,
            name=self.name,
            model_name=self.model,
            settings=self.settings,
            directory=directory / "world",
        )

    def test_listing_it_imports_nothing_heavy(self) -> None:
        """Listing the providers of a plugin imports no large package."""
        probe = [sys.executable, "-c", _PROBE, self.module, *HEAVY_MODULES]
        path = json.dumps(sys.path)  # the path tells the subprocess where the plugin is
        completed = subprocess.run(
            probe, input=path, capture_output=True, text=True, check=False, timeout=60
        )

        last_line = (completed.stderr.strip().splitlines() or ["nothing"])[-1]
        require(
            completed.returncode == 0,
            f"A new Python process cannot list the providers of {self.module}: {last_line}.",
            "Make the module importable, and let survey_providers return a list.",
        )
        names, heavy = json.loads(completed.stdout)
        require(names, "The plugin has no providers.", "Return a ProviderSpecification for each.")
        require(
            not heavy,
            f"Listing its providers imports {', '.join(heavy)}.",
            "Import these in the factory, or later.",
        )

    def test_making_a_client_connects_to_nothing(self, tmp_path: Path) -> None:
        """A provider and a client are made without a socket."""
        with self.prepare(tmp_path) as world:
            refuse = mock.Mock(
                side_effect=BrokenPromise(
                    "A socket is connected before the first request. Connect in send, or later."
                )
            )
            with (
                mock.patch("socket.socket.connect", refuse),
                mock.patch("socket.getaddrinfo", refuse),
            ):
                client = world.provider.produce_client()

            require(
                client.provider is world.provider,
                "client.provider is not the provider that has made the client.",
                "Set it in produce_client.",
            )
            require(
                world.provider.name == world.name,
                f"The provider is configured as {world.name!r}, but its name is "
                f"{world.provider.name!r}.",
                "Let its name be context.name.",
            )

    def test_without_asynchronous_code_it_answers_alike(self, tmp_path: Path) -> None:
        """The synchronous interface gives the same text."""
        from vibe_llms.foundation.portal import access_portal

        with self.prepare(tmp_path) as world:
            portal = access_portal()
            portal.call(world.__aenter__)
            try:
                text = stream_synchronously(world, self.ask_for_words()).text
                require(
                    text, "The synchronous answer has no text.", "Bind nothing to an event loop."
                )
            finally:
                portal.call(world.client.close)

    def test_what_it_knows_of_models_says_where_from(self, tmp_path: Path) -> None:
        """Each value in its attribute files has a source and a date."""
        with self.prepare(tmp_path) as world:
            integrator = world.manager.produce_catalogue().access_integrator(world.name)
            for rule in integrator.rules:
                for row in integrator.integrate(rule.model or "any").explain():
                    if row.layer.split()[0] in ("default", "family", "model"):
                        require(
                            row.source and row.date,
                            f"{row.key} in {row.file} has no source, or no date.",
                            "Write both at the top of the file.",
                        )

    @promise
    async def test_its_key_is_never_shown(self, world: World) -> None:
        """Not in a representation, an event, an error or a log."""
        records: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(  # type: ignore[method-assign]
            f"{record.getMessage()} {record.exc_info}"
        )
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            async with world.model.stream(self.ask_for_words()) as stream:
                shown = [repr(event) async for event in stream]
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        objects = (world.client, world.model, world.provider, world.model.descriptor)
        shown += [*records, *map(repr, objects)]
        with_key = [text[:60] for text in shown if CANARY in text]
        require(
            not with_key,
            f"The key is shown, as in {with_key[:1]}.",
            "Keep it in a Secret, and reveal it only to send it.",
        )


__all__ = ["CANARY", "ProviderContract", "World", "find_provider", "load_manager"]
