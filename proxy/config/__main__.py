"""`python -m proxy.config` prints the JSON schema of the configuration file."""

import sys

from proxy.config.schema import render_schema

if __name__ == "__main__":
    sys.stdout.write(render_schema())
