"""Run every example of the gallery, and draw its picture into docs/gallery.

python examples/gallery/make.py [FOLDER]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NO_EXAMPLES = ("make.py", "picture.py")


def main(folder: Path) -> None:
    """Write FOLDER/NAME.svg for each example; stop at an example that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    for script in sorted(HERE.glob("*.py")):
        if script.name not in NO_EXAMPLES:
            print(f"--- {script.name}", flush=True)
            subprocess.run([sys.executable, script, "--picture", folder / f"{script.stem}.svg"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "docs" / "gallery")
