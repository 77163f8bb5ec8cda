"""Child programs: watchdogs, bounded output, interrupts and termination.

A watchdog (``watchdog``) stands between this process and a child program, so that no program
outlives this process, however it ends. A ``Program`` runs concurrently: an MCP server, a model
server, a shell command. ``run_program`` runs one to its end: pip, or a plugin module that is
queried for its hooks. May import foundation; must not depend on why a program is started or on the
meaning of its output.

The process that applies foreign schemas (``invocables.validator_process``) does not belong here: it
is this package's own code, exits when its input ends, and limits itself.
"""
