"""Other gateways and proxies, as commands, and how each is asked.

None is a dependency. Those that are not installed are left out::

    apt-get install nginx-light
    python -m venv /tmp/peers && /tmp/peers/bin/pip install "litellm[proxy]"
    npm install --prefix /tmp/portkey @portkey-ai/gateway
    LITELLM=/tmp/peers/bin/litellm PORTKEY=/tmp/portkey python tests/benchmarks/run.py gateways
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

PARTS = Path(__file__).with_name("gateway_parts.py")
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
_CARRIED, _TRANSLATED, _MESSAGES = "carried", "translated", "messages"
KINDS = (_CARRIED, _TRANSLATED, _MESSAGES)
"""Chat Completions as they are; as Messages; Messages as they are."""

_NGINX = """
daemon off;
master_process off;
pid {home}/nginx.pid;
error_log {home}/nginx.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_buffer_size 2m;
  client_body_temp_path {home}/nginx-bodies;
  proxy_temp_path {home}/nginx-answers;
  fastcgi_temp_path {home}/nginx-f;
  uwsgi_temp_path {home}/nginx-u;
  scgi_temp_path {home}/nginx-s;
  keepalive_requests 100000000;
  upstream vendor {{
    server 127.0.0.1:{upstream};
    keepalive 256;
    keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://vendor;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer sk-x";
    }}
  }}
}}
"""

_VIBE = """
[limits]
attempts = 1
[providers.openai_conversations]
base_url = "http://127.0.0.1:{upstream}/v1"
api_key = "sk-x"
[providers.anthropic]
base_url = "http://127.0.0.1:{upstream}"
api_key = "sk-x"
"""

_LITELLM = """
model_list:
  - model_name: chat
    litellm_params: {{model: openai/m, api_base: "http://127.0.0.1:{upstream}/v1", api_key: sk-x}}
  - model_name: messages
    litellm_params: {{model: anthropic/m, api_base: "http://127.0.0.1:{upstream}", api_key: sk-x}}
"""


@attrs.frozen(kw_only=True)
class Gateway:
    """A gateway or proxy that is measured.

    Attributes:
        name: Of its row.
        configure: Writes its files into a folder, for a port and the upstream's; returns its
            command.
        models: Names of the models by kind of request; a kind that it does not have is left out.
        headers: Further headers of requests by kind.
        environment: Further variables.
    """

    name: str
    configure: Callable[[Path, int, int], tuple[str, ...]]
    models: Mapping[str, str]
    headers: Mapping[str, str] = attrs.field(factory=dict)
    environment: Mapping[str, str] = attrs.field(factory=dict)

    def write_head(self, kind: str, size: int) -> bytes:
        """Return the head of a request."""
        path = MESSAGES if kind == _MESSAGES else CHAT
        return (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {size}\r\nauthorization: Bearer sk-x\r\nx-api-key: sk-x\r\n"
            f"anthropic-version: 2023-06-01\r\n{self.headers.get(kind, '')}\r\n"
        ).encode()


def _configure_vibe(home: Path, port: int, upstream: int) -> tuple[str, ...]:
    (home / "vibe.toml").write_text(_VIBE.format(upstream=upstream))
    return (sys.executable, "-m", "vibe_llms", "serve", "gateway", "--port", str(port))


def _configure_limit(home: Path, port: int, upstream: int) -> tuple[str, ...]:
    return (sys.executable, str(PARTS), "limit", str(port), str(upstream))


def _configure_decoding(home: Path, port: int, upstream: int) -> tuple[str, ...]:
    return (sys.executable, str(PARTS), "limit-translating", str(port), str(upstream))


def _configure_nginx(home: Path, port: int, upstream: int) -> tuple[str, ...]:
    file = home / "nginx.conf"
    file.write_text(_NGINX.format(home=home, port=port, upstream=upstream))
    return ("nginx", "-c", str(file))


def _configure_litellm(home: Path, port: int, upstream: int) -> tuple[str, ...]:
    file = home / "litellm.yaml"
    file.write_text(_LITELLM.format(upstream=upstream))
    command = os.environ["LITELLM"]
    return (command, "--config", str(file), "--telemetry", "False", "--port", str(port))


def _configure_portkey(home: Path, port: int, upstream: int) -> tuple[str, ...]:
    script = f"{os.environ['PORTKEY']}/node_modules/@portkey-ai/gateway/build/start-server.js"
    return ("node", script, "--headless", f"--port={port}")


def _head_portkey(upstream: int) -> dict[str, str]:
    def write(provider: str, tail: str) -> str:
        host = f"x-portkey-custom-host: http://127.0.0.1:{upstream}{tail}\r\n"
        return f"x-portkey-provider: {provider}\r\n{host}"

    anthropic = write("anthropic", "/v1")
    return {_CARRIED: write("openai", "/v1"), _TRANSLATED: anthropic, _MESSAGES: anthropic}


def survey(upstream: int) -> Iterator[Gateway]:
    """Yield the gateways that are installed, and print the names of the others."""
    yield Gateway(
        name="vibe-llms",
        configure=_configure_vibe,
        models={
            _CARRIED: "openai_conversations:m",
            _TRANSLATED: "anthropic:m",
            _MESSAGES: "anthropic:m",
        },
    )
    yield Gateway(
        name="limit",
        configure=_configure_limit,
        models={_CARRIED: "m", _MESSAGES: "m"},
    )
    yield Gateway(
        name="limit, decoding",
        configure=_configure_decoding,
        models=dict.fromkeys((_TRANSLATED,), "m"),
    )
    missing = []
    if shutil.which("nginx"):
        yield Gateway(
            name="nginx", configure=_configure_nginx, models={_CARRIED: "m", _MESSAGES: "m"}
        )
    else:
        missing.append("nginx")
    if os.environ.get("PORTKEY"):
        yield Gateway(
            name="Portkey",
            configure=_configure_portkey,
            models=dict.fromkeys(KINDS, "m"),
            headers=_head_portkey(upstream),
        )
    else:
        missing.append("Portkey")
    if os.environ.get("LITELLM"):
        yield Gateway(
            name="LiteLLM",
            configure=_configure_litellm,
            models={_CARRIED: "chat", _TRANSLATED: "messages", _MESSAGES: "messages"},
            environment={"LITELLM_RUST": "false"},
        )
        # Of these protocols, it has Messages alone in Rust.
        yield Gateway(
            name="LiteLLM, Rust",
            configure=_configure_litellm,
            models={_MESSAGES: "messages"},
            environment={"LITELLM_RUST": "true"},
        )
    else:
        missing.append("LiteLLM")
    if missing:
        print(f"not installed: {', '.join(missing)}", flush=True)
