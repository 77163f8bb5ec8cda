"""The gateway against the limit, a bare passthrough on uvicorn and aiohttp, in the same run.

Load comes from outside the process: ``wrk`` (Debian package wrk) for whole answers, 32 at once, and
a generator of streams. The processor time of the process in between is measured. With a raw
gateway's path in ``RAW_GATEWAY``, or that of LiteLLM's command in ``LITELLM``, those are measured
too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from gateway_parts import find_port

PARTS = Path(__file__).with_name("gateway_parts.py")
CHAT = "/v1/chat/completions"
SECONDS = int(os.environ.get("SECONDS_EACH", "4"))
AT_ONCE = 32
_BRIEF = [{"role": "user", "content": "brief"}]
STREAMS = 2_000
_CONFIGURATION = """
[limits]
attempts = 1
[providers.openai_conversations]
base_url = "http://127.0.0.1:{port}/v1"
api_key = "sk-x"
[providers.anthropic]
base_url = "http://127.0.0.1:{port}"
api_key = "sk-x"
"""


_PEER = """
model_list:
  - model_name: chat
    litellm_params: {{model: openai/m, api_base: "http://127.0.0.1:{port}/v1", api_key: sk-x}}
  - model_name: messages
    litellm_params: {{model: anthropic/m, api_base: "http://127.0.0.1:{port}", api_key: sk-x}}
