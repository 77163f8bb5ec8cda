"""Task flows: a file with a goal, a model, prompts and a Mermaid diagram, and the diagram runs.

May import the instruments and whatever lies below. Refuses to know the command line, and any
vendor: a prompt of a flow is asked as every other is, by an engine, so that tools, approvals,
limits and the log are those that there are.
"""
