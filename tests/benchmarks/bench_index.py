"""Cost of lists and searches, beside an empty store and ``grep -r``.

    python tests/benchmarks/bench_index.py

Prints medians of the processor time of whole processes, and ratios: a busy machine stretches the
wall clock of one and not of the other. With valgrind it also counts the instructions of a list,
without those of the system. Targets: ``vibe list`` of 10,000 and 100,000 conversations within 1.1
and 1.3 times that of 10, also with a list of another store in between; the first list of 10,000
within a second; ``vibe runs list`` of 100,000 conversations without a run within 0.3 s more than of
10. Over 100,000 canisters a search for a rare word takes a third of ``grep -r``, for a common one
half. Further rows: the first index, an update after one append, and the size.

The canisters are written as the store writes them: 1,000 conversations of 50 questions of about 40
words, and 50 answers of about 250; the rare word is in 1 of 5,000 canisters, the common one in 1 of
2. Nothing has changed for an hour, so that the times of folders are final.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index import ConversationIndex
from vibe_llms.conversations.stores.sharding import find_folder
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, Origin, UserCanister
from vibe_llms.messages.codec.canister_lines import encode_canisters

RARE, COMMON = "zzyzxq", "qqcommonqq"
ROUNDS = 9
SURVEY = "i.survey()"


def produce_words(seed: int = 1) -> Iterator[list[str]]:
    """Yields texts whose words are as unevenly spread as those of a language."""
    chance = random.Random(seed)
    messages = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(messages, k=chance.randint(2, 10))) for _ in range(30_000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    for number in itertools.count():
        text = chance.choices(words, cum_weights=weights, k=40 if number % 2 == 0 else 250)
        text += [RARE] * (number % 5_000 == 0) + [COMMON] * (number % 4 < 2)
        yield text


def fill(root: Path, conversations: int, canisters: int) -> None:
    """Writes conversations without the store's locks and fsyncs, which would take minutes."""
    words, moment = produce_words(), datetime(2026, 1, 1, tzinfo=UTC)
    origin = Origin(provider="local", model="smollm2")
    for number in range(conversations):
        folder = Path(find_folder(str(root / "conversations"), f"c{number:015x}"))
        folder.mkdir(parents=True)
        said: list[AnyCanister] = []
        for turn in range(canisters):
            text, moment = " ".join(next(words)), moment + timedelta(seconds=1)
            said.append(
                AssistantCanister(text, timestamp=moment, origin=origin, turn_id=f"t{turn}")
                if turn % 2
                else UserCanister(text, timestamp=moment)
            )
        (folder / "messages.jsonl").write_bytes(encode_canisters(said))
        (folder / "metadata.toml").write_text(
            f'format = 1\n\n[conversation]\nid = "{folder.name}"\nname = "Talk {number}"\n'
            f"created = {moment.isoformat()}\ntags = []\n"
        )
    (root / "conversations").mkdir(parents=True, exist_ok=True)
    for shard in (root / "conversations").iterdir():
        os.utime(shard, (time.time() - 3600,) * 2)


