"""Every text form of thinking, and every way it starts."""
