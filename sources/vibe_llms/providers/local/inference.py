"""llama.cpp in this process: a loaded model, and one running request.

This is the only module that uses ``xllamacpp``. Each request runs in a thread, which passes chunks
to the event loop. This module does not know canisters. Its requests and chunks are plain data in
the Chat Completions dialect of llama.cpp's server.
"""

from __future__ import annotations

import asyncio
import atexit
import http.client
import os
import secrets
import sys
import threading
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.exceptions import ConverseError, LimitError, Stage, WeightsError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.optional_packages import needing
from vibe_llms.foundation.semaphores import Semaphore
from vibe_llms.providers.local.grammars import END_RULE, PROBE, compose_probe

BATCH_TOKENS = 16
"""Tokens of a prompt to read at once. A stop takes effect between two batches: at 60 tokens a
second, within 0.3 seconds. Reading a prompt takes a fifth longer than with batches of 32.
"""
PROBE_TOKENS: Final = 8
NOT_ENFORCED: Final = "The grammar is not followed"
_COUNTING_SECONDS = 30.0
_END: Final = object()


@frozen(kw_only=True)
class LoadSettings:
    """The settings that identify a loaded model: requests with equal settings share it.

    Attributes:
        path: The GGUF file; paths that lead to the same file are equal.
        context_tokens: The window, input and output together; its memory is allocated at once.
        parallel: Maximum requests at once; they share the window's memory.
        waiting: Maximum requests that wait for a free slot.
    """

    path: Path = attrs.field(eq=False)
    context_tokens: int
    parallel: int
    waiting: int
    _file: object = attrs.field(init=False, repr=False)

    @_file.default
    def _identify(self) -> object:
        try:
            status = self.path.stat()
        except OSError:  # loading it reports the error
            return str(self.path)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LoadedModel:
    """A loaded model. Loading blocks; make it in a thread. Use it from any loop or thread.

    Attributes:
        used_at: The time of its last use, by the monotonic clock.
        is_evicted: Whether it was closed to make room for another, and may be loaded again.

    Raises:
        DependencyError: xllamacpp is not installed.
        WeightsError: llama.cpp cannot load the file.
    """

    def __init__(self, settings: LoadSettings) -> None:
        self.settings = settings
        self.slots = Semaphore(settings.parallel)
        self.used_at = 0.0
        self.is_evicted = False
        self._key = secrets.token_urlsafe(24)
        self._exchanges: set[LocalExchange] = set()
        self._lock = threading.Lock()
        self._end = ""
        self._enforced: set[str] = set()
        self._engine: Any = _load(settings, self._key)
        # Leaving a process right after loading sometimes hangs unless one token was generated.
        self._engine.handle_chat_completions(
            {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        )

    async def open_exchange(self, request: JsonObject) -> LocalExchange:
        """Send a request once a slot is free.

        Args:
            request: A Chat Completions request; streaming and progress reports are turned on.

        Raises:
            LimitError: Too many requests wait for this model.
        """
        if not self.slots.try_acquire():
            if self.slots.waiting >= self.settings.waiting:
                raise LimitError(limit="waiting_requests", value=self.settings.waiting)
            await self.slots.acquire()
        try:
            if isinstance(grammar := request.get("grammar"), str):
                # Blocks, as it sends an HTTP request.
                end = await asyncio.to_thread(self._access_end)
                request = {**request, "grammar": f"{grammar}{END_RULE}: {end}\n"}
            return self._start(request)
        # If the thread was not started, release the slot; otherwise the thread does so.
        except BaseException:
            self.slots.release()
            raise

    def _start(self, request: JsonObject) -> LocalExchange:
        with self._lock:
            if self._engine is None:
                raise refuse_closed()
            exchange = LocalExchange(self, self._engine, request)
            self._exchanges.add(exchange)
        exchange.thread.start()
        return exchange

    def ensure_enforced(self, engine: Any, grammar: str) -> None:
        """Test a grammar, once: llama.cpp does not report an invalid grammar, but ignores it.

        Raises:
            EngineFault: The grammar is not enforced.
        """
        if grammar in self._enforced:
            return
        probe = {
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": PROBE_TOKENS,
            "temperature": 0,
            "grammar": compose_probe(grammar),
        }
        answer = engine.handle_chat_completions(probe)
        try:
            text = answer["choices"][0]["message"]["content"]
        except (TypeError, LookupError):
            raise EngineFault(answer) from None
        if not text.startswith(PROBE):
            raise EngineFault({"error": {"message": NOT_ENFORCED}})
        self._enforced.add(grammar)

    def retire(self, exchange: LocalExchange) -> None:
        """Remove an exchange whose thread is about to end. Called by that thread."""
        with self._lock:
            self._exchanges.discard(exchange)
        self.slots.release()

    async def count_request(self, request: JsonObject) -> int:
        """Count the exact input tokens of a request, including the template."""
        body = await asyncio.to_thread(
            self._request, "POST", "/v1/chat/completions/input_tokens", request
        )
        return int(body["input_tokens"])

    async def count_text(self, text: str) -> int:
        """Count the exact tokens of a text alone."""
        # The special token that begins each conversation is not part of a text.
        content: JsonObject = {"content": text, "add_special": False}
        body = await asyncio.to_thread(self._request, "POST", "/tokenize", content)
        return len(body["tokens"])

    def _access_end(self) -> str:
        """Return the token that ends a turn of this model, as written in a grammar."""
        if not self._end:
            text = self._request("GET", "/props")["eos_token"]
            tokens = self._request("POST", "/tokenize", {"content": text})["tokens"]
            self._end = " ".join(f"<[{token}]>" for token in tokens)
        return self._end

    def _request(self, method: str, path: str, body: JsonObject | None = None) -> Any:
        """Send a request to llama.cpp's loopback port: the package cannot count tokens directly."""
        with self._lock:
            if self._engine is None:
                raise refuse_closed()
            engine = self._engine  # this reference keeps the model open until the answer
        address = engine.listening_address.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=_COUNTING_SECONDS)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            content = None if body is None else msgspec.json.encode(body)
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            answer = msgspec.json.decode(response.read())
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise EngineFault(answer)
        return answer

    def close(self) -> None:
        """Stop requests, wait for them, and free the memory. Blocks; may be called again."""
        with self._lock:
            engine, self._engine = self._engine, None
            exchanges = tuple(self._exchanges)
        for exchange in exchanges:
            exchange.stop()  # stop all before waiting for any
        for exchange in exchanges:
            exchange.thread.join()
        del engine  # only now: the destructor ends the threads of llama.cpp


