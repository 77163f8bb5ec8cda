"""The contract of providers: inherit it, name the plugin's module, and let pytest run it."""

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
from vibe_llms.testing.contracts.promises import promise
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
"""What a plugin may use, and may not import before it is used."""

_PROBE = """
import importlib, json, sys
module = importlib.import_module(sys.argv[1])
names = [specification.name for specification in module.survey_providers()]
json.dump([names, [name for name in sys.argv[2:] if name in sys.modules]], sys.stdout)
"""


class ProviderContract(ConversingPromises, TranslatingPromises):
    """What every provider keeps.

    Attributes:
        module: The plugin's module.
        name: The provider's name, where the plugin has several.
        model: A model's name; by default the provider's default model.
        settings: The provider's table in the configuration.
    """

    module: ClassVar[str]
    name: ClassVar[str] = ""
    model: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Any]] = {}

    @contextlib.contextmanager
    def prepare(self, directory: Path) -> Iterator[World]:
        """Makes the world of one promise; override it where a server must be started."""
        yield World(
            module=self.module,
            name=self.name,
            model_name=self.model,
            settings=self.settings,
            directory=directory / "world",
        )

    def test_listing_it_imports_nothing_heavy(self) -> None:
        """A plugin can be asked what it has before anything large is loaded."""
        probe = [sys.executable, "-c", _PROBE, self.module, *HEAVY_MODULES]
        answer = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=60)

        assert answer.returncode == 0, answer.stderr[-2000:]
        names, heavy = json.loads(answer.stdout)
        assert names
        assert not heavy, f"Asked what it has, it imports {', '.join(heavy)}."

    def test_making_a_client_connects_to_nothing(self, tmp_path: Path) -> None:
        """A provider and a client are made without a socket."""
        with self.prepare(tmp_path) as world:
            refuse = mock.Mock(side_effect=AssertionError("A socket is connected too early."))
            with (
                mock.patch("socket.socket.connect", refuse),
                mock.patch("socket.getaddrinfo", refuse),
            ):
                client = world.provider.produce_client()

            assert client.provider is world.provider
            assert world.provider.name == world.name

    def test_without_asynchronous_code_it_answers_alike(self, tmp_path: Path) -> None:
        """The synchronous face gives the same text."""
        from vibe_llms.asynchrony import access_portal

        with self.prepare(tmp_path) as world:
            portal = access_portal()
            portal.call(world.__aenter__)
            try:
                assert stream_synchronously(world, self.ask_for_words()).text
            finally:
                portal.call(world.client.close)

    def test_what_it_knows_of_models_says_where_from(self, tmp_path: Path) -> None:
        """Each value in its attribute files has a source and a date."""
        with self.prepare(tmp_path) as world:
            integrator = world.manager.produce_catalogue().access_integrator(world.name)
            for rule in integrator.rules:
                for row in integrator.integrate(rule.model or "any").explain():
                    if row.layer.split()[0] in ("default", "family", "model"):
                        assert row.source, f"{row.key} in {row.file} has no source."
                        assert row.date, f"{row.key} in {row.file} has no date."

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
        things = (world.client, world.model, world.provider, world.model.descriptor)
        shown += [*records, *map(repr, things)]
        assert not any(CANARY in text for text in shown)


__all__ = ["CANARY", "ProviderContract", "World", "find_provider", "load_manager"]
