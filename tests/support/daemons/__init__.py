"""The agents and tools daemons, alone or all three together, and chaos against them."""
