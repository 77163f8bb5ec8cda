"""``vibe show``."""

from __future__ import annotations

from vibe_llms.interfaces.cli.options import command, conversation_argument, json_option


@command("show")
@conversation_argument()
@json_option
def show(identity: str, as_json: bool) -> None:
    """Show what was said in a conversation.

    ID may be shortened, as long as only one conversation begins so. What is damaged is left
    out and reported.
    """
    from vibe_llms.interfaces.cli.access import open_store, resolve_identity
    from vibe_llms.interfaces.cli.output import note

    store = open_store()
    history = store.read(resolve_identity(store, identity), tolerant=True)
    for notice in history.notices:
        note(str(notice))
    if as_json:
        from vibe_llms.interfaces.cli.output import write_json
        from vibe_llms.messages.codec import produce_converter

        unstructure = produce_converter().unstructure
        write_json(
            {
                "id": history.identity,
                "metadata": _describe_metadata(history.metadata),
                "canisters": [unstructure(canister) for canister in history.canisters],
            }
        )
        return
    _write_history(history)


def _describe_metadata(metadata: object) -> object:
    import attrs

    return attrs.asdict(metadata)  # type: ignore[call-overload]


def _write_history(history: object) -> None:
    from vibe_llms.conversations.stores.interfaces import History
    from vibe_llms.interfaces.cli.chat.output import describe_canister
    from vibe_llms.interfaces.cli.output import write, write_styled

    assert isinstance(history, History)
    name = history.metadata.name
    write_styled(f"{history.identity}  {name}" if name else history.identity, "bold")
    for index, canister in enumerate(history.canisters):
        moment = canister.timestamp.astimezone().strftime("%Y-%m-%d %H:%M")
        origin = getattr(canister, "origin", None)
        model = f" · {origin.provider}:{origin.model} · {origin.stop_reason}" if origin else ""
        write()
        write_styled(f"[{index}] {canister.role} · {moment}{model}", "cyan")
        for kind, text in describe_canister(canister):
            if kind == "text":
                write(text)
            else:
                write_styled(text, "dim")