def make_environment(data: Path, cache: Path) -> dict[str, str]:
    environment = {
        **os.environ,
        "VIBE_LLMS_DIRECTORIES_DATA": str(data),
        "VIBE_LLMS_DIRECTORIES_CACHE": str(cache),
        "LC_ALL": "C.UTF-8",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def measure(
    command: list[str],
    root: Path,
    *,
    cold: bool = False,
    between: tuple[list[str], Path] | None = None,
) -> float:
    """Returns the median of the CPU that a command takes, in milliseconds.

    Its output is read: ``grep`` stops at the first match where it is thrown away.

    Args:
        cold: Each time without an index.
        between: A command and its store, run before each measurement with the same cache.
    """
    spent = []
    for _ in range((3 if cold else ROUNDS) + 1):
        if cold:
            shutil.rmtree(root / "index", ignore_errors=True)
        if between is not None:
            environment = make_environment(between[1], root)
            subprocess.run(between[0], capture_output=True, env=environment, check=False)
        environment = make_environment(root, root)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, env=environment, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return statistics.median(spent[1:]) * 1000  # the first one warms up


def measure_here(question: Callable[[], object]) -> float:
    """Returns the median of the CPU that a question takes in this process, in milliseconds."""
    spent = []
    for _ in range(ROUNDS):
        before = time.process_time()
        question()
        spent.append(time.process_time() - before)
    return statistics.median(spent) * 1000


def vibe(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "vibe_llms.interfaces.cli.entry", *arguments]


def library(question: str, root: Path) -> list[str]:
    """A process that asks the index one question and does nothing else."""
    program = (
        "from vibe_llms.conversations.index import ConversationIndex\n"
        f"i = ConversationIndex({str(root / 'conversations')!r}, {str(root / 'index.sqlite')!r})\n"
        f"{question}"
    )
    return [sys.executable, "-c", program]


def grep(word: str, root: Path) -> list[str]:
    return ["grep", "-r", word, str(root / "conversations")]


def report(what: str, spent: float, against: float, target: str) -> None:
    print(f"{what:52} {spent:8.1f} ms {spent / against:8.2f} x   {target}")


def bench_lists(folder: Path) -> None:
    counts = {"10": 10, "10,000": 10_000, "100,000": 100_000}
    roots = {name: folder / f"lists{count}" for name, count in counts.items()}
    for name, count in counts.items():
        fill(roots[name], count, 2)
    base = measure(vibe("list"), roots["10"])
    report("vibe list, 10 conversations, warm", base, base, "")
    first = measure(vibe("list"), roots["10,000"], cold=True)
    report("  10,000, cold: the first list", first, base, judge(first - base, 1000, "ms more"))
    for name, limit in (("10,000", 1.1), ("100,000", 1.3)):
        spent = measure(vibe("list"), roots[name])
        report(f"  {name}, warm", spent, base, judge(spent / base, limit))
    spent = measure(vibe("list"), roots["10,000"], between=(vibe("list"), roots["10"]))
    report("  10,000, warm, another store between", spent, base, judge(spent / base, 1.1))
    count_instructions(roots)
    base = measure(vibe("runs", "list"), roots["10"])
    spent = measure(vibe("runs", "list"), roots["100,000"])
    report("vibe runs list, 10 conversations without a run", base, base, "")
    report("  100,000", spent, base, judge(spent - base, 300, "ms more"))


def judge(value: float, limit: float, unit: str = "") -> str:
    return f"at most {limit:g} {unit}: {'met' if value <= limit else 'MISSED'}"


def count_instructions(roots: dict[str, Path]) -> None:
    """Prints the instructions of lists, which other processes do not disturb."""
    if shutil.which("valgrind") is None:
        print("(valgrind is not installed: instructions are not counted)")
        return
    base = 0
    for name, root in roots.items():
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
        command += [f"--cachegrind-out-file={os.devnull}", *vibe("list")]
        done = subprocess.run(
            command, capture_output=True, env=make_environment(root, root), text=True, check=True
        )
        found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
        assert found is not None
        count = int(found[1].replace(",", ""))
        base = base or count
        print(f"  instructions of vibe list, {name:>7}: {count / 1e6:8.1f} M {count / base:8.2f} x")


def bench_searches(folder: Path) -> None:
    root = folder / "large"
    fill(root, 1_000, 100)
    index = ConversationIndex(root / "conversations", root / "index.sqlite")
    began = time.process_time()
    index.survey()
    listed = (time.process_time() - began) * 1000
    index.search(RARE)
    built = (time.process_time() - began) * 1000
    for word, kind, target in ((RARE, "rare", "at most 0.33"), (COMMON, "common", "at most 0.5")):
        base = measure(grep(word, root), root)
        report(f"grep -r, a {kind} word in 100,000 canisters", base, base, "")
        here = measure_here(functools.partial(index.search, word))
        report(f"in a running process, a {kind} word", here, base, target)
        spent = measure(library(f"i.search({word!r})", root), root)
        report(f"the index alone, a {kind} word", spent, base, target)
        report(f"vibe search, a {kind} word", measure(vibe("search", word), root), base, target)
    base = measure(library(SURVEY, root), root)
    report("the index alone, a list of 1,000 conversations", base, base, "")
    report("the first list", listed, base, "")
    report("the first list and the first search", built, base, "")
    DirectoryStore(root).append(f"c{7:015x}", [UserCanister("one more")])
    began = time.process_time()
    index.survey()
    report("a list after one append", (time.process_time() - began) * 1000, base, "")
    texts = sum(path.stat().st_size for path in root.glob("conversations/*/*/messages.jsonl"))
    size = (root / "index.sqlite").stat().st_size
    print(f"messages {texts / 1e6:.0f} MB, index {size / 1e6:.0f} MB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench_lists(Path(folder))
        bench_searches(Path(folder))


if __name__ == "__main__":
    main()