"""


@contextmanager
def running(*command: str, port: int, home: Path) -> Iterator[psutil.Process]:
    """Runs a server until it has been measured."""
    environment = {
        **os.environ,
        "HOME": str(home),
        "VIBE_LLMS_CONFIG": str(home / "vibe.toml"),
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1_200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.05)
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def measure_requests(
    process: psutil.Process,
    port: int,
    model: str,
    folder: Path,
    *,
    path: str = CHAT,
    body: dict[str, Any] | None = None,
) -> tuple[float, float]:
    """Returns milliseconds of processor time a request, and requests a second.

    Args:
        body: Without its model; by default a short question.
    """
    question = {"messages": [{"role": "user", "content": "Name a sea, please."}]}
    body = {"model": model, **(body or question)}
    script = folder / "post.lua"
    script.write_text(
        f"wrk.method='POST'\nwrk.body='{json.dumps(body)}'\n"
        "wrk.headers['content-type']='application/json'\n"
        "done=function(s,l,r) io.write(string.format('DONE %d %d\\n', s.requests, "
        "s.errors.status+s.errors.read+s.errors.connect)) end\n"
    )
    command = ["wrk", "-t1", f"-c{AT_ONCE}", "-s", str(script), f"http://127.0.0.1:{port}{path}"]
    subprocess.run([*command, "-d1s"], capture_output=True, check=True)
    before, started = sum(process.cpu_times()[:2]), time.perf_counter()
    told = subprocess.run([*command, f"-d{SECONDS}s"], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    spent = sum(process.cpu_times()[:2]) - before
    count, errors = map(int, told.stdout.partition("DONE ")[2].split()[:2])
    assert not errors, f"{errors} of {count} failed"
    return spent / count * 1_000, count / seconds


def measure_chunks(process: psutil.Process, port: int, model: str, paced: bool) -> float:
    """Returns microseconds of processor time a chunk."""
    body = json.dumps(
        {
            "model": model,
            "stream": True,
            "messages": [{"role": "user", "content": "paced" if paced else "at once"}],
        },
        separators=(",", ":"),
    )
    command = [sys.executable, str(PARTS), "load", str(port), CHAT, body, str(AT_ONCE)]
    subprocess.run([*command, "1"], check=True, capture_output=True)
    before = sum(process.cpu_times()[:2])
    rounds = "3" if paced else "12"
    told = subprocess.run([*command, rounds], check=True, capture_output=True, text=True)
    spent = sum(process.cpu_times()[:2]) - before
    figures = json.loads(told.stdout)
    return float(spent / figures["events"] * 1e6)


def measure_firsts(ways: dict[str, tuple[int, str]]) -> None:
    """Prints the time to the first chunk of each way, all of which are asked in turn."""
    asked = {
        name: (port, json.dumps({"model": model, "stream": True, "messages": _BRIEF}))
        for name, (port, model) in ways.items()
    }
    command = [sys.executable, str(PARTS), "firsts", CHAT, json.dumps(asked), str(AT_ONCE)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    print(f"\n{'':16} first chunk, ms: median    p99  times the limit's")
    figures = json.loads(told.stdout)
    for name, (median, slow) in figures.items():
        bare = figures["limit, decoding" if name == "translate" else "limit"]
        print(
            f"{name:16} {median * 1e3:24.2f} {slow * 1e3:6.2f} "
            f"{median / bare[0]:12.2f} {slow / bare[1]:5.2f}"
        )


def measure_streams(process: psutil.Process, port: int, model: str) -> float:
    """Returns KiB of memory an open stream that is slow."""
    messages = [{"role": "user", "content": "slow"}]
    asked = {"model": model, "stream": True, "messages": messages}
    body = json.dumps(asked, separators=(",", ":"))
    before = process.memory_info().rss
    command = [sys.executable, str(PARTS), "hold", str(port), CHAT, body, str(STREAMS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"begun\n"
        after = process.memory_info().rss
        assert holding.stdin is not None
        holding.stdin.close()
    return (after - before) / STREAMS / 1_024


def main() -> None:
    """Measures all of them, and prints the table."""
    if shutil.which("wrk") is None:
        raise SystemExit("This wants wrk: apt-get install wrk")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = find_port()
        told = _CONFIGURATION.format(port=upstream)
        (folder / "vibe.toml").write_text(told)
        traced = folder / "traced.toml"
        traced.write_text(f"{told}[telemetry]\nopentelemetry = true\n")
        parts = (sys.executable, str(PARTS))
        stack.enter_context(running(*parts, "upstream", str(upstream), port=upstream, home=folder))
        gateway = (sys.executable, "-m", "vibe_llms", "serve", "gateway", "--port")
        limit, spans = str(upstream), str(traced)
        ways: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
            "limit": ((*parts, "limit"), "m", (limit,)),
            "limit, decoding": ((*parts, "limit-translating"), "m", (limit,)),
            "passthrough": (gateway, "openai_conversations:m", ()),
            "translate": (gateway, "anthropic:m", ()),
            "passthrough, spans": ((*parts, "traced"), "openai_conversations:m", (spans,)),
            "translate, spans": ((*parts, "traced"), "anthropic:m", (spans,)),
        }
        if peer := os.environ.get("LITELLM"):
            file = folder / "litellm.yaml"
            file.write_text(_PEER.format(port=upstream))
            command = (peer, "--config", str(file), "--telemetry", "False", "--port")
            ways["litellm, carry"] = (command, "chat", ())
            ways["litellm, transl."] = (command, "messages", ())
        if raw := os.environ.get("RAW_GATEWAY"):
            command = (sys.executable, raw, "--upstream", f"127.0.0.1:{upstream}", "--port")
            ways["raw"] = (command, "m", ())
        print(
            f"{'':16} ms/request requests/s us/chunk  paced   MB  KiB/stream"
            "  MB after as many requests again"
        )
        for name, (command, model, rest) in ways.items():
            port = find_port()
            with running(*command, str(port), *rest, port=port, home=folder) as process:
                cpu, rate = measure_requests(process, port, model, folder)
                chunk = measure_chunks(process, port, model, paced=False)
                slow = measure_chunks(process, port, model, paced=True)
                megabytes = process.memory_info().rss / 1e6
                again = megabytes
                if command == gateway:
                    measure_requests(process, port, model, folder)
                    again = process.memory_info().rss / 1e6
                is_peer = name.startswith("litellm")  # it takes minutes to begin so many
                kibibytes = 0.0 if is_peer else measure_streams(process, port, model)
            print(
                f"{name:16} {cpu:10.3f} {rate:10.0f} {chunk:8.1f} {slow:6.1f} "
                f"{megabytes:4.0f} {kibibytes:10.1f} {again:10.0f}",
                flush=True,
            )
        asked = {}
        for name in ("limit", "limit, decoding", "passthrough", "translate"):
            command, model, rest = ways[name]
            port = find_port()
            stack.enter_context(running(*command, str(port), *rest, port=port, home=folder))
            asked[name] = (port, model)
        measure_firsts(asked)


if __name__ == "__main__":
    main()
