"""What the commands below ``vibe flow`` have in common: how a run is performed and shown."""
