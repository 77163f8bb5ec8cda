"""The operator's routes refuse what makes no sense, with one line, and change nothing then."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.gateways.key_holders import create_key
from support.gateways.operated import OperatedGateway, operate
from vibe_llms.daemons.keys import register
from vibe_llms.daemons.keys.texts import extract_identity
from vibe_llms.testing.simulator import Say, Simulator

NAMELESS = (b"", b"{", b"\xff\xfe", b"[]", b"null", b'"x"', b"{}", b'{"name": NaN}', b"[" * 100_000)
LIMITS = (
    *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "-1", "1.5", "1.0", "true", '"5"'),
    *("9007199254740993", "1" + "0" * 5000, "[]", "{}", "0x10"),
)
NAMES = (
    "",
    "   ",
    "a\nb",
    "a\rb",
    "a\x00b",
    "a\x1b[31mb",
    "\u202eb",
    "a\u2028b",
    "x" * 201,
    5,
    None,
    [],
)
EXPIRIES = (
    *("", "soon", "0001-01-01", "10000-01-01", "2030-02-30", "-1d", "0d", "999999w", "٣d", "1d1d"),
    *("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "x" * 100_000, 5, [], True),
)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A vendor."""
    async with Simulator() as simulator:
        yield simulator


@pytest.fixture
async def gateway(tmp_path: Path, simulator: Simulator) -> AsyncIterator[OperatedGateway]:
    """A gateway without tables."""
    async with operate(tmp_path, simulator.url) as gateway:
        yield gateway


async def send(
    gateway: OperatedGateway, method: str, path: str, body: bytes, **headers: str
) -> tuple[int, Any]:
    """Send the operator's request with a raw body; return the status and the body."""
    headers = {
        "Authorization": f"Bearer {gateway.key}",
        "Content-Type": "application/json",
        **headers,
    }
    url = gateway.url + path
    async with gateway.session.request(method, url, data=body, headers=headers) as answer:
        return answer.status, json.loads(await answer.read())


async def test_no_body_without_sense_changes_anything(gateway: OperatedGateway) -> None:
    """Each gets an error of the client in one short line."""
    ada = extract_identity(create_key(gateway.keys, "ada", cents_per_day=5))
    before = (gateway.keys / "keys.toml").read_bytes()
    bodies: list[tuple[str, str, bytes]] = [("POST", "", body) for body in NAMELESS]
    bodies += [("PATCH", f"/{ada}", body) for body in (*NAMELESS, b'{"cents": 1}', b'{"id": "x"}')]
    for name in ("requests_per_minute", "tokens_per_minute", "cents_per_day"):
        for value in (*LIMITS, *([] if name == "cents_per_day" else ["0"])):
            bodies.append(("PATCH", f"/{ada}", f'{{"{name}": {value}}}'.encode()))
    bodies += [("POST", "", json.dumps({"name": name}).encode()) for name in NAMES]
    for expiry in EXPIRIES:
        bodies.append(("POST", "", json.dumps({"name": "x", "expires": expiry}).encode()))
        bodies.append(("PATCH", f"/{ada}", json.dumps({"expires": expiry}).encode()))
    for models in ("gpt", [""], [5], ["x"] * 101, ["x" * 301], {"x": 1}):
        bodies.append(("PATCH", f"/{ada}", json.dumps({"models": models}).encode()))
    for method, path, body in bodies:
        status, answer = await send(gateway, method, f"/operate/keys{path}", body)
        message = answer["error"]["message"]
        assert status == 400, (method, path, body[:100], status, message)
        assert 0 < len(message) < 500, (body[:100], message)
        assert "\n" not in message, (body[:100], message)
    assert (gateway.keys / "keys.toml").read_bytes() == before


async def test_methods_types_and_paths_that_do_not_exist_are_refused(
    gateway: OperatedGateway,
) -> None:
    own = extract_identity(gateway.key)
    before = (gateway.keys / "keys.toml").read_bytes()
    for method, path in (
        *(("PUT", ""), ("DELETE", ""), ("PATCH", ""), ("GET", f"/{own}"), ("DELETE", f"/{own}")),
        *(("GET", f"/{own}/revoke"), ("DELETE", f"/{own}/revoke")),
    ):
        status, answer = await send(gateway, method, f"/operate/keys{path}", b'{"name": "x"}')
        assert (status, bool(answer["error"]["message"])) == (405, True), (method, path)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        status, _ = await send(
            gateway, "POST", "/operate/keys", b'{"name": "x"}', **{"Content-Type": kind}
        )
        assert status == 415, kind
    status, _ = await send(
        gateway, "POST", "/operate/keys", b'{"name": "x"}', **{"Content-Encoding": "gzip"}
    )
    assert status == 415
    for name in ("root", "a\nb", "\x00", "../x", "x" * 5000, gateway.key, "é", "\ud800"):
        part = quote(name.encode("utf-8", "surrogatepass"), safe="")
        for method, path, body in (
            ("PATCH", f"/operate/keys/{part}", b'{"cents_per_day": 1}'),
            ("POST", f"/operate/keys/{part}/revoke", b"{}"),
        ):
            status, answer = await send(gateway, method, path, body)
            assert status in (400, 404), (name[:50], status)
            assert len(answer["error"]["message"]) < 500
    assert (gateway.keys / "keys.toml").read_bytes() == before


