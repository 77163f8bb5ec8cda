"""The provider ``vllm`` starts its server: ``vllm serve`` in name, llama.cpp in fact."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.vllm import produce_provider

PROGRAM = """#!{python}
import signal, sys
import xllamacpp
word, model, *options = sys.argv[1:]
assert word == "serve"
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.port = int(options[options.index("--port") + 1])
parameters.n_ctx, parameters.n_parallel, parameters.ui = 512, 1, False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
signal.pause()
"""


class Quiet:
    """Nobody to ask, and nobody who looks."""

    def ask(self, subject: str, question: str) -> bool:
        raise AssertionError(subject)

    def start(self, total: int | None, label: str) -> None: ...

    def advance(self, amount: int) -> None: ...

    def finish(self) -> None: ...


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(os.name != "posix", reason="the program waits for a signal")
async def test_a_server_of_our_own_answers(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``start = true`` and a model, nothing else is needed."""
    program = tmp_path / "vllm"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    context = ProviderContext(
        name="vllm",
        settings={"start": True, "model": str(weights), "startup_seconds": 100},
        data_directory=tmp_path / "data",
        cache_directory=tmp_path / "cache",
        consent=Quiet(),
        progress=Quiet(),
        produce_attributes=lambda: Catalogue().access_integrator("vllm"),
    )
    client = produce_provider(context).produce_client()
    try:
        model = await client.access_model()
        request = Request(canisters=(UserCanister("Say hello."),), controls={"max_tokens": 8})
        streamed = await model.converse(request)
        whole = await model.converse(request, stream=False)
    finally:
        await client.close()

    assert streamed.text
    assert whole.text
    assert (tmp_path / "cache" / "server.log").exists()
