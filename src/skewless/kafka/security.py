"""Settings of who one is and whom one trusts, as Java's client has them and librdkafka understands
them: whoever reads from Kafka with Spark has to give them that way."""

from __future__ import annotations

import re
from collections.abc import Mapping

JAAS = "sasl.jaas.config"
MODULE = re.compile(r"\s*[\w.]*\.(?:Plain|Scram)LoginModule\s+required\b(.*?);?\s*", re.S)
OPTION = re.compile(r"""\s*(\w+)\s*=\s*(?:"([^"\\]*)"|'([^'\\]*)'|([\w.$-]+))""")
WANTED = {"username", "password"}
# What is PEM for both has two names.
PEM = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
ENDPOINT = "ssl.endpoint.identification.algorithm"


def as_librdkafka(given: Mapping[str, str]) -> dict[str, str]:
    """The same settings. What has no counterpart stays as it is.

    >>> module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    >>> as_librdkafka({"sasl.jaas.config": f"{module} required username='me' password='x y';"})
    {'sasl.username': 'me', 'sasl.password': 'x y'}
    >>> pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem"}
    >>> as_librdkafka(pem)
    {'ssl.ca.location': '/etc/ca.pem'}
    """
    left, found = dict(given), dict[str, str]()
    user = _user(left.get(JAAS, ""))
    if user is not None:
        del left[JAAS]
        found |= {f"sasl.{name}": value for name, value in user.items()}
    if _is(left, "ssl.truststore.type", "PEM"):
        del left["ssl.truststore.type"]
        if "ssl.truststore.location" in left:
            found["ssl.ca.location"] = left.pop("ssl.truststore.location")
    if _is(left, "ssl.keystore.type", "PEM", "PKCS12"):
        pem = left.pop("ssl.keystore.type").upper() == "PEM"
        if pem and "ssl.keystore.location" in left:  # one file has both
            both = left.pop("ssl.keystore.location")
            found |= {"ssl.certificate.location": both, "ssl.key.location": both}
    found |= {PEM[name]: left.pop(name) for name in PEM if name in left}
    if left.get(ENDPOINT) == "":
        found[ENDPOINT] = "none"
        del left[ENDPOINT]
    return found | left


def _is(given: Mapping[str, str], name: str, *values: str) -> bool:
    return given.get(name, "").upper() in values


def _user(jaas: str) -> dict[str, str] | None:
    """Name and password, if that is all that is said."""
    module = MODULE.fullmatch(jaas)
    if module is None or OPTION.sub("", module[1]).strip():
        return None
    told = {name: a or b or c for name, a, b, c in OPTION.findall(module[1])}
    return told if set(told) == WANTED else None
