"""`python -m shapeproof` is the command `shapeproof`."""

from __future__ import annotations

from shapeproof.ci.cli import main

if __name__ == "__main__":
    main()
