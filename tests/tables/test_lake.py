"""The cases of lake_cases.py and test_jdbc.py, with the Spark that Delta and Iceberg exist for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.processes import ROOT
from tests.tables import lake

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", ["lake_cases.py", "test_jdbc.py"])
def test_cases(cases: str, tmp_path: Path) -> None:
    lake.prepare()
    places = os.pathsep.join([str(lake.HOME), str(ROOT / "src")])
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--basetemp", str(tmp_path / "t")]
    done = subprocess.run(
        [*command, str(HERE / cases)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": places, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    print(done.stdout.splitlines()[-1])
