"""Many runs wait for an approval of a tool of one MCP server, and all are answered at once.

The agents daemon before a gateway before an upstream, each a process; the server is made with the
official package, and is a child of the daemon or a server over HTTP. Figures: seconds from the
first answer until all runs have called the tool, and until all have ended; processor time of the
daemon; processes that it has then. RUNS says how many runs there are.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench_agents import judge, post, produce_environment, running, spend
from gateway_parts import find_port
from loopback import run_server

RUNS = int(os.environ.get("RUNS", "50"))
AIM_SECONDS = 1.0
ANSWERING = 8
"""Number of clients that answer."""

_GATEWAY = """
[limits]
attempts = 1
[providers.openai_conversations]
base_url = "{url}/calls/v1"
api_key = "sk-x"
"""
_SERVER = '''
import logging
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("near")


@server.tool()
def look(at: str) -> str:
    """Look."""
    return "It rains."


if len(sys.argv) > 1:
    logging.disable(logging.CRITICAL)
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
'''


@contextmanager
def serve_tools(file: Path, kind: str, environment: dict[str, str]) -> Iterator[str]:
    """Yield the configuration of the server."""
    if kind == "HTTP":
        port = find_port()
        with running(str(file), str(port), environment=environment, port=port):
            yield f'[mcp.near]\nurl = "http://127.0.0.1:{port}/mcp"\n'
        return
    command = f"command = {json.dumps(sys.executable)}\narguments = [{json.dumps(str(file))}]\n"
    protocol = 'protocol = "2025-11-25"\n' if kind == "a program, with sessions" else ""
    yield f"[mcp.near]\n{command}{protocol}"


def read_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.loads(answer.read())


def wait_for_states(agents: str, *wanted: str) -> None:
    """Wait until all runs are in one of some states."""
    while True:
        states = Counter(each["state"] for each in read_json(f"{agents}/runs?limit=500")["data"])
        if sum(states[each] for each in wanted) == RUNS:
            return
        time.sleep(0.05)


def wait_for_calls(agents: str, ids: list[str]) -> None:
    """Wait until all runs have called the tool."""
    for run_id in ids:
        with urllib.request.urlopen(f"{agents}/runs/{run_id}/events", timeout=60) as events:
            for line in events:
                if line in (b"event: invocation.started\n", b"event: run.completed\n"):
                    break


def measure(kind: str, agents: str, process: Any) -> None:
    """Print the figures of one kind of server."""
    body = {"model": "remote:openai_conversations:m", "input": "Look.", "ensembles": ["near"]}
    started = time.perf_counter()
    ids = [post(f"{agents}/runs", body)["id"] for _ in range(RUNS)]
    wait_for_states(agents, "waiting")
    begun = time.perf_counter() - started
    asked = [(each, read_json(f"{agents}/runs/{each}/approvals")["data"][0]) for each in ids]

    def answer(what: tuple[str, Any]) -> None:
        run_id, said = what
        answer = {"decision": "allow", "digest": said["request"]["digest"], "key": said["key"]}
        post(f"{agents}/runs/{run_id}/approvals", answer)

    before, started = spend([process]), time.perf_counter()
    with ThreadPoolExecutor(ANSWERING) as pool:
        list(pool.map(answer, asked))
    answered = time.perf_counter() - started
    wait_for_calls(agents, ids)
    called = time.perf_counter() - started
    wait_for_states(agents, "ended")
    ended = time.perf_counter() - started
    children = len(process.children(recursive=True))
    print(
        f"{kind:26}: {RUNS} runs wait after {begun:.1f} s; answered in {answered:.2f} s, called in "
        f"{called:.2f} s, ended in {ended:.2f} s ({judge(ended, AIM_SECONDS)}); "
        f"{spend([process]) - before:.2f} s of processor, {children} processes, "
        f"{process.memory_info().rss / 1e6:.0f} MB",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    serve = ("-m", "vibe_llms", "serve")
    kinds = ("a program", "a program, with sessions", "HTTP")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "server.py"
        file.write_text(_SERVER)
        url = stack.enter_context(run_server())
        environment = produce_environment(folder / "gateway", _GATEWAY.format(url=url))
        gateway = find_port()
        command = (*serve, "gateway", "--port", str(gateway))
        stack.enter_context(running(*command, environment=environment, port=gateway))
        for number, kind in enumerate(kinds):
            with serve_tools(file, kind, environment) as configuration:
                own = produce_environment(folder / str(number), configuration)
                port = find_port()
                address = f"http://127.0.0.1:{gateway}"
                command = (*serve, "agents", "--port", str(port), "--gateway", address)
                with running(*command, environment=own, port=port) as process:
                    measure(kind, f"http://127.0.0.1:{port}", process)


if __name__ == "__main__":
    main()
