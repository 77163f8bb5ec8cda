"""llama.cpp's server with real weights, in a separate process."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import signal, sys
import xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.api_keys = [sys.argv[2]]
parameters.port, parameters.n_ctx, parameters.n_parallel, parameters.ui = 0, 512, 1, False
# Without a temperature in the request, answers are the same each time and never endless.
parameters.sampling.temp = 0
# More threads would wait for each other by spinning, which is slow on a busy machine.
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
"""


@contextmanager
def serve_weights(weights: Path, key: str) -> Iterator[str]:
    """Run the server; yield its address.

    Args:
        key: API key that clients must send.
    """
    command = [sys.executable, "-c", PROGRAM, str(weights), key]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            wait_for(f"{address}/health")
            yield address
        finally:
            process.kill()


def wait_for(url: str) -> None:
    """Wait until a server reports that it is ready."""
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(url)
