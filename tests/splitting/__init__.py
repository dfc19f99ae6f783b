"""The splitter held to its specification: a table, a second implementation, and properties."""
