"""S3 server for tests: moto in a process of its own, which verifies signatures."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from support.network.ports import find_port

BUCKET = "vibe-contents"
_BEFORE = 4
"""Number of requests that set up user, key, policy and bucket; later ones are authorized."""


def find_missing() -> str:
    """Return what is missing; empty if everything is installed."""
    wanted = ("moto", "flask_cors", "obstore")
    lacking = [each for each in wanted if importlib.util.find_spec(each) is None]
    return f"{' and '.join(lacking)}: not installed" if lacking else ""


class ObjectServer:
    """A server with a bucket, and a key for it.

    Attributes:
        root: The URL of the bucket, as a place for content has it.
        identity, secret: The key.
    """

    def __init__(self) -> None:
        self._port = find_port()
        self.root = f"s3+http://127.0.0.1:{self._port}/{BUCKET}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from moto.server import main; main()", "-p", str(self._port)],
            env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_BEFORE)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()
        self._manage("CreateUser")
        told = self._manage("CreateAccessKey")
        self.identity = re.findall("<AccessKeyId>(.*?)<", told)[0]
        self.secret = re.findall("<SecretAccessKey>(.*?)<", told)[0]
        rule = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [rule]})
        self._manage("PutUserPolicy", PolicyName="all", PolicyDocument=document)
        self._ask("s3", "PUT", f"/{BUCKET}")

    def _wait(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            except OSError:
                assert time.monotonic() < deadline
                assert self._process.poll() is None
                time.sleep(0.05)

    def _manage(self, action: str, **more: str) -> str:
        given = {"Action": action, "Version": "2010-05-08", "UserName": "vibe", **more}
        return self._ask("iam", "POST", "/", urlencode(given).encode())

    def _ask(self, service: str, method: str, path: str, body: bytes | None = None) -> str:
        scope = f"none/20260101/us-east-1/{service}/aws4_request"
        said = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
        request = Request(
            f"http://127.0.0.1:{self._port}{path}",
            data=body,
            headers={"Authorization": said},
            method=method,
        )
        with urlopen(request) as answer:
            return str(answer.read().decode())

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()


@functools.cache
def access_object_server() -> ObjectServer:
    """Return the server of this process."""
    import atexit

    server = ObjectServer()
    atexit.register(server.close)
    return server
