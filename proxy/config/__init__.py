"""The configuration: YAML, environment and command line in, one frozen `Settings` out."""

from proxy.config.description import describe, render
from proxy.config.load import find_file, load
from proxy.config.problems import ConfigError, Place, Problem

__all__ = ["ConfigError", "Place", "Problem", "describe", "find_file", "load", "render"]
