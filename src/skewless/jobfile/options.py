"""Options of inputs and sinks, as far as it is certain what is wanted."""

from __future__ import annotations

from collections.abc import Mapping

from skewless.jobfile.reading import Section
from skewless.jobfile.text import meant
from skewless.kafka.options import DELIVERIES, DELIVERY, PREFIX, SERVERS
from skewless.state.output import CHOICES, EXISTING

OWN = "skewless."
STORES = "skewless.store.fs."
LEAST_KEPT = 2
COUNTS = ("skewless.keepCommits", "skewless.keepHistory")
WORDS: Mapping[str, tuple[str, ...]] = {
    "skewless.hideKeys": ("true", "false"),
    EXISTING: CHOICES,
    DELIVERY: DELIVERIES,
}
TOPICS = ("subscribe", "subscribepattern", "assign")


def check_own_options(sink: Section, options: Mapping[str, str]) -> None:
    """The options of a sink that are ours: their names, and what they are set to."""
    known = {name.lower(): name for name in (*COUNTS, *WORDS)}
    for key, value in options.items():
        if not key.lower().startswith(OWN) or key.lower().startswith(STORES):
            continue
        name = known.get(key.lower())
        if name is None:
            choices = (*known.values(), f"{STORES}…")
            message = f"no option `{key}`{meant(key, choices)}; there is: {', '.join(choices)}"
            sink.text.note((*sink.path, "options", *_parts(sink, key)), message)
            continue
        is_count = value.isdigit() and int(value) >= LEAST_KEPT
        if name in COUNTS and not is_count:
            _refuse(sink, key, value, f"a whole number of at least {LEAST_KEPT}")
        elif name in WORDS and value.lower() not in WORDS[name]:
            _refuse(sink, key, value, f"one of: {', '.join(WORDS[name])}")


def check_kafka(section: Section, options: Mapping[str, str], *, reads: bool) -> None:
    """Which brokers, and of an input, which topics."""
    if "options" in section and "options" not in section.values:
        return  # what is wrong with them was told
    given = {key.lower() for key in options}
    if f"{PREFIX}{SERVERS}" not in given:
        wanted = "the brokers to ask first, such as host:9092,other:9092"
        section.note_missing_option(f"{PREFIX}{SERVERS}", wanted)
    if not reads:
        return
    topics = [key for key in options if key.lower() in TOPICS]
    if not topics:
        section.note_missing_option("subscribe", "the topic, or several with commas")
    elif len(topics) > 1:
        message = f"only one of these says which topics there are: {', '.join(topics)}"
        section.text.note((*section.path, "options", *_parts(section, topics[1])), message)


def _refuse(section: Section, key: str, value: str, accepted: str) -> None:
    section.text.refuse((*section.path, "options", *_parts(section, key)), value, accepted)


def _parts(section: Section, key: str) -> tuple[str, ...]:
    """How an option stands in the file: `a.b` may be a table in a table, or quoted."""
    return (key,) if key in section.raw.get("options", {}) else tuple(key.split("."))
