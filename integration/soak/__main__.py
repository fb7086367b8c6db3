"""``python -m integration.soak``: clients are forked and import this too, so it imports nothing by itself."""

if __name__ == "__main__":
    import sys

    from integration.soak.command import main

    sys.exit(main())
