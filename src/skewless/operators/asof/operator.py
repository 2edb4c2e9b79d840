"""The asof join as an operator. It is placed as a two-way join is: by ranges of hashes, with the
left rows of a hot key dealt to several instances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from skewless.engine.operator import Work
from skewless.operators.asof.spec import AsofSpec
from skewless.operators.asof.work import AsofWork
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.operator import JoinOperator
from skewless.operators.two_way.work import JoinPlan


@dataclass(frozen=True)
class AsofOperator(JoinOperator):
    """An asof join of two inputs. Rows are stored, kept and decided about as in an outer join."""

    spec: AsofSpec

    kind: ClassVar[str] = "asof_join"

    def work(self, spec: JoinSpec, plan: JoinPlan) -> Work:
        return AsofWork(replace(self.spec, earlier=spec.earlier), plan)