class LocalExchange:
    """One request that a loaded model is running, in a separate thread."""

    def __init__(self, server: LoadedModel, engine: Any, request: JsonObject) -> None:
        self._server = server
        self._engine = engine
        self._request = {**request, "stream": True, "return_progress": True}
        self._loop = asyncio.get_running_loop()
        # No limit other than the window: otherwise llama.cpp would only queue the chunks itself.
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._stopping = threading.Event()
        # Not a daemon thread: if it were inside llama.cpp when Python exits, the process would
        # crash.
        self.thread = threading.Thread(target=self._run, name="vibe-llms-inference")

    async def receive(self) -> list[JsonObject] | None:
        """Return the received chunks, waiting for at least one; ``None`` at the end.

        Raises:
            EngineFault: llama.cpp rejects the request, or failed.
        """
        items = [await self._queue.get()]
        while not self._queue.empty():
            items.append(self._queue.get_nowait())
        if items[-1] is _END:
            items.pop()
            self._queue.put_nowait(_END)  # for the next call, which must find it, too
        chunks = []
        for item in items:
            if isinstance(item, EngineFault):
                raise item
            chunks.append(item)
        return chunks or None

    async def close(self) -> None:
        """Stop the request, and return when llama.cpp has stopped. May be called again."""
        self.stop()
        await self._ended.wait()

    def stop(self) -> None:
        """Let llama.cpp stop after the current token, or batch of input."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            if isinstance(grammar := self._request.get("grammar"), str):
                self._server.ensure_enforced(self._engine, grammar)
            answer = self._engine.handle_chat_completions(self._request, self._receive_chunk)
            if isinstance(answer, dict) and "error" in answer:
                self._put(EngineFault(answer))
        except EngineFault as fault:
            self._put(fault)
        except Exception as error:
            self._put(EngineFault({"error": {"message": str(error)}}))
        finally:
            self._engine = None  # otherwise references to this exchange would keep the model loaded
            self._put(_END)
            self._server.retire(self)
            self._call(self._ended.set)

    def _receive_chunk(self, chunk: Any) -> bool:
        """Receive a chunk; returning ``True`` stops llama.cpp.

        An exception in this callback would stop the thread silently.
        """
        if self._stopping.is_set() or not threading.main_thread().is_alive():
            return True  # Python is exiting and waits for this thread
        if "error" in chunk:
            self._put(EngineFault(chunk))
            return True
        return not self._put(chunk)

    def _put(self, item: object) -> bool:
        return self._call(self._queue.put_nowait, item)

    def _call(self, function: Any, *arguments: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: there is no reader
            return False
        return True


class EngineFault(Exception):
    """An error message of llama.cpp. ``errors`` converts it to an error for users.

    Attributes:
        facts: The dictionary of the error: ``message``, and optionally ``type``, ``code`` and
            sizes.
    """

    def __init__(self, answer: object) -> None:
        error = answer.get("error") if isinstance(answer, dict) else None
        self.facts: dict[str, Any] = error if isinstance(error, dict) else {"message": str(answer)}
        super().__init__(str(self.facts.get("message", "")))


def _load(settings: LoadSettings, key: str) -> Any:
    with needing("local", "xllamacpp", "The local provider"):
        import xllamacpp
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(settings.path)
    parameters.n_ctx = settings.context_tokens
    parameters.n_parallel = settings.parallel
    parameters.kv_unified = True  # otherwise each slot gets only a part of the window
    parameters.n_batch = parameters.n_ubatch = BATCH_TOKENS
    # Leave one core free: the threads of llama.cpp wait for each other in a busy loop, and on a
    # busy machine an answer took three times as long with all cores.
    threads = max(1, (os.cpu_count() or 2) - 1)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.cache_ram_mib = 0  # no second copy of old prompts
    # Checking what fits into a GPU reads the file twice; only the builds for macOS use one.
    parameters.fit_params = sys.platform == "darwin"
    parameters.verbosity = -1  # it would write to standard error
    parameters.ui = False
    parameters.api_keys = [key]  # it always opens a loopback port
    try:
        return xllamacpp.Server(parameters)
    except Exception as error:
        raise WeightsError(
            path=str(settings.path),
            detail=f"llama.cpp cannot load {settings.path}.",
            remedy="Check that it is a complete GGUF file that this llama.cpp supports.",
        ) from error


def refuse_closed() -> ConverseError:
    """Make the error for requests to a closed model."""
    return ConverseError(
        detail="The client of this local model was closed.",
        remedy="Make a new client.",
        stage=Stage.SEND,
    )


@define
class _SharedModel:
    """A shared loaded model, and its number of clients."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    users: int = 0
    server: LoadedModel | None = None


