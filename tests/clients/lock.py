"""Write package-lock.json anew, without a host in it. Arguments go to npm (`NAME@latest` moves a pin).

npm leaves out where packages come from if it is told to (.npmrc); where their authors take donations
it writes all the same, and nothing reads that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    subprocess.run(
        ("npm", "install", "--package-lock-only", *sys.argv[1:]),  # noqa: S607
        cwd=HERE,
        check=True,
    )
    path = HERE / "package-lock.json"
    lock = json.loads(path.read_text())
    for package in lock["packages"].values():
        package.pop("funding", None)
    path.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
