"""`python -m proxy` is the command `think-proxy`."""

from proxy.cli import main

if __name__ == "__main__":
    main()
