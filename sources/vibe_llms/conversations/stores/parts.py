"""Parts of a conversation's messages, and the decoding of their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vibe_llms.exceptions import CodecError, CorruptionError, Finding
from vibe_llms.messages.canisters import AnyCanister


class FilePart(NamedTuple):
    """The first lines of one file."""

    path: str
    data: bytes


def decode_part(
    part: FilePart, *, tolerant: bool = False
) -> tuple[Sequence[AnyCanister], list[Finding]]:
    """Decode the canisters of some lines.

    Args:
        tolerant: Skip unreadable lines, and report them.

    Raises:
        CorruptionError: A line cannot be read; the error names file and line. Not if tolerant.
    """
    from vibe_llms.messages.codec.canister_lines import decode_canisters

    if not part.data:
        return (), []
    try:
        canisters = decode_canisters(part.data)
    except (CodecError, UnicodeDecodeError):
        # Line by line is slower, but finds the damaged line.
        return _decode_lines(part, tolerant)
    # Empty lines were skipped, which are damage: they count for fork points.
    if len(canisters) != part.data.count(b"\n"):
        return _decode_lines(part, tolerant)
    return canisters, []


def _decode_lines(part: FilePart, tolerant: bool) -> tuple[list[AnyCanister], list[Finding]]:
    from vibe_llms.messages.codec.canister_lines import decode_canister

    canisters: list[AnyCanister] = []
    findings: list[Finding] = []
    for number, line in enumerate(part.data.split(b"\n")[:-1], 1):
        try:
            canisters.append(decode_canister(line))
        except (CodecError, UnicodeDecodeError) as error:
            if not tolerant:
                raise CorruptionError(
                    path=part.path,
                    line=number,
                    detail=f"Cannot read the line: {error}.",
                    remedy="`vibe verify` lists all damage; `vibe show` shows the intact part.",
                ) from error
            findings.append(Finding(place=part.path, line=number, message=str(error)))
    return canisters, findings
