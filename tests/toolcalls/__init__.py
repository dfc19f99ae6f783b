"""Tool calls inside thinking: found, typed, and recovered."""
