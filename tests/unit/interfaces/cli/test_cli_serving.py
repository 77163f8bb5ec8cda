"""``vibe serve`` refuses before it listens what could never be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from vibe_llms.application import Application
from vibe_llms.daemons.agents.refusing import describe_gateway
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.gateway.settings import GatewaySettings
from vibe_llms.daemons.server import override
from vibe_llms.daemons.tools.settings import ToolsSettings
from vibe_llms.interfaces.cli.commands.serve import gateway

Vibe = Callable[..., Any]


@pytest.mark.parametrize("address", ["foo", "ftp://x", "http://", "http://me:secret@"])
def test_a_gateway_that_is_no_address_is_refused(vibe: Vibe, address: str) -> None:
    """Each run would wait for it, and fail. (The runner ends it where the gateway does not.)"""
    outcome = vibe("serve", "agents", "--gateway", address, "--runner", "none")
    assert outcome.code == 3
    assert "gateway: " in outcome.err
    assert "gateway address" in outcome.err
    assert "secret" not in outcome.err


def test_each_daemon_has_a_port_of_its_own(vibe: Vibe) -> None:
    """All three run on one machine, and each help text says what its settings say."""
    ports = [
        settings().server.port for settings in (GatewaySettings, AgentsSettings, ToolsSettings)
    ]
    assert len(set(ports)) == 3
    for name, port in zip(("gateway", "agents", "tools"), ports, strict=True):
        assert f"[default: {port}]" in vibe("serve", name, "--help").out


@pytest.mark.parametrize(
    "settings", [GatewaySettings, AgentsSettings, ToolsSettings], ids=lambda each: each.__name__
)
def test_a_port_stays_its_own_whatever_else_is_said(settings: Any) -> None:
    server = settings().server
    assert override(server, {"workers": 2}) == attrs.evolve(server, workers=2)
    said = attrs.evolve(server, port=8000)
    assert override(said, {"workers": None}).port == 8000


def test_the_agents_daemon_says_which_gateway_it_asks() -> None:
    """Or that it knows none: runs would fail of it one by one."""
    for settings, told in (
        ({}, "no gateway is set"),
        ({"base_url": "https://me:secret@tower:1/x"}, "asked through https://tower:1"),
    ):
        application = Application.load(command_line={"providers": {"remote": settings}})
        shown = describe_gateway(application.plugins)
        assert told in shown
        assert "secret" not in shown


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "0"),
        ("--host", "localhost"),
        ("--workers", "2"),
        ("--insecure",),
        ("--log",),
        ("--authorizer", "keys"),
    ],
    ids=" ".join,
)
def test_pipes_have_no_port(vibe: Vibe, words: tuple[str, ...]) -> None:
    """What would be ignored is refused, in one line."""
    outcome = vibe("serve", "tools", "--stdio", *words)
    assert outcome.code == 2
    assert f"{words[0]} is for HTTP" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ("gateway", "--authorizer"),
        ("gateway", "--model"),
        ("agents", "--authorizer"),
        ("agents", "--gateway"),
        ("agents", "--runner"),
        ("tools", "--authorizer"),
        ("tools", "--tools"),
        ("tools", "--mcp"),
        ("tools", "--allow"),
        ("tools", "--approver"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("value", ["", " "])
def test_a_text_that_is_empty_is_no_wish(vibe: Vibe, words: tuple[str, ...], value: str) -> None:
    """A variable that is not set opens no door. (``--insecure`` ends it where this does not.)"""
    outcome = vibe("serve", *words, value, "--host", "0.0.0.0")
    assert outcome.code == 2
    assert f"Invalid value for '{words[1]}'" in outcome.err.replace("'-m' / ", "").replace(
        " / '-t'", ""
    )
    assert "The value is empty" in outcome.err


def test_a_model_that_leads_nowhere_is_a_mistake_before_anybody_asks(vibe: Vibe) -> None:
    outcome = vibe("serve", "gateway", "--model", "nope", "--host", "0.0.0.0")
    assert outcome.code not in (0, 3)
    assert "'nope'" in outcome.err


def test_all_that_is_wrong_with_a_file_is_told_at_once(vibe: Vibe, tmp_path: Path) -> None:
    """Also what its models are, of which the configuration knows nothing."""
    file = tmp_path / "gateway.toml"
    file.write_text('[server]\nport = "x"\n[models.a]\ntargets = ["nope:x"]\n')
    outcome = vibe("serve", "gateway", "--config", str(file))
    assert outcome.code == 3
    assert "server.port" in outcome.err
    assert "models.a.targets" in outcome.err


def test_a_model_for_whoever_names_none_is_refused_where_everybody_names_one(
    vibe: Vibe, tmp_path: Path
) -> None:
    """It would be passed over. (``--workers 0`` ends it where this does not.)"""
    file = tmp_path / "gateway.toml"
    file.write_text('[models.a]\ntargets = ["scripted:echo"]\n')
    outcome = vibe("serve", "gateway", "--config", str(file), "--model", "a", "--workers", "0")
    assert outcome.code == 2
    assert "Remove --model" in outcome.err


def test_no_more_workers_than_any_machine_has(vibe: Vibe) -> None:
    outcome = vibe("serve", "gateway", "--workers", "100000")
    assert outcome.code == 3
    assert "server.workers: It must be a whole number from 1 to 1024" in outcome.err


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_a_grace_that_never_ends_is_refused(vibe: Vibe, seconds: str) -> None:
    outcome = vibe("worker", "--runner", "none", "--grace", seconds)
    assert outcome.code == 2
    assert "Invalid value for '--grace'" in outcome.err


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 403), (("--config", "hosts.toml"), 200), (("--host", "0.0.0.0", "--insecure"), 200)],
    ids=repr,
)
def test_a_gateway_for_this_machine_is_reached_by_names_of_this_machine(
    vibe: Vibe,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    status: int,
) -> None:
    """And by those of its file; one that listens wider, by whatever leads there."""
    served: list[Any] = []
    monkeypatch.setattr(gateway, "serve", lambda produce, *rest, **more: served.append(produce))
    monkeypatch.chdir(tmp_path)
    text = 'hosts = ["gate.example"]\n[models.a]\ntargets = ["scripted:a"]\n'
    Path("hosts.toml").write_text(text)
    assert vibe("serve", "gateway", *words).code == 0
    (produce,) = served
    assert asyncio.run(_ask(produce(), "gate.example")) == status


async def _ask(service: Any, host: str) -> int:
    """Returns the status with which an application answers for its models."""
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    path = "/v1/models"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
    }
    await service(scope, receive, send)
    return int(said[0]["status"])


@pytest.mark.parametrize(
    ("words", "lacking"),
    [
        ((), ()),
        (("--model", "anthropic:x"), ("anthropic",)),
        (("--config", "targets.toml"), ("anthropic", "groq")),
    ],
    ids=repr,
)
def test_what_is_named_and_cannot_be_asked_is_told_before_anybody_asks(
    vibe: Vibe,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    lacking: tuple[str, ...],
) -> None:
    """It serves nevertheless, as there may be others; but clients are told of no key of ours."""
    monkeypatch.setattr(gateway, "serve", lambda *rest, **more: None)
    monkeypatch.chdir(tmp_path)
    targets = '["anthropic:a", "groq:b", "scripted:c"]'
    Path("targets.toml").write_text(f"[models.a]\ntargets = {targets}\n")
    outcome = vibe("serve", "gateway", *words)
    assert outcome.code == 0
    told = [line for line in outcome.err.splitlines() if line.startswith("Cannot use ")]
    assert len(told) == len(lacking)
    for name, line in zip(lacking, told, strict=True):
        assert f"The key for {name} is missing." in line


def test_a_page_needs_keys_and_its_address_is_said(
    vibe: Vibe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would be open to everybody otherwise. (``serve`` is not reached where this does not.)"""
    monkeypatch.setattr(
        gateway, "serve", lambda *rest, **more: more["on_ready"](["http://127.0.0.1:8000"])
    )
    file = tmp_path / "gateway.toml"
    file.write_text("page = true\n")
    refused = vibe("serve", "gateway", "--config", str(file))
    assert refused.code == 2
    assert "--authorizer keys" in refused.err
    assert "vibe keys add NAME --operator" in refused.err
    served = vibe("serve", "gateway", "--config", str(file), "--authorizer", "keys")
    assert served.code == 0
    assert "page: http://127.0.0.1:8000/page/" in served.err
