"""The registry of strategies: none is missing from it, and all in it are as they should be."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import skewless as sk
from skewless import operators, placement
from skewless.errors import ArgumentError
from skewless.strategies import FAMILIES, Family

MEMBERS = [
    pytest.param(family, name, id=f"{family.operator}-{name}")
    for family in FAMILIES.values()
    for name in family.members
]
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
every_member = pytest.mark.parametrize(("family", "name"), MEMBERS)


def base_of(family: Family) -> Any:
    module, name = family.base
    return getattr(importlib.import_module(module), name)


def found_strategies(base: Any) -> set[Any]:
    """All classes of the package that can be made and derive from a base."""
    for package in (placement, operators):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found, waiting = set(), [base]
    while waiting:
        strategy = waiting.pop()
        waiting += strategy.__subclasses__()
        ours = strategy.__module__.startswith("skewless.")  # other tests make some, too
        if ours and not inspect.isabstract(strategy):
            found.add(strategy)
    return found


@every_family
def test_every_strategy_of_the_package_is_registered(family: Family) -> None:
    module, name = family.auto
    automatic = getattr(importlib.import_module(module), name)
    found = found_strategies(base_of(family))
    assert automatic in found, "what stands for auto is a strategy as well"
    assert found - {automatic} == set(family.classes().values()) - {automatic}


@every_member
def test_a_member_is_where_the_registry_says(family: Family, name: str) -> None:
    strategy = family.load(name)
    assert strategy.__module__ == family.members[name], "the file that it is written in"
    assert strategy.__name__ == name
    assert issubclass(strategy, base_of(family))
    assert getattr(sk, name) is strategy
    assert name in sk.__all__ and name in dir(sk)


@every_member
def test_a_member_says_what_its_parameters_trade(family: Family, name: str) -> None:
    """Every parameter is named in the docstring of the class, or of the one that it is from."""
    strategy = family.load(name)
    docs = [kind.__doc__ or "" for kind in strategy.__mro__ if kind.__module__.startswith("skew")]
    assert strategy.__doc__ and not strategy.__doc__.startswith(f"{name}("), "written by a person"
    named = set(re.findall(r"`(\w+)[`=]", " ".join(docs)))
    parameters = {field.name for field in fields(strategy)}
    assert parameters <= named, f"not a word about {sorted(parameters - named)}"


@every_member
def test_a_member_works_as_it_is_and_is_a_value(family: Family, name: str) -> None:
    strategy = family.load(name)
    assert is_dataclass(strategy)
    made = strategy()
    assert family.choose(made) is made
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(strategy())


@every_family
def test_auto_is_the_choice_of_the_house(family: Family) -> None:
    module, name = family.auto
    automatic = getattr(importlib.import_module(module), name)
    assert family.choose("auto") == family.choose(None) == automatic()


@every_family
@pytest.mark.parametrize("value", ["fast", 7, [], object])
def test_anything_else_is_refused_with_all_choices(family: Family, value: object) -> None:
    with pytest.raises(ArgumentError) as error:
        family.choose(value, "balance")
    assert error.value.argument == "balance"
    assert all(f"sk.{name}(…)" in str(error.value) for name in family.members)


@every_family
def test_words_are_unique(family: Family) -> None:
    assert list(family.words().values()) == list(family.members)


def test_the_words_of_job_files_stay() -> None:
    assert list(FAMILIES["join"].words()) == [
        "auto", "fastjoin", "lsstream", "none", "hash", "contrand", "broadcast"
    ]  # fmt: skip


def test_the_registry_loads_no_strategy() -> None:
    code = (
        "import sys; from skewless.strategies import FAMILIES\n"
        "print(*sorted({m.split('.')[0] for m in sys.modules} & {'pyspark', 'py4j', 'numba'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
