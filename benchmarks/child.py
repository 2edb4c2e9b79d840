"""Runs one function in a fresh process: ``python -m benchmarks.child MODULE FUNCTION PARAMETERS``.

The parameters are a JSON object; among them, `work` is the folder for everything written. What the
function returns is left there as ``result.json``.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

RESULT = "result.json"


def main(module: str, function: str, parameters: str) -> None:
    given = json.loads(parameters)
    result = getattr(importlib.import_module(module), function)(given)
    Path(given["work"], RESULT).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
