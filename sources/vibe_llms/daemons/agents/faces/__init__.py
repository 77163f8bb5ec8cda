"""Other protocols for the runs of the agents daemon: AG-UI, the AI SDK's UI messages, and A2A.

Each face translates requests and events. It adds no state of its own: the conversations, runs and
approvals are those of the other routes.
"""
