"""Attempts to write what a library may not have."""

import sys


def attempt(name: str, write, *given, **options) -> None:
    """Writes a file, or names it and why it is left out."""
    try:
        write(*given, **options)
    except Exception as error:
        print(f"left out: {name}: {type(error).__name__}: {error}".splitlines()[0][:160], file=sys.stderr)
