"""The conversation in the terminal: a loop between an input and an output, both protocols.

`session` knows what a chat can do and nothing of how it looks; `loop` reads, asks and stops;
`commands` is the table of slash commands. `terminal` and `prompting` are the only modules that
know rich and prompt_toolkit; `input` and `output` hold the protocols, and what serves pipes.
"""
