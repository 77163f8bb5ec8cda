"""The programs that we start: guarded, bounded, interrupted and ended in one way.

Between us and a program stands a watchdog (``watchdog``), so that nothing which we have started
outlives us, whatever ends us. A ``Program`` is one that runs while we do other things: an MCP
server, a server of models, a command of the shell. ``run_program`` runs one to its end: pip, or a
module of a plugin that is asked for its hooks. May import foundation; refuses to know
why a program is started, and what it says.

The process that applies strangers' schemas (``invocables.validator_process``) is none of these:
it is our own code, ends by itself when its input does, and limits itself.
"""
