"""``vibe config``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.options import Command, json_option


@click.group("config", invoke_without_command=True)
@click.pass_context
def config(context: click.Context) -> None:
    """Show, check and locate the configuration. By itself: show."""
    if context.invoked_subcommand is None:
        context.invoke(show, as_json=False)


@config.command("show", cls=Command)
@json_option
def show(as_json: bool) -> None:
    """Show every value and where it was written. Secrets are not shown."""
    from vibe_llms.configuration.explanations import explain_configuration
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.interfaces.cli.output import write_explanations, write_json

    explanations = explain_configuration(load_configuration())
    if as_json:
        write_json(
            [
                {"name": each.name, "value": each.value, "source": each.source}
                for each in explanations
            ]
        )
        return
    write_explanations((each.name, _format(each.value), each.source) for each in explanations)


@config.command("check", cls=Command)
def check() -> None:
    """Check the configuration, and every provider, ensemble, server and plugin that it names.

    Mistakes are listed with file and line, all at once; the exit code is 3 then. So it is where the
    package is missing without which the configured model cannot be asked.
    """
    from vibe_llms.application import Application
    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.interfaces.cli.access import load_configuration, tell_untrusted
    from vibe_llms.interfaces.cli.checking import survey_mistakes
    from vibe_llms.interfaces.cli.output import note

    configuration = load_configuration()
    tell_untrusted(configuration)
    # A mistake in [[models]] is met once per provider.
    findings = dict.fromkeys(survey_mistakes(Application(configuration)))
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    note("The configuration holds.")


@config.command("path", cls=Command)
@json_option
def path(as_json: bool) -> None:
    """Print where the configuration is read from, and where data are kept."""
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.interfaces.cli.output import write_json, write_table

    configuration = load_configuration()
    rows = [
        (str(file.layer), str(file.path), "" if file.exists else "not there")
        for file in configuration.files
    ]
    rows.append(("data", str(configuration.data_directory), ""))
    rows.append(("cache", str(configuration.cache_directory), ""))
    if as_json:
        write_json({name: place for name, place, _ in rows})
    else:
        write_table(rows, headers=("layer", "path", ""), styles=("cyan", "", "dim"))


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
