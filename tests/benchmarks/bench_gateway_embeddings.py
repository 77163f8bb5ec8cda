"""Embeddings through the gateway, against a bare passthrough on uvicorn and aiohttp.

Each request has 16 texts, and each answer 16 vectors of 256 numbers. Passed through are base64 and
decimal numbers; translated are requests of OpenAI's form for Ollama, whose limit decodes and
encodes the same bodies. Load comes from ``wrk`` (Debian package wrk), 32 requests at once; the
processor time of the process in between is measured. The aims: 1.3 and 2 times the limit.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench_gateway import PARTS, measure_requests, running
from gateway_parts import EMBEDDED, find_port

PATH = "/v1/embeddings"
CARRIED_AIM, TRANSLATED_AIM = 1.3, 2.0
TEXTS = [f"Short text number {number}, about bridges." for number in range(EMBEDDED)]
_CONFIGURATION = """
[limits]
attempts = 1
[providers.openai_responses]
base_url = "http://127.0.0.1:{port}/v1"
api_key = "sk-x"
[providers.ollama]
base_url = "http://127.0.0.1:{port}"
"""


def main() -> None:
    """Prints the table."""
    if shutil.which("wrk") is None:
        raise SystemExit("This needs wrk: apt-get install wrk")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = find_port()
        (folder / "vibe.toml").write_text(_CONFIGURATION.format(port=upstream))
        parts = (sys.executable, str(PARTS))
        stack.enter_context(running(*parts, "upstream", str(upstream), port=upstream, home=folder))
        gateway = (sys.executable, "-m", "vibe_llms", "serve", "gateway", "--port")
        base64 = {"input": TEXTS, "encoding_format": "base64"}
        decimal = {"input": TEXTS}
        rows = (
            ("base64, passed through", "limit", "openai_responses:m", base64, CARRIED_AIM),
            ("decimal, passed through", "limit", "openai_responses:m", decimal, CARRIED_AIM),
            ("translated for Ollama", "limit-translating", "ollama:m", decimal, TRANSLATED_AIM),
        )
        print(f"{'':26}{'limit, ms':>10}{'ours, ms':>10}{'ratio':>8}{'aim':>6}")
        for name, limit, model, body, aim in rows:
            figures = []
            for command, asked in (((*parts, limit), "m"), (gateway, model)):
                port = find_port()
                rest = (str(upstream),) if command != gateway else ()
                with running(*command, str(port), *rest, port=port, home=folder) as process:
                    figures.append(
                        measure_requests(process, port, asked, folder, path=PATH, body=body)[0]
                    )
            bare, ours = figures
            met = "met" if ours / bare <= aim else "MISSED"
            print(f"{name:26}{bare:10.3f}{ours:10.3f}{ours / bare:8.2f}{aim:6} {met}")


if __name__ == "__main__":
    main()
