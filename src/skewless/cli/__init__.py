"""The command-line tool: `skewless demo`, `run`, `validate`, `new`, `inspect` and others."""

from skewless.cli.app import app, main

__all__ = ["app", "main"]
