"""The conversation in the terminal: a loop between an input and an output, both protocols.

`session` implements a chat's operations without its display; `loop` reads, asks and stops;
`commands` is the table of slash commands. `terminal` and `prompting` are the only modules that
know rich and prompt_toolkit; `input` and `output` hold the protocols and the pipe versions.
"""
