"""llama.cpp's own server, with real weights, in a process of its own."""

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
# Who says nothing of a temperature hears the same each time, and no endless answer by chance.
parameters.sampling.temp = 0
# More threads wait for each other by spinning, which takes ages on a machine that is busy.
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
"""


@contextmanager
def serve_weights(weights: Path, key: str) -> Iterator[str]:
    """Start the server, and ends it; yields its address.

    Args:
        key: That clients must show.
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
    """Wait until a server answers that it is well."""
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(url)
