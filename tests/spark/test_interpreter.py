"""The Python that Spark starts its workers with: the driver's, if nobody chose one; one that was
chosen and lacks the package is refused at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError


def python_of(script: Path, options: str = "") -> str:
    """This interpreter by another path."""
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """One that finds nothing but the standard library."""
    return python_of(tmp_path / "bare", "-I -S")


def joined(rows: DataFrame) -> sk.Joined:
    right = rows.withColumnRenamed("timestamp", "seen")
    return sk.join(
        rows, right, on="value", left_time="timestamp", right_time="seen", within="1 second"
    )


def a_stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


def a_table(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "timestamp timestamp, value long")


def test_workers_without_the_package_are_refused_before_any_job(
    spark: SparkSession, bare_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)
    checkpoint = tmp_path / "state"
    writer = joined(a_stream(spark)).writeStream.option("checkpointLocation", str(checkpoint))
    table = joined(a_table(spark))
    for call in (
        lambda: writer.format("noop").start(),
        lambda: table.dataframe(str(tmp_path / "work")),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert caught.value.argument == "PYSPARK_PYTHON"
        assert bare_python in str(caught.value)
        assert sys.executable in str(caught.value)
    assert not checkpoint.exists()
    assert not (tmp_path / "work").exists()


def test_a_missing_interpreter_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "nothing"))
    with pytest.raises(ArgumentError, match="PYSPARK_PYTHON"):
        joined(a_table(spark)).dataframe()


def test_an_environment_need_not_be_activated(
    spark: SparkSession, bare_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    Path(bare_python).rename(tmp_path / "bin" / "python3")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    with pytest.raises(ArgumentError, match="PYSPARK_PYTHON"):  # it was chosen
        joined(a_table(spark)).dataframe()
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert joined(a_table(spark)).dataframe().collect() == []
    assert spark.sparkContext.pythonExec == sys.executable


def test_the_drivers_comes_before_another_that_would_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it would load may be of another version, and so may be the interpreter itself."""
    (tmp_path / "bin").mkdir()
    python_of(tmp_path / "bin" / "python3")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    monkeypatch.delenv("PYSPARK_PYTHON")
    joined(a_table(spark)).dataframe()
    assert spark.sparkContext.pythonExec == sys.executable


@pytest.mark.slow
def test_another_interpreter_with_the_package_will_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", python_of(tmp_path / "other"))
    assert joined(a_table(spark)).dataframe().collect() == []


def test_packages_sent_along_are_not_looked_for(
    spark: SparkSession, bare_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", bare_python)
    monkeypatch.setattr(spark.sparkContext, "_python_includes", ["skewless.zip"])
    with pytest.raises(Exception, match="No module named") as caught:
        joined(a_table(spark)).dataframe().collect()
    assert not isinstance(caught.value, ArgumentError)
