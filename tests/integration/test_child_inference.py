"""Real inference behind a program on the path: ``vllm serve`` in name, llama.cpp in fact."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from pathlib import Path

import pytest

from vibe_llms.providers.children import ChildServer, ChildSettings

PROGRAM = """#!{python}
import signal, sys
import xllamacpp
assert sys.argv[1] == "serve" and sys.argv[3] == "--port"
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[2]
parameters.port = int(sys.argv[4])
parameters.n_ctx, parameters.n_parallel, parameters.ui = 512, 1, False
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
signal.pause()
"""


class Quiet:
    """Progress that nobody looks at."""

    def start(self, total: int | None, label: str) -> None: ...

    def advance(self, amount: int) -> None: ...

    def finish(self) -> None: ...


def complete(url: str) -> str:
    """Asks for a few tokens, by nothing but the standard library."""
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        text: str = json.load(answer)["choices"][0]["message"]["content"]
    return text


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(os.name != "posix", reason="the program waits for a signal")
async def test_a_started_server_answers_with_real_weights(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is ready when it says so, answers, and is gone when it is closed."""
    program = tmp_path / "vllm"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    settings = ChildSettings(
        name="vllm",
        command=("vllm", "serve", str(weights), "--port", "{port}"),
        health_path="/health",
        log_path=tmp_path / "server.log",
    )
    child = ChildServer(settings, Quiet())
    try:
        url = await child.acquire()
        assert await asyncio.to_thread(complete, url)
    finally:
        await child.close()
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(complete, url)
