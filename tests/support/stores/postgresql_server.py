"""A PostgreSQL of the tests' own: made when it is first wanted, gone when its process ends."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import psutil

from support.network.ports import find_port
from support.stores.postgresql_programs import find_programs
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore


class Server:
    """PostgreSQL server on a free port, which can be killed and started again.

    Args:
        fsync: Whether it waits for the disk, which matters only at a power failure.
        within: Prefix of its command, such as one that enters a network namespace.
        address: A further address to listen on, without authentication.
    """

    def __init__(
        self, *, fsync: bool = False, within: Sequence[str] = (), address: str = ""
    ) -> None:
        self._fsync = fsync
        self._within = [*within]
        self._address = address
        programs = find_programs()
        assert programs is not None, "Install the Debian package postgresql."
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="vibe-postgresql-"))
        self._as: list[str] = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        self._run("initdb", "-D", f"{self.folder}/data", "-U", "vibe", "-A", "trust", "--no-sync")
        if address:
            with (self.folder / "data" / "pg_hba.conf").open("a") as file:
                file.write("host all all samenet trust\n")
        self.port = find_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*self._as, str(self._programs / program), *arguments],
            cwd=self.folder,
            check=True,
            capture_output=True,
        )

    @property
    def pid(self) -> int:
        """Id of its first process."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """URL of its database."""
        return f"postgresql://vibe@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        # It dies with its parent process.
        command = [*self._within, "setpriv", "--pdeathsig=QUIT", *self._as[1:]]
        if shutil.which("setpriv") is None:
            command = []
        settings = {
            "listen_addresses": ",".join(filter(None, ("127.0.0.1", self._address))),
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._fsync else "off",
            "shared_buffers": "16MB",
            "max_connections": "200",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._programs / "postgres"), "-D", f"{self.folder}/data", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._is_ready():
                return
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text(encoding="utf-8", errors="replace"))

    def _is_ready(self) -> bool:
        command = [
            str(self._programs / "pg_isready"),
            "-q",
            "-h",
            str(self.folder),  # its socket is reachable from any network namespace
            "-p",
            str(self.port),
        ]
        return subprocess.run(command, check=False).returncode == 0

    def kill(self) -> None:
        """Kill all its processes, as a crash does."""
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        # Processes for connections have sessions of their own, and could answer once more before
        # they notice that the parent is gone.
        processes = [parent, *parent.children(recursive=True)]
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait()
        psutil.wait_procs(processes, timeout=60)

    def close(self) -> None:
        """Stop the server, and remove its files."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def access_server() -> Server:
    """Return the server of this process."""
    import atexit

    server = Server()
    atexit.register(server.close)
    return server


def produce_url(directory: Path, server: Server | None = None) -> str:
    """Return the URL of an empty schema for a directory."""
    import psycopg

    server = access_server() if server is None else server
    name = f"t{sha256(str(directory).encode()).hexdigest()[:20]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    return f"{server.url}?options=-csearch_path%3D{name}"


@contextmanager
def opened(directory: Path, server: Server | None = None) -> Iterator[PostgresqlStore]:
    """Open a store in an empty schema; close its connections at the end."""
    store = PostgresqlStore(produce_url(directory, server))
    try:
        yield store
    finally:
        store.database.close()
