"""The conversation in the terminal: a loop between an input and an output.

`session` has the operations of a conversation, and `turns` gets one answer; `console` joins them
with an input and an output. `commands` is the table of slash commands, and `loop` reads messages
and commands. `console` and `output` define the protocols of inputs and outputs, with
implementations for pipes; `prompting` and `terminal` implement them for terminals, and are the only
modules that import prompt_toolkit and rich.
"""
