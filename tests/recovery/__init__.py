"""Tool calls left inside thinking become calls of the answer."""
