"""``vibe embed``: vectors of texts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.options import (
    MODEL,
    PURPOSES,
    command,
    download_option,
    json_option,
    strict_option,
)
from vibe_llms.interfaces.cli.output import write_table
from vibe_llms.interfaces.cli.texts import describe_call, file_option, gather_texts, report_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.messages.vectors import Purpose, Vectors

_SLICE = 1024
"""Number of texts between two updates of the progress bar."""
_SHOWN_NUMBERS = 4


@command("embed")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_option
@click.option(
    "--model", "-m", type=MODEL, help="Embedder, as provider:model; default: setting `embedder`."
)
@click.option(
    "--dimensions",
    "-d",
    type=click.IntRange(min=1),
    help="Length of the vectors, for models that let you choose.",
)
@click.option("--purpose", "-p", type=click.Choice(PURPOSES), help="Use of the vectors.")
@click.option(
    "--output",
    "-o",
    type=click.Path(),
    help="Write a file: .npy (NumPy) or .jsonl.",
)
@strict_option
@json_option
@download_option
async def embed(texts: tuple[str, ...], path: str | None, **options: Any) -> None:
    """Turn texts into vectors, which are similar if the texts have similar meanings.

    Without TEXT, each line of --file or of standard input is a text:

    \b
        vibe embed "Where is the bridge?" "The bridge is closed."
        vibe embed -f lines.txt -o lines.npy --purpose passage

    By default, a model on this machine is used, without an account or a key. On a terminal, a
    table shows the beginning of each vector; in a pipe, each line is a JSON array.
    """
    output = options["output"]
    if output is not None and not output.endswith((".npy", ".jsonl")):
        raise click.UsageError(f"Unknown format of {output!r}. Use .npy or .jsonl.")
    lines = gather_texts(texts, path)
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.embedders import Embedder

    purpose: Purpose | None = options["purpose"]
    async with (
        application,
        Embedder(
            options["model"] or "",
            application=application,
            dimensions=options["dimensions"],
            purpose=purpose,
            strict=options["strict"],
        ) as embedder,
    ):
        vectors = await _embed(embedder, lines)
    _write(lines, vectors, output, as_json=options["as_json"])
    report_result(vectors, f"{len(vectors)} texts, {vectors.width} dimensions")


async def _embed(embedder: Any, lines: Sequence[str]) -> Vectors:
    """Embed the lines, with a progress bar if there are many."""
    from vibe_llms.messages.vectors import join_vectors

    if len(lines) <= _SLICE // 8:
        return await embedder.embed(lines)  # type: ignore[no-any-return]
    from vibe_llms.interfaces.cli.progress import TerminalProgress

    progress = TerminalProgress("texts")
    progress.start(len(lines), "Embedding")
    parts = []
    try:
        for start in range(0, len(lines), _SLICE):
            parts.append(await embedder.embed(lines[start : start + _SLICE]))
            progress.advance(len(parts[-1]))
    finally:
        progress.finish()
    return join_vectors(parts)


def _write(lines: Sequence[str], vectors: Vectors, output: str | None, *, as_json: bool) -> None:
    if output is not None:
        from vibe_llms.foundation.files import write_file

        data = _encode_npy(vectors) if output.endswith(".npy") else _encode_lines(lines, vectors)
        write_file(output, data)
    elif as_json:
        from vibe_llms.interfaces.cli.output import write_json

        write_json(
            {
                **describe_call(vectors),
                "dimensions": vectors.width,
                "vectors": [list(vector) for vector in vectors],
            }
        )
    elif sys.stdout.isatty():
        rows = [
            (line, _shorten_vector(vector)) for line, vector in zip(lines, vectors, strict=True)
        ]
        write_table(rows, headers=("text", f"first of {vectors.width} numbers"))
    else:
        import msgspec

        for vector in vectors:
            sys.stdout.write(msgspec.json.encode(list(vector)).decode() + "\n")


def _shorten_vector(vector: Sequence[float]) -> str:
    numbers = [f"{number:.3f}" for number in list(vector)[:_SHOWN_NUMBERS]]
    return " ".join(numbers) + " …"


def _encode_lines(lines: Sequence[str], vectors: Vectors) -> bytes:
    import msgspec

    encode = msgspec.json.Encoder().encode_lines
    pairs = zip(lines, vectors, strict=True)
    return encode([{"text": line, "vector": list(vector)} for line, vector in pairs])


def _encode_npy(vectors: Vectors) -> bytes:
    """Return an array in NumPy's format: numpy.lib.format, version 1.0."""
    kind = vectors.__array_interface__["typestr"]
    shape = (len(vectors), vectors.width)
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    padding = -(len(header) + 11) % 64
    text = (header + " " * padding + "\n").encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + vectors.data
