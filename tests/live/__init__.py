"""Tests against a model server that somebody started; see docs/testing.md."""
