"""Table of all commands: names, modules and one-line descriptions, without importing them."""

from __future__ import annotations

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Converse": {
        "ask": ("ask:ask", "Ask one question and print the answer."),
        "chat": ("chat:chat", "Converse in the terminal."),
        "batch": ("batch:batch", "Ask a model about each line of a file, many at once."),
        "batches": ("", "Watch, stop and resume batches that workers process."),
        "flow": ("", "Run a task whose program is a Mermaid diagram."),
        "eval": ("", "Test models and tasks with a suite of cases and judges."),
        "embed": ("embed:embed", "Turn texts into vectors."),
        "rank": ("rank:rank", "Order texts by their relevance to a query."),
        "draw": ("draw:draw", "Draw or edit images."),
        "speak": ("speak:speak", "Speak a text."),
        "transcribe": ("transcribe:transcribe", "Write down the words of audio."),
        "moderate": ("moderate:moderate", "Classify texts as harmful or harmless."),
    },
    "Conversations": {
        "list": ("listing:list_", "List conversations, newest first."),
        "show": ("showing:show", "Show the messages of a conversation."),
        "search": ("searching:search", "Search all conversations, by words or by meaning."),
        "recall": ("", "Search folders of documents by meaning."),
        "memory": ("", "Show and edit the notes that models remember."),
        "export": ("exporting:export", "Write a conversation as Markdown, JSON or HTML."),
        "import": ("importing:import_", "Import conversations of other programs."),
        "fork": ("forking:fork", "Start a conversation that shares another's history."),
        "log": ("logging:log", "List a conversation's turns, or draw its forks."),
        "diff": ("diffing:diff", "Show how two conversations differ, turn by turn."),
        "blame": ("blaming:blame", "Show which model wrote each message, when, and its cost."),
        "cherry-pick": ("merging:cherry_pick", "Fork a conversation and add another's turns."),
        "merge": ("merging:merge", "Join the endings of two forks in a new fork."),
        "sync": ("syncing:sync", "Exchange conversations with another machine's store."),
        "rename": ("renaming:rename", "Rename a conversation."),
        "delete": ("deleting:delete", "Delete conversations; their forks keep what they share."),
        "verify": ("verifying:verify", "Verify every stored line and content hash."),
        "gc": ("verifying:gc", "Remove content that no conversation uses."),
        "store": ("", "Copy a store, compact logs, purge old runs, list uploads."),
    },
    "Runs": {
        "runs": ("", "Watch, approve, message and stop runs."),
        "top": ("top:top", "Watch runs on a full-screen display."),
        "view": ("view:view", "Open runs and conversations in a browser."),
        "worker": ("worker:worker", "Process queued runs and batches."),
    },
    "Serve": {
        "serve": ("", "Serve over HTTP: gateway (models), agents (runs), tools (MCP)."),
    },
    "Set-up": {
        "providers": ("providers:providers", "List providers and where they come from."),
        "models": ("models:models", "List, explain and download models."),
        "tools": ("tools:tools", "List, explain and call the tools that models may use."),
        "skills": ("skills:skills", "List, show and validate skills."),
        "config": ("config:config", "Show, check and change the configuration."),
        "credentials": ("credentials:credentials", "Store the API keys of providers."),
        "keys": ("keys:keys", "Issue keys for your gateway, and show what they spend."),
        "plugins": ("plugins:plugins", "List, add, remove and create plugins."),
        "trust": ("trust:trust", "Trust a project folder (its configuration may load code)."),
        "conformance": (
            "conformance:conformance",
            "Test a plugin's provider against the contract.",
        ),
        "completion": ("completion:completion", "Print the shell completion script."),
    },
}
"""Maps sections to commands: module (empty if it has subcommands) and description."""

SUBCOMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "batches": {
        "list": ("listing:list_", "List batches, newest first."),
        "watch": ("watching:watch", "Follow a batch until it stops."),
        "results": ("watching:results", "Write the results that a batch has so far."),
        "stop": ("stopping:stop", "Stop a batch; running requests still finish."),
        "resume": ("stopping:resume", "Resume a stopped or finished batch."),
        "delete": ("stopping:delete", "Delete a batch with its results."),
        "convert": ("watching:convert", "Convert a file of lines to a Parquet table."),
    },
    "eval": {
        "run": ("running:run", "Run a suite (also `vibe eval SUITE`)."),
        "compare": ("comparing:compare", "Compare two reports."),
    },
    "flow": {
        "new": ("creating:new", "Write an example task to start from."),
        "check": ("checking:check", "Find mistakes in tasks, without asking a model."),
        "run": ("running:run", "Run a task."),
        "show": (
            "showing:show",
            "Show a run's path, its cost, and whether it met its goal.",
        ),
        "resume": ("resuming:resume", "Resume a run that stopped before its end."),
        "fork": ("forking:fork", "Run again from a node, with other variables."),
        "diff": ("comparing:diff", "Show how two versions of a task differ."),
    },
    "memory": {
        "list": ("reading:list_", "List notes."),
        "show": ("reading:show", "Show a note, and where it was remembered."),
        "search": ("reading:search", "Search notes, by words or by meaning."),
        "add": ("writing:add", "Add a text to a note."),
        "edit": ("writing:edit", "Edit a note."),
        "delete": ("writing:delete", "Delete notes."),
    },
    "recall": {
        "add": ("folders:add", "Add folders of text files to the search."),
        "list": ("folders:list_", "List the folders, with the number of their files."),
        "remove": ("folders:remove", "Remove folders; their files are not deleted."),
        "search": ("recalling:search", "Search the folders and conversations."),
    },
    "runs": {
        "list": ("listing:list_", "List runs, most recently active first."),
        "show": ("showing:show", "Show a run's state, and the calls that await approval."),
        "watch": ("watching:watch", "Follow the events of a run."),
        "approve": ("approving:approve", "Allow, deny or edit a call that awaits approval."),
        "send": ("messaging:send", "Send a message to a run; the model reads it next."),
        "stop": ("messaging:stop", "Stop a run; it can be resumed."),
        "detach": ("messaging:detach", "Let a run continue after its watchers disconnect."),
        "resume": ("resuming:resume", "Resume a run in this process."),
        "fork": ("forking:fork", "Start a conversation that shares a run's history."),
        "replay": ("replaying:replay", "Replay a recorded run, without a model."),
        "diff": ("comparing:diff", "Find the first step at which two runs differ."),
        "bisect": ("comparing:bisect", "Find the version that changed a run."),
        "keep": ("replaying:keep", "Write a test that replays a run."),
        "delete": ("deleting:delete", "Delete a run with its conversation."),
    },
    "serve": {
        "gateway": ("gateway:gateway", "Serve any model to clients of any protocol."),
        "agents": ("agents:agents", "Run agents in the background; clients may disconnect."),
        "tools": ("tools:tools", "Serve tools to other programs over MCP."),
    },
    "store": {
        "copy": ("copying:copy", "Copy a store into another, and verify the copy."),
        "compact": ("compacting:compact", "Shorten the logs of runs that ended long ago."),
        "purge": ("purging:purge", "Delete finished runs older than a number of days."),
        "uploads": ("uploads:uploads", "List or remove the files that vendors have."),
        "migrate": ("migrating:migrate", "Move conversations of the old layout to subfolders."),
    },
}
"""Maps commands to their subcommands: each in a module of the folder of that name."""

FILE_COMMANDS = {"eval": "run"}
"""Maps commands to the subcommand that is executed if a file is named in place of one."""

GROUP_HELPS = {
    "batches": (
        "Batches submitted with `vibe batch --runner URL` and processed by `vibe worker`.\n\n"
        "Name a batch by its id or the first letters of its id.\n"
    ),
    "eval": (
        "Test models and tasks: a suite has cases, subjects that answer them, and judges.\n\n"
        "`vibe eval SUITE` runs a suite; `vibe eval compare A B` compares two reports.\n"
    ),
    "flow": (
        "Run tasks: a goal, a model, prompts, and a Mermaid diagram as the program.\n\n"
        "`vibe flow new` lists examples and writes one to start from.\n"
    ),
    "memory": (
        "Show and edit notes that outlive conversations.\n\n"
        "The tool `memory` lets a model read and write them: vibe chat --tools memory\n\n"
        "Your notes are NAME.md, those of this project project/NAME.md, and those of a tag "
        "tags/TAG/NAME.md.\n"
    ),
    "recall": (
        "Search folders of documents, and your conversations, by meaning.\n\n"
        "The tool `recall` lets a model do the same: vibe chat --tools recall\n"
    ),
    "runs": (
        "Watch and control runs on this machine, or on an agents daemon with --address.\n\n"
        "A run is a conversation with tools, or a flow. Its id is that of its conversation; the "
        "first\n"
        "letters are enough if no other run's id begins with them.\n"
    ),
    "serve": "Serve models, runs or tools over HTTP, until Ctrl-C.",
    "store": (
        "Manage the store of conversations, runs and content.\n\n"
        "Name a store as in the setting `store`: `directory` for your own files, the URL of a "
        "PostgreSQL\n"
        "database, or a plugin's store. A path names another directory.\n"
    ),
}
"""Maps commands with subcommands to their help texts."""
