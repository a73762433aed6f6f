"""``python -m warpwise``."""

from warpwise.cli import main

if __name__ == "__main__":
    main()
