"""The command line ``vibe``.

A command costs what it does: `entry` answers ``--version`` by itself, `group` knows names and
help of all commands without importing any, and a command's module imports what it works with
when it runs. May import everything below; it refuses to know any vendor, and it decides nothing
that a program which uses the library would want decided, too. Commands write results to
standard output and everything else to standard error; `errors` has the one table of exit codes.
"""
