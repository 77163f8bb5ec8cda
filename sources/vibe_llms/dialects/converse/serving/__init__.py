"""What answers another vibe-llms; only what serves clients imports it."""
