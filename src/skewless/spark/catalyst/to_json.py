"""How `to_json` is translated: of a struct that is made on the spot, as `to_json(struct(*))` is."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from skewless.expressions import Expression
from skewless.files.json_objects import JsonObject
from skewless.files.json_writing import NULLS
from skewless.files.written_texts import POLICY, unsupported_text

from .nodes import Node
from .translation import Translator, Untranslatable, rule
from .zones import zone_of

EVALUATOR = "StructsToJsonEvaluator"
IGNORE_NULLS = "ignorenullfields"


@rule("StructsToJson")
def structs_to_json(t: Translator, node: Node) -> Expression:
    return _to_json(t, node, node.jvm, node.children[0])


@rule("Invoke")
def invoke(t: Translator, node: Node) -> Expression:
    """What the optimizer makes of `to_json`, and of other functions that are not known here."""
    target, *arguments = node.children
    if not str(target.fields.get("value", "")).startswith(f"{EVALUATOR}("):
        raise Untranslatable(f"`{node.sql}` ({node.name}) is code or a query of its own")
    return _to_json(t, node, target.jvm.value(), arguments[0])


def _to_json(t: Translator, node: Node, written: Any, struct: Node) -> Expression:
    """`written` knows the options and the zone."""
    if struct.name != "CreateNamedStruct":
        raise Untranslatable(f"`{node.sql}` is not of a struct that is made there")
    if str(t.session.conf.get(POLICY, "CORRECTED")).upper() == "LEGACY":
        raise Untranslatable(f"the setting {POLICY} is LEGACY")
    zone = zone_of(t.session, str(written.timeZoneId().get()))
    fields = json.loads(struct.jvm.dataType().json())["fields"]
    for field in fields:
        if reason := unsupported_text(field["name"], field["type"], zone):
            raise Untranslatable(reason)
    names = tuple(field["name"] for field in fields)
    values = tuple(t.translate(child) for child in struct.children[1::2])
    return JsonObject(pa.string(), names, values, zone, _keeps_nulls(t, written.options()))


def _keeps_nulls(t: Translator, options: Any) -> bool:
    ignored = str(t.session.conf.get(NULLS, "true"))
    pairs = options.toSeq()
    for i in range(pairs.size()):
        name, value = str(pairs.apply(i)._1()), str(pairs.apply(i)._2())
        if name.lower() != IGNORE_NULLS:
            raise Untranslatable(f"the option {name!r} of to_json")
        ignored = value
    if ignored.lower() not in ("true", "false"):
        raise Untranslatable(f"ignoreNullFields {ignored!r}")
    return ignored.lower() == "false"
