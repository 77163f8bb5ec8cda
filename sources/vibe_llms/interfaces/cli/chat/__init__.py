"""The conversation in the terminal: a loop between an input and an output, both protocols.

`session` is the conversation, and `turns` gets one answer; `console` joins them with an input and
an output. `commands` is the table of slash commands, and `loop` reads messages and commands.
`terminal` and `prompting` are the only modules that know rich and prompt_toolkit; `console` and
`output` hold the protocols and the pipe versions.
"""
