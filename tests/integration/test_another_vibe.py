"""One vibe-llms asks another over a socket: from the command line, and for the embedded model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from support.gateways.remote_gateways import RemoteGateway, open_remote_world
from support.screens.command_line import VIBE, produce_environment
from vibe_llms.application import Application
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings
from vibe_llms.exceptions import TransportError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request


@pytest.fixture(scope="module")
def far() -> Iterator[RemoteGateway]:
    """A far side with scripts for models."""
    with RemoteGateway({"model": "scripted:echo"}).run_in_thread() as running:
        yield running


def run_vibe(home: Path, far: RemoteGateway, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Performs ``vibe`` as somebody who has configured the far side."""
    file = home / "config.toml"
    file.write_text(f'[providers.remote]\nbase_url = "{far.url}"\n', encoding="utf-8")
    return subprocess.run(
        [*VIBE, *arguments],
        env=produce_environment(home, VIBE_LLMS_CONFIG=str(file)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--no-stream",)])
@pytest.mark.parametrize("address", ["remote", "remote:scripted:echo"])
def test_a_model_of_the_far_side_answers(
    tmp_path: Path, far: RemoteGateway, address: str, arguments: tuple[str, ...]
) -> None:
    """By its address there, or as the far side's default."""
    outcome = run_vibe(tmp_path, far, "ask", "-m", address, *arguments, "Hello over there.")

    assert (outcome.returncode, outcome.stdout) == (0, "Hello over there.\n"), outcome.stderr


@pytest.mark.slow
def test_it_is_among_the_providers_and_its_models_are_listed(
    tmp_path: Path, far: RemoteGateway
) -> None:
    """As those of any vendor that tells of its models."""
    providers = run_vibe(tmp_path, far, "providers")
    listed = run_vibe(tmp_path, far, "models", "list", "--provider", "remote", "--refresh")

    (row,) = [line for line in providers.stdout.splitlines() if line.startswith("remote")]
    assert "ready" in row
    assert "remote:scripted:demo" in listed.stdout, listed.stderr


@pytest.mark.slow
def test_what_is_known_of_a_model_says_where_from(tmp_path: Path, far: RemoteGateway) -> None:
    """When the far side is asked; nobody asks it unbidden."""
    asked = len(far.records)
    silent = run_vibe(tmp_path, far, "models", "show", "remote:scripted:echo", "--json")
    assert len(far.records) == asked
    shown = run_vibe(tmp_path, far, "models", "show", "remote:scripted:echo", "--refresh", "--json")

    assert silent.returncode == 0, silent.stderr
    rows = {row["key"]: row for row in json.loads(shown.stdout)["attributes"]}
    assert rows["supports_images"]["value"] == "yes"
    assert rows["supports_images"]["source"] == "the scripted provider of this package"
    assert rows["supports_images"]["layer"] == "vendor (remote: default)"
    assert rows["temperature"]["value"] == {"kind": "interval", "minimum": 0, "maximum": 2}


@pytest.mark.slow
def test_a_mistake_costs_one_line_and_the_same_exit_code(
    tmp_path: Path, far: RemoteGateway
) -> None:
    """As it would if it had been made here."""
    outcome = run_vibe(tmp_path, far, "ask", "-m", "remote:scripted:nope", "Hi.")
    here = run_vibe(tmp_path, far, "ask", "-m", "scripted:nope", "Hi.")

    assert outcome.stderr == here.stderr
    assert outcome.returncode == here.returncode != 0


async def test_both_sides_prove_who_they_are(tmp_path: Path) -> None:
    """Mutual TLS, by files that both are told of; who has no certificate does not come in."""
    authority = trustme.CA()
    files = {name: tmp_path / f"{name}.pem" for name in ("authority", "server", "client")}
    authority.cert_pem.write_to_path(files["authority"])
    for name, host in (("server", "localhost"), ("client", "laptop")):
        issued = authority.issue_cert(host)
        issued.private_key_and_cert_chain_pem.write_to_path(files[name])
    service = produce_service(Application.load(command_line={"model": "scripted:echo"}))
    settings = ServerSettings(
        port=0, certificate=files["server"], client_authorities=files["authority"]
    )
    told = {
        "certificate_authorities": str(files["authority"]),
        "client_certificate": str(files["client"]),
        "client_key": str(files["client"]),
    }
    async with Server(service, settings) as server:
        url = server.urls[0].replace("127.0.0.1", "localhost")
        with_it = {"base_url": url, **told}
        application = Application.load(command_line={"providers": {"remote": with_it}})
        model = await application.access_model("remote")
        response = await model.converse(Request(canisters=[UserCanister("Hello.")]))
        await application.close()
        without = {"base_url": url, "certificate_authorities": told["certificate_authorities"]}
        application = Application.load(command_line={"providers": {"remote": without}})
        with pytest.raises(TransportError):
            await application.access_model("remote")
        await application.close()

    assert url.startswith("https")
    assert response.text == "Hello."


@pytest.mark.slow
@pytest.mark.weights
async def test_the_embedded_model_answers_as_it_does_here(weights: Path, tmp_path: Path) -> None:
    """The same words, streamed and whole, with what it used; and the same count beforehand."""
    far = RemoteGateway({"providers": {"local": {"path": str(weights)}}})
    request = Request(
        canisters=[UserCanister("Name a colour.")], controls={"temperature": 0, "max_tokens": 12}
    )
    async with open_remote_world(tmp_path, far, model="local:smollm2") as world:
        streamed = await world.ask(request)
        whole = await world.ask(request, stream=False)
        count = await world.model.tokenizer.count_request(request, world.model.descriptor)
        model = await far.application.access_model("local:smollm2")
        there = await model.converse(request)

    assert streamed.text == whole.text == there.text
    for response in (streamed, whole):
        assert response.metadata.origin.provider == "local"
        assert response.usage is not None
        assert response.usage.total_input_tokens == count.tokens
    assert count.error_tokens == 0
