"""Differences between vendors of this dialect, as data."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "responses"
"""The dialect's name, in origins and native data."""


@frozen(kw_only=True)
class Quirks:
    """One vendor's differences from OpenAI; the defaults are OpenAI's own.

    Attributes:
        supervisor_role: The role of instructions: ``system`` or ``developer``.
        takes_reasoning: Whether readable reasoning of other vendors may be sent: vendors of open
            models accept it, OpenAI accepts only reasoning that it has signed.
        takes_audio: Whether a message may contain audio.
        name_pattern: A regular expression for valid names of tools.
        server_tools: The service whose server tools it has, as named in
            ``data/dialects/server_tools.toml``; empty if it has none.
        siblings: Other interfaces of the same service, with the same uploaded files; see
            :class:`vibe_llms.dialects.ledger.Ledger`.
    """

    supervisor_role: str = "system"
    takes_reasoning: bool = False
    takes_audio: bool = False
    name_pattern: str = "[a-zA-Z0-9_-]{1,64}"
    server_tools: str = "openai"
    siblings: tuple[tuple[str, str], ...] = ()
