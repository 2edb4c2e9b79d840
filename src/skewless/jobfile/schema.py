"""The JSON schema of job files, for editors: made of the one description."""

from __future__ import annotations

from skewless.jobfile.description import (
    FILE,
    INPUT,
    JOB,
    JOIN,
    SINK,
    SPARK,
    STEPS,
    TRIGGER,
    Table,
)
from skewless.jobfile.kinds import SETTINGS_SCHEMA, Schema, SubTable

DRAFT = "https://json-schema.org/draft/2020-12/schema"
# Where the tables of the file and of its jobs are described.
TABLES = {
    "left": "input", "right": "input", "join": "join", "inputs": "input", "steps": "step",
    "sink": "sink", "trigger": "trigger", "spark": "spark", "jobs": "job",
}  # fmt: skip


def json_schema() -> Schema:
    """What an editor has to know to complete and check job files. It knows their form; what hangs
    together beyond that is known to `skewless validate`."""
    steps = {f"step_{operator}": _object(table) for operator, table in STEPS.items()}
    choice = [{"$ref": f"#/$defs/{name}"} for name in steps]
    return {
        "$schema": DRAFT,
        "title": "A job file of skewless",
        **_object(FILE),
        "allOf": [
            {"anyOf": [{"required": ["checkpoint", "sink"]}, {"required": ["jobs"]}]},
            {"anyOf": [{"required": ["left", "right", "join"]}, {"required": ["steps"]}]},
        ],
        "$defs": {
            "settings": SETTINGS_SCHEMA,
            "input": _object(INPUT),
            "join": _object(JOIN),
            "sink": _object(SINK) | {"anyOf": [{"required": ["format"]}, {"required": ["table"]}]},
            "trigger": _object(TRIGGER) | {"maxProperties": 1},
            "spark": _object(SPARK),
            "job": _object(JOB),
            **steps,
            "step": {"oneOf": choice},
        },
    }


def _object(table: Table) -> Schema:
    properties: Schema = {}
    for key in table.keys:
        properties[key.name] = {"description": key.doc} | (
            _reference(key.name, key.kind) if isinstance(key.kind, SubTable) else key.kind.schema()
        )
    required = [key.name for key in table.keys if key.required]
    needs = {"required": required} if required else {}
    described = {"description": table.doc} if table.doc else {}
    return {
        "type": "object",
        **described,
        "properties": properties,
        "additionalProperties": False,
        **needs,
    }


def _reference(name: str, kind: SubTable) -> Schema:
    to = {"$ref": f"#/$defs/{TABLES[name]}"}
    return {"type": "object", "additionalProperties": to} if kind.named else to
