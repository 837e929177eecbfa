"""``python -m rashomon`` is the ``rashomon`` command."""

from rashomon.cli.main import main

if __name__ == "__main__":
    main()
