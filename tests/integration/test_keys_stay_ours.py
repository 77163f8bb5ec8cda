"""No program that we start can read a key of ours where the system shows what we began with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from support.screens.command_line import VIBE, produce_environment
from vibe_llms.foundation.child_environment import strip_keys

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux shows a process with what it began"
)

CANARY = "canary-5f3a77"
SHAPED = "sk-proj-0123456789abcdef0123"
SECRETS = {
    "OPENAI_API_KEY": CANARY,
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}/+=",
    "github_token": CANARY,
    "EMPTY_KEY": "",
    "HTTPS_PROXY": f"http://user:{CANARY}@127.0.0.1:9",
    "UNUSUAL": SHAPED,
}
_LOOK = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a -c -e {} -e {}; true"
LOOK = _LOOK.format("canary[-]5f3a77", "sk-proj[-]0123456789abcdef0123")
"""A command that counts the secrets in what all processes began with."""


def run(home: Path, *command: str, **variables: str) -> str:
    """Runs a program that begins with secrets; returns what it writes."""
    done = subprocess.run(
        command,
        env=produce_environment(home, **SECRETS, **variables),
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


def configure(home: Path, **settings: Any) -> None:
    file = home / ".config" / "vibe-llms" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(tomli_w.dumps(settings), encoding="utf-8")


def test_the_secrets_are_found_where_nobody_hides_them(tmp_path: Path) -> None:
    """A search that finds nothing would pass."""
    assert int(run(tmp_path, "sh", "-c", LOOK)) >= 5


@pytest.mark.slow
def test_a_command_of_a_model_finds_no_key(tmp_path: Path) -> None:
    """Neither with us nor with those between it and us."""
    shown = run(
        tmp_path,
        *VIBE,
        "tools",
        "call",
        "run_command",
        f"command={LOOK}",
        "-t",
        "shell",
        "--allow=all",
    )

    assert shown.split()[0] == "0", shown


_SERVER = f"""
import subprocess
from mcp.server.mcpserver import MCPServer
server = MCPServer("curious")
@server.tool()
def look() -> str:
    return "found " + subprocess.run(["sh", "-c", {LOOK!r}], capture_output=True, text=True).stdout
server.run()
"""


@pytest.mark.slow
def test_an_mcp_server_finds_no_key(tmp_path: Path) -> None:
    """Neither what it was not given."""
    server = {"command": sys.executable, "arguments": ["-c", _SERVER]}
    configure(tmp_path, mcp={"curious": server})

    shown = run(tmp_path, *VIBE, "tools", "call", "look", "--mcp", "curious", "--allow=all")

    assert shown.split()[:2] == ["found", "0"], shown


_OWN = """
import os, subprocess, sys
from vibe_llms.foundation.child_environment import conceal_keys, remember_key
conceal_keys()
conceal_keys()
own = open("/proc/self/environ").read()
print("OPENAI_API_KEY=*" in own, "PATH=/" in own, os.environ["STRANGE"] in own)
remember_key("STRANGE")
print(os.environ["STRANGE"] in open("/proc/self/environ").read())
print(*(os.environ[name] for name in sys.argv[1:]))
print(subprocess.run(["env"], capture_output=True, text=True).stdout)
"""


def test_keys_are_of_use_where_they_were_moved(tmp_path: Path) -> None:
    """To us, to libraries that ask the system, and to programs that shall have all we have."""
    names = [*SECRETS, "STRANGE"]

    shown = run(tmp_path, sys.executable, "-c", _OWN, *names, STRANGE="some thing")

    lines = shown.splitlines()
    assert lines[:2] == ["True True True", "False"]
    assert lines[2] == " ".join([*SECRETS.values(), "some thing"])
    assert {f"{name}={text}" for name, text in SECRETS.items()} <= set(lines[3:])


def test_a_server_of_models_gets_no_key_of_others() -> None:
    """But those with which it fetches models, and what else it needs."""
    ours = {**SECRETS, "PATH": "/bin", "HF_TOKEN": "mine", "HTTPS_PROXY": "http://u:p@host"}

    given = strip_keys(ours, {"HF_TOKEN"})

    assert given == {"PATH": "/bin", "HF_TOKEN": "mine", "HTTPS_PROXY": "http://u:p@host"}
