"""``vibe trust``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.options import command, yes_option
from vibe_llms.interfaces.cli.output import note


@command("trust")
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--revoke", is_flag=True, help="Stop trusting the folder.")
@yes_option
def trust(folder: str, revoke: bool, yes: bool) -> None:
    """Trust the configuration in a project FOLDER to load code, packages and directories.

    The settings that need trust are shown first. If the file changes, you are asked again.
    """

    from vibe_llms.configuration.sources import load_configuration
    from vibe_llms.configuration.trust import ask_for_trust, revoke_trust
    from vibe_llms.exceptions import TrustError
    from vibe_llms.foundation.files import resolve_links
    from vibe_llms.interfaces.cli.consent import TerminalConsent

    path = resolve_links(folder)
    configuration = load_configuration(working_directory=path)
    if revoke:
        was_trusted = revoke_trust(path, configuration.data_directory)
        note(f"{path} is {'no longer' if was_trusted else 'not'} trusted.")
        return
    request = configuration.trust_request
    if request is None:
        note(f"Nothing in {path} needs trust.")
        return
    if not ask_for_trust(request, TerminalConsent(yes or configuration.yes)):
        raise TrustError(
            subject=str(request.folder),
            detail=f"{request.folder} is not trusted.",
            remedy="Answer yes, or add --yes, to let its code run.",
        )
    note(f"Trusted {request.folder}, with its current configuration file.")
