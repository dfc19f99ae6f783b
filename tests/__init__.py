"""The tests of think-proxy."""
