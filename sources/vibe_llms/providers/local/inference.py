"""llama.cpp in this process: a loaded model, and one request to it on its way.

The only module that touches ``xllamacpp``. It blocks in threads of its own and hands what
comes to the event loop; it knows nothing of canisters. Its requests and chunks are plain data
in the Chat Completions dialect of llama.cpp's server.
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
from vibe_llms.foundation.semaphores import Slots
from vibe_llms.providers.local.grammars import END_RULE, PROBE, compose_probe

BATCH_TOKENS = 16
"""A stop takes effect between two batches: at 60 tokens a second, within 0.3 seconds. Reading a
prompt takes a fifth longer than with batches of 32."""
PROBE_TOKENS: Final = 8
NOT_FOLLOWED: Final = "The grammar is not followed"
_COUNTING_SECONDS = 30.0
_END: Final = object()


@frozen(kw_only=True)
class LoadSettings:
    """What makes one loaded model differ from another.

    Attributes:
        path: The GGUF file, by any of its spellings: equal are those that lead to the same file.
        context_tokens: The window, input and output together; its memory is taken at once.
        parallel: How many requests run at once; they share the window's memory.
        waiting: How many more may wait until one of those is done.
    """

    path: Path = attrs.field(eq=False)
    context_tokens: int
    parallel: int
    waiting: int
    _file: object = attrs.field(init=False, repr=False)

    @_file.default
    def _identify(self) -> object:
        try:
            found = self.path.stat()
        except OSError:  # to load it says why
            return str(self.path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class LoadedModel:
    """A loaded model. Loading blocks; make it in a thread. Use it from any loop or thread.

    Attributes:
        used_at: When it was last asked for, by the monotonic clock.
        is_evicted: Whether it was closed to make room for another, and may be loaded again.

    Raises:
        DependencyError: xllamacpp is not installed.
        WeightsError: llama.cpp cannot load the file.
    """

    def __init__(self, settings: LoadSettings) -> None:
        self.settings = settings
        self.slots = Slots(settings.parallel)
        self.used_at = 0.0
        self.is_evicted = False
        self._key = secrets.token_urlsafe(24)
        self._exchanges: set[LocalExchange] = set()
        self._lock = threading.Lock()
        self._end = ""
        self._followed: set[str] = set()
        self._engine: Any = _load(settings, self._key)
        # Leaving a process right after loading hangs now and then unless one token was made.
        self._engine.handle_chat_completions(
            {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        )

    async def open_exchange(self, request: JsonObject) -> LocalExchange:
        """Sends a request once a slot is free.

        Args:
            request: A Chat Completions request; it is made to stream and to report progress.

        Raises:
            LimitError: Too many requests wait for this model.
        """
        if not self.slots.enter():
            if self.slots.waiting >= self.settings.waiting:
                raise LimitError(limit="waiting_requests", value=self.settings.waiting)
            await self.slots.take()
        try:
            if isinstance(grammar := request.get("grammar"), str):
                end = await asyncio.to_thread(self._access_end)  # which asks over HTTP, and blocks
                request = {**request, "grammar": f"{grammar}{END_RULE}: {end}\n"}
            return self._start(request)
        # Once its thread runs, that gives the slot back; until then, nobody else would.
        except BaseException:
            self.slots.give()
            raise

    def _start(self, request: JsonObject) -> LocalExchange:
        with self._lock:
            if self._engine is None:
                raise refuse_closed()
            exchange = LocalExchange(self, self._engine, request)
            self._exchanges.add(exchange)
        exchange.thread.start()
        return exchange

    def ensure_followed(self, engine: Any, grammar: str) -> None:
        """Tries a grammar once. Of one that it cannot read llama.cpp says nothing, and lets the
        model write what it likes.

        Raises:
            EngineFault: It does not hold the model to the grammar.
        """
        if grammar in self._followed:
            return
        question = {
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": PROBE_TOKENS,
            "temperature": 0,
            "grammar": compose_probe(grammar),
        }
        answer = engine.handle_chat_completions(question)
        try:
            text = answer["choices"][0]["message"]["content"]
        except (TypeError, LookupError):
            raise EngineFault(answer) from None
        if not text.startswith(PROBE):
            raise EngineFault({"error": {"message": NOT_FOLLOWED}})
        self._followed.add(grammar)

    def retire(self, exchange: LocalExchange) -> None:
        """Forgets an exchange whose thread is about to end. Called by that thread."""
        with self._lock:
            self._exchanges.discard(exchange)
        self.slots.give()

    async def count_request(self, request: JsonObject) -> int:
        """Counts exactly the tokens that a request's input would be, template included."""
        body = await asyncio.to_thread(
            self._ask, "POST", "/v1/chat/completions/input_tokens", request
        )
        return int(body["input_tokens"])

    async def count_text(self, text: str) -> int:
        """Counts exactly the tokens of a text by itself."""
        # Special is the token that begins each conversation, which is no part of a text.
        question: JsonObject = {"content": text, "add_special": False}
        body = await asyncio.to_thread(self._ask, "POST", "/tokenize", question)
        return len(body["tokens"])

    def _access_end(self) -> str:
        """Returns the token that ends a turn of this model, as a grammar writes it."""
        if not self._end:
            text = self._ask("GET", "/props")["eos_token"]
            tokens = self._ask("POST", "/tokenize", {"content": text})["tokens"]
            self._end = " ".join(f"<[{token}]>" for token in tokens)
        return self._end

    def _ask(self, method: str, path: str, body: JsonObject | None = None) -> Any:
        """Asks over the loopback port: the wheel offers no counting inside the process."""
        with self._lock:
            if self._engine is None:
                raise refuse_closed()
            engine = self._engine  # which stays open until this is answered
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
        """Stops what runs, waits for it, and frees the memory. Blocks; may be called again."""
        with self._lock:
            engine, self._engine = self._engine, None
            exchanges = tuple(self._exchanges)
        for exchange in exchanges:
            exchange.stop()  # all, before any is waited for
        for exchange in exchanges:
            exchange.thread.join()
        del engine  # last: the destructor ends llama.cpp's own threads