async def test_names_of_any_letters_and_dates_far_away_are_kept(
    gateway: OperatedGateway, simulator: Simulator
) -> None:
    for name, expires in (
        ("<img src=x onerror=alert(1)>", "9999-12-31"),
        ("'; DROP TABLE keys; --", "9999-12-31T23:59:59Z"),
        ('"""\\"[keys]', None),
        ("💥" * 200, "2999-01-01T00:00:00+14:00"),
    ):
        status, created = await gateway.ask(
            "POST", "/operate/keys", {"name": name, "expires": expires, "models": ["*\n\x00]"]}
        )
        assert (status, created["description"]["name"]) == (201, name)
        path = f"/operate/keys/{created['description']['id']}"
        status, limited = await gateway.ask("PATCH", path, {"cents_per_day": 2**53, "models": None})
        assert (status, limited["cents_per_day"], limited["name"]) == (200, 2**53, name)
        simulator.enqueue(Say("The North Sea."))
        assert (await gateway.converse(created["key"], max_completion_tokens=9))[0] == 200
    _, listed = await gateway.ask("GET", "/operate/keys")
    assert len(listed["data"]) == 5


async def test_operators_at_the_same_time_lose_nothing(gateway: OperatedGateway) -> None:
    """One name is given once, and each limit that was set is set."""
    ada = extract_identity(create_key(gateway.keys, "ada"))
    limits = {"cents_per_day": 1, "requests_per_minute": 2, "tokens_per_minute": 3}
    answers = await asyncio.gather(
        *(gateway.ask("POST", "/operate/keys", {"name": "same"}) for _ in range(8)),
        *(gateway.ask("POST", "/operate/keys", {"name": f"key {n}"}) for n in range(8)),
        *(
            gateway.ask("PATCH", f"/operate/keys/{ada}", {name: value})
            for name, value in limits.items()
        ),
    )
    statuses = [status for status, _ in answers]
    assert sorted(statuses[:8]) == [201] + [400] * 7
    assert statuses[8:] == [201] * 8 + [200] * 3
    _, listed = await gateway.ask("GET", "/operate/keys")
    names = [each["name"] for each in listed["data"]]
    assert sorted(names) == sorted(["root", "ada", "same", *(f"key {n}" for n in range(8))])
    changed = next(each for each in listed["data"] if each["name"] == "ada")
    assert {name: changed[name] for name in limits} == limits


async def test_files_that_cannot_be_written_are_named(
    gateway: OperatedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stay as they are; keys are listed, and clients admitted."""
    ada = extract_identity(create_key(gateway.keys, "ada"))
    file = gateway.keys / "keys.toml"
    before = file.read_bytes()
    requests: tuple[tuple[str, str, object], ...] = (
        ("POST", "/operate/keys", {"name": "bob"}),
        ("PATCH", f"/operate/keys/{ada}", {"cents_per_day": 1}),
        ("POST", f"/operate/keys/{ada}/revoke", {}),
    )

    def fail(*_: object, **more: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(file))

    with monkeypatch.context() as patching:
        patching.setattr(register, "replace_file", fail)
        for method, path, body in requests:
            status, answer = await gateway.ask(method, path, body)
            assert status == 500
            assert "Read-only file system" in answer["error"]["message"]
    file.chmod(0o400)
    for method, path, body in requests:
        status, answer = await gateway.ask(method, path, body)
        assert status == 500
        assert "chmod u+w" in answer["error"]["message"]
    assert file.read_bytes() == before
    assert len((await gateway.ask("GET", "/operate/keys"))[1]["data"]) == 2


async def test_an_edit_by_hand_holds_at_once_and_a_broken_one_changes_nothing(
    gateway: OperatedGateway,
) -> None:
    create_key(gateway.keys, "ada")
    file = gateway.keys / "keys.toml"
    before = file.read_text()
    for broken in (
        before + "[",
        before.replace("operator = true", "operator = 1"),
        before + "cents_per_day = 99999999999999999999\n",
        before + "cents_per_day = 1" + "0" * 5000 + "\n",
        before + "expires = 9999-12-31T23:59:59-12:00\n",
    ):
        file.write_text(broken)
        status, answer = await gateway.ask("POST", "/operate/keys", {"name": "bob"})
        assert status == 500, broken[-50:]
        assert "keys.toml" in answer["error"]["message"]
        assert file.read_text() == broken
    file.write_text(before.replace("operator = true", "operator = false"))
    assert (await gateway.ask("GET", "/operate/keys"))[0] == 403
    file.write_text(before + "cents_per_day = 7\n")
    _, listed = await gateway.ask("GET", "/operate/keys")
    assert [each["cents_per_day"] for each in listed["data"]] == [None, 7]
