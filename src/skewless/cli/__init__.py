"""The command-line tool: `skewless demo`, `run`, `inspect`, `version`."""

from skewless.cli.app import app, main

__all__ = ["app", "main"]