class LocalExchange:
    """One request on its way through a loaded model, in a thread of its own."""

    def __init__(self, server: LoadedModel, engine: Any, request: JsonObject) -> None:
        self._server = server
        self._engine = engine
        self._request = {**request, "stream": True, "return_progress": True}
        self._loop = asyncio.get_running_loop()
        # Unbounded, but no longer than the window: llama.cpp would only queue it itself.
        self._arrived: asyncio.Queue[Any] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._stopping = threading.Event()
        # Not a daemon: one that is still inside llama.cpp when Python ends brings it down.
        self.thread = threading.Thread(target=self._run, name="vibe-llms-inference")

    async def receive(self) -> list[JsonObject] | None:
        """Returns the chunks that have arrived, waiting for at least one; None at the end.

        Raises:
            EngineFault: llama.cpp refuses the request, or failed.
        """
        arrived = [await self._arrived.get()]
        while not self._arrived.empty():
            arrived.append(self._arrived.get_nowait())
        if arrived[-1] is _END:
            arrived.pop()
            self._arrived.put_nowait(_END)  # for the next call, which has to find it as well
        chunks = []
        for item in arrived:
            if isinstance(item, EngineFault):
                raise item
            chunks.append(item)
        return chunks or None

    async def close(self) -> None:
        """Stops where it is, and returns when llama.cpp has stopped. May be called again."""
        self.stop()
        await self._ended.wait()

    def stop(self) -> None:
        """Asks to stop after the token, or the batch of input, that is being worked at."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            if isinstance(grammar := self._request.get("grammar"), str):
                self._server.ensure_followed(self._engine, grammar)
            answer = self._engine.handle_chat_completions(self._request, self._take)
            if isinstance(answer, dict) and "error" in answer:
                self._hand_over(EngineFault(answer))
        except EngineFault as fault:
            self._hand_over(fault)
        except Exception as error:
            self._hand_over(EngineFault({"error": {"message": str(error)}}))
        finally:
            self._engine = None  # or the model stays loaded for as long as somebody has this
            self._hand_over(_END)
            self._server.retire(self)
            self._call(self._ended.set)

    def _take(self, chunk: Any) -> bool:
        """Takes a chunk in; True stops llama.cpp. An exception here would stop it in silence."""
        if self._stopping.is_set() or not threading.main_thread().is_alive():
            return True  # a dead main thread means that Python waits for this one, to end
        if "error" in chunk:
            self._hand_over(EngineFault(chunk))
            return True
        return not self._hand_over(chunk)

    def _hand_over(self, item: object) -> bool:
        return self._call(self._arrived.put_nowait, item)

    def _call(self, function: Any, *arguments: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed, and nobody is left to hear
            return False
        return True


class EngineFault(Exception):
    """An error in llama.cpp's words; never seen by users, ``errors`` maps it.

    Attributes:
        facts: Its dictionary: ``message``, and where it says so ``type``, ``code`` and sizes.
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
    parameters.kv_unified = True  # or each conversation would get a part of the window only
    parameters.n_batch = parameters.n_ubatch = BATCH_TOKENS
    # Its threads wait for each other by spinning. One core is left to the rest: where all
    # were busy, a machine with other work to do took three times as long.
    threads = max(1, (os.cpu_count() or 2) - 1)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.cache_ram_mib = 0  # no second copy of old prompts
    # Finding out what fits into a GPU reads the file twice; only the builds for macOS have one.
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
            remedy="See whether it is a whole GGUF file, of a kind that this llama.cpp knows.",
        ) from error


def refuse_closed() -> ConverseError:
    """Makes the error for whoever asks something of a closed model."""
    return ConverseError(
        detail="The client of this local model was closed.",
        remedy="Make a new client.",
        stage=Stage.SEND,
    )


@define
class _SharedModel:
    """Where a loaded model is shared, and by how many clients."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    users: int = 0
    server: LoadedModel | None = None


_places: dict[LoadSettings, _SharedModel] = {}
_places_lock = threading.Lock()


def acquire_server(settings: LoadSettings) -> LoadedModel:
    """Returns the loaded model with these settings, which is loaded once a process. Blocks.

    Each call wants one :func:`release_server`.

    Raises:
        DependencyError: xllamacpp is not installed.
        WeightsError: llama.cpp cannot load the file.
    """
    # Only to find the place: loading another model need not wait for this one.
    with _places_lock:
        place = _places.setdefault(settings, _SharedModel())
    with place.lock:
        if place.server is None:
            place.server = LoadedModel(settings)
        place.users += 1
        return place.server


def release_server(server: LoadedModel, *, evict: bool = False) -> None:
    """Gives a loaded model back; the last one to do so closes it. Blocks.

    Args:
        evict: Those who still have it may load it again.
    """
    place = _places[server.settings]
    with place.lock:
        place.users -= 1
        if place.users == 0 and place.server is not None:
            place.server.is_evicted = evict
            place.server.close()
            place.server = None


@atexit.register
def _close_all() -> None:
    """Ends what clients left open: by now all threads of ours have been joined."""
    for place in _places.values():
        if place.server is not None:
            place.server.close()
            place.server = None
