"""The jars of Kafka: which ones, and where they come from. `docs/kafka.md` names the same.

Ivy comes with Spark: it fetches from Maven Central, once, into the cache that Spark uses, too.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path

import pyspark

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
# Of Spark's connector not every version is to be had with all that it depends on. These go with
# pyspark 4.1 to 4.3.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"

CACHE = Path.home() / ".ivy2.5.2" / "cache"
SPARKS = Path(pyspark.__file__).parent / "jars"
PATIENCE_S = 600

MODULE = """<ivy-module version="2.0"><info organisation="skewless" module="jars"/><dependencies>
{dependencies}</dependencies></ivy-module>"""


@functools.cache
def broker_jars() -> list[str]:
    return _resolved([BROKER])


@functools.cache
def connector_jars() -> list[str]:
    """What `spark.jars` has to name, for `format("kafka")` to be known."""
    return _missing(_resolved([CONNECTOR], overriding=[TOKENS]))


@functools.cache
def avro_jars() -> list[str]:
    """What `spark.jars` has to name, for `from_avro` and `to_avro` to be known."""
    return _missing(_resolved([AVRO]))


def _missing(found: list[str]) -> list[str]:
    """Those that Spark does not bring along."""
    has = {_artifact(jar.name) for jar in SPARKS.glob("*.jar")}
    return [jar for jar in found if _artifact(Path(jar).name) not in has]


def _artifact(jar: str) -> str:
    return re.sub(r"-\d[\w.-]*\.jar$", "", jar)


def _resolved(wanted: list[str], overriding: list[str] | None = None) -> list[str]:
    lines = [_tag("dependency", "name", one, ' conf="default->default"') for one in wanted]
    lines += [_tag("override", "module", one) for one in overriding or ()]
    [ivy] = SPARKS.glob("ivy-*.jar")
    with tempfile.TemporaryDirectory(prefix="skewless-jars-") as work:
        module, found = Path(work, "ivy.xml"), Path(work, "classpath")
        module.write_text(MODULE.format(dependencies="\n".join(lines)), encoding="utf-8")
        command = ["java", "-jar", str(ivy), "-cache", str(CACHE), "-ivy", str(module)]
        command += ["-types", "jar", "bundle", "-cachepath", str(found)]
        made = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if made.returncode != 0 or not found.exists():
            raise RuntimeError(f"cannot fetch {', '.join(wanted)}:\n{made.stdout[-3000:]}")
        return found.read_text(encoding="utf-8").strip().split(":")


def _tag(kind: str, name: str, coordinates: str, more: str = "") -> str:
    group, artifact, version = coordinates.split(":")
    return f'<{kind} org="{group}" {name}="{artifact}" rev="{version}"{more}/>'


if __name__ == "__main__":
    print(",".join(connector_jars() + avro_jars()))