_shared: dict[LoadSettings, _SharedModel] = {}
_shared_lock = threading.Lock()


def acquire_server(settings: LoadSettings) -> LoadedModel:
    """Return the loaded model with these settings, loaded once per process. Blocks.

    Each call requires one :func:`release_server`.

    Raises:
        DependencyError: xllamacpp is not installed.
        WeightsError: llama.cpp cannot load the file.
    """
    # Lock only the look-up, so that loading a model does not block other models.
    with _shared_lock:
        shared = _shared.setdefault(settings, _SharedModel())
    with shared.lock:
        if shared.server is None:
            shared.server = LoadedModel(settings)
        shared.users += 1
        return shared.server


def release_server(server: LoadedModel, *, evict: bool = False) -> None:
    """Release a loaded model; the last release closes it. Blocks.

    Args:
        evict: Whether it is closed to make room, so that callers may load it again.
    """
    shared = _shared[server.settings]
    with shared.lock:
        shared.users -= 1
        if shared.users == 0 and shared.server is not None:
            shared.server.is_evicted = evict
            shared.server.close()
            shared.server = None


@atexit.register
def _close_all() -> None:
    """Close the models that clients left open. By now, all of our threads have ended."""
    for shared in _shared.values():
        if shared.server is not None:
            shared.server.close()
            shared.server = None
