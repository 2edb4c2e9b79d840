"""A resolved Catalyst tree, read from its JSON; what that leaves out is asked of the JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

REPLACEABLE = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
PLAIN_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def type_of(written: Any) -> pa.DataType | None:
    """The Arrow type for one that Spark writes in JSON, or none if we know none."""
    if not isinstance(written, str):
        return None
    if written.startswith("decimal("):
        precision, scale = written.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if written.startswith("interval") and not written.endswith(("year", "month", "interval")):
        return pa.duration("us")
    return PLAIN_TYPES.get(written)


class Node:
    """An expression in Catalyst: its class, its fields and its children in their order."""

    def __init__(self, fields: dict[str, Any], children: list[Node]) -> None:
        self.name: str = fields["class"].rpartition(".")[2]
        self.fields, self.children = fields, children
        self._above: tuple[Node, int] | None = None
        self._jvm: Any = None
        for i, child in enumerate(children):
            child._above = (self, i)

    @staticmethod
    def of(expression: Any) -> Node:
        """The tree under an expression in the JVM."""
        root = _read(iter(json.loads(expression.toJSON())))
        root._jvm = expression
        return root

    @property
    def jvm(self) -> Any:
        if self._jvm is None:
            assert self._above is not None
            above, i = self._above
            self._jvm = above.jvm.children().apply(i)
        return self._jvm

    @property
    def sql(self) -> str:
        return str(self.jvm.sql())

    @cached_property
    def names(self) -> frozenset[str]:
        """The classes of all expressions from here on down."""
        return frozenset([self.name]).union(*(child.names for child in self.children))

    @property
    def type(self) -> pa.DataType | None:
        """Of the result; asked of the JVM where the fields do not say."""
        if "dataType" in self.fields:
            return type_of(self.fields["dataType"])
        return type_of(json.loads(self.jvm.dataType().json()))

    @property
    def mode(self) -> str:
        """What becomes of overflows: "legacy", "ansi" or "try"."""
        return str(self.jvm.evalMode().toString()).lower()

    @property
    def replacement(self) -> Node | None:
        """The expression that Spark evaluates instead, if there is one."""
        gateway = SparkContext._gateway
        assert gateway is not None
        if is_instance_of(gateway, self.jvm, REPLACEABLE):
            return Node.of(self.jvm.replacement())
        return None

    def value(self) -> Any:
        """The value of an expression without columns, evaluated by Spark as Arrow takes it. Raises
        LookupError if it has none, with what Spark says to that if it fails."""
        if not self.jvm.foldable():
            raise LookupError
        try:
            value = self.jvm.eval(None)
        except Py4JJavaError as error:  # not evaluated as it stands
            raise LookupError from error
        except PySparkException as error:
            raise LookupError(str(error).strip().partition(" SQLSTATE")[0]) from error
        return plain(value, self.type)


def plain(value: Any, type: pa.DataType | None) -> Any:
    """A value of Catalyst as Arrow takes it."""
    if value is None or isinstance(value, bool | int | float | bytes | str):
        return value
    written = str(value.toString())
    return Decimal(written) if pa.types.is_decimal(type) else written


def _read(nodes: Iterator[dict[str, Any]]) -> Node:
    """The tree whose nodes come one after another, each before its children."""
    fields = next(nodes)
    return Node(fields, [_read(nodes) for _ in range(fields["num-children"])])
