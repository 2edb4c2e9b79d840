"""The cases that the documents compare with Spark's own joins."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.semantics import CASES, Case, document, run_case


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_are_those_of_spark_unless_it_is_said_why(
    spark: SparkSession, tmp_path: Path, case: Case
) -> None:
    theirs, ours = run_case(spark, case, tmp_path)
    assert ours
    same = sorted(row for _, row in theirs) == sorted(row for _, row in ours)
    assert same == (not case.remark)
    assert case.name in document([(case, theirs, ours)])
