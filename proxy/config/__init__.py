"""The configuration: YAML, environment and command line in, one frozen `Settings` out."""

from proxy.config.description import describe, render, render_entry
from proxy.config.load import DEFAULT_FILE, load
from proxy.config.problems import ConfigError, Place, Problem

__all__ = ["DEFAULT_FILE", "ConfigError", "Place", "Problem", "describe", "load", "render", "render_entry"]
