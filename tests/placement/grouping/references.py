"""The groupings once more, in plain Python: dicts, lists and fractions, a loop over the tuples, and
every look at all instances. Slow and plain on purpose; they share no code with the package."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import ceil, comb

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mixed(x: int) -> int:
    x &= WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def home(key: int, instances: int) -> int:
    return key * instances >> 64


def hash_functions(seed: int, count: int) -> list[int]:
    start = mixed(seed + 1)
    return [mixed(start + (j + 1) * GOLDEN) for j in range(count)]


def hashed(key: int, function: int, instances: int) -> int:
    return home(mixed(key ^ function), instances)


class Reference:
    """A grouping: `target` names the instance of a tuple, before the tuple is counted."""

    def __init__(self, instances: int, seed: int = 0) -> None:
        self.n, self.seed = instances, seed
        self.loads = [0] * instances

    def assign(self, keys: Iterable[int]) -> list[int]:
        targets = []
        for key in keys:
            target = self.target(key)
            self.loads[target] += 1
            self.sent(key, target)
            targets.append(target)
        return targets

    def target(self, key: int) -> int:
        raise AssertionError("each reference has its own")

    def sent(self, key: int, target: int) -> None:
        pass

    def least(self, places: Iterable[int]) -> int:
        return min(places, key=lambda place: self.loads[place])  # the first on a tie

    def two(self, key: int) -> list[int]:
        return [hashed(key, f, self.n) for f in hash_functions(self.seed, 2)]


class Shuffle(Reference):
    def target(self, key: int) -> int:
        return (sum(self.loads) + self.seed) % self.n


class ByKey(Reference):
    def target(self, key: int) -> int:
        if self.seed == 0:
            return home(key, self.n)
        return hashed(key, hash_functions(self.seed, 1)[0], self.n)


class TwoChoices(Reference):
    def target(self, key: int) -> int:
        return self.least(self.two(key))


def binomial_tail(window: int, least: int, p: float) -> float:
    return sum(comb(window, k) * p**k * (1 - p) ** (window - k) for k in range(least, window + 1))


@cache
def estimate(window: int, least: int, expected: float, epsilon: float) -> float:
    lower, upper, middle = 0.0, 1.0, 0.5
    while upper - lower > epsilon:
        middle = (upper + lower) / 2
        if binomial_tail(window, least, middle) < expected:
            lower = middle
        else:
            upper = middle
    return middle


class Popularity(Reference):
    """Algorithm 2 of the Pd-Stream paper, with a window that is traversed."""

    def __init__(
        self,
        instances: int,
        seed: int = 0,
        factor: int = 4,
        expected: float = 0.9,
        itself: bool = True,
    ) -> None:
        super().__init__(instances, seed)
        self.itself = itself
        self.length = max(1, factor * instances // 2)
        self.window: deque[int] = deque()
        self.routing_table: dict[int, list[int]] = {}
        self.expected = expected
        self.added = 0

    def limit(self, n_k: int) -> int:
        return int(estimate(self.length, n_k, self.expected, 1e-4) * self.n)

    def target(self, key: int) -> int:
        self.window.append(key)
        if len(self.window) > self.length:
            tail = self.window.popleft()
            if tail not in self.window:
                self.routing_table.pop(tail, None)
        n_k = self.window.count(key) - (not self.itself)
        if n_k <= 1:
            return self.least(self.two(key))
        candidates = self.routing_table.setdefault(key, list(dict.fromkeys(self.two(key))))
        lowest = min(self.loads)
        recorded = any(self.loads[place] == lowest for place in candidates)
        if not recorded and self.limit(n_k) > len(candidates):
            candidates.append(self.loads.index(lowest))
            self.added += 1
        return self.least(candidates)


class AdaptivePopularity(Popularity):
    """The same, with an expectation that follows the loads: a look after every window's tuples."""

    ladder = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 0.999)

    def __init__(self, instances: int, seed: int = 0) -> None:
        super().__init__(instances, seed)
        self.calm, self.needed, self.before, self.went_down = 0, 16, Fraction(0), False

    def sent(self, key: int, target: int) -> None:
        if sum(self.loads) % self.length:
            return
        ahead = max(self.loads) - Fraction(sum(self.loads), self.n)
        falling, self.before = ahead < self.before, ahead
        rung = self.ladder.index(self.expected)
        if ahead <= Fraction(3 * self.length, 2 * self.n):
            self.calm += 1
            if self.calm >= self.needed and self.added and rung:
                self._step(rung - 1)
        elif falling:
            self.calm = 0
        else:
            if self.went_down:
                self.needed = min(2 * self.needed, 1024)
            self._step(min(rung + 1, len(self.ladder) - 1), down=False)

    def _step(self, rung: int, down: bool = True) -> None:
        self.expected, self.went_down = self.ladder[rung], down
        self.calm = self.added = 0


class SpaceSaving:
    """Counters in a list of [key, count]; the first of the least is taken over."""

    def __init__(self, counters: int) -> None:
        self.counters: list[list[int | None]] = [[None, 0] for _ in range(counters)]

    def observe(self, key: int) -> tuple[int, bool]:
        """The estimate with this tuple, and whether the key has just come in."""
        for counter in self.counters:
            if counter[0] == key:
                counter[1] += 1
                return counter[1], False
        least = min(self.counters, key=lambda counter: counter[1])
        least[0] = key
        least[1] += 1
        return least[1], True


class HotKeys(Reference):
    def __init__(
        self,
        instances: int,
        seed: int = 0,
        threshold: float | None = None,
        counters: int | None = None,
    ) -> None:
        super().__init__(instances, seed)
        self.threshold = 1 / (5 * instances) if threshold is None else threshold
        self.summary = SpaceSaving(counters or ceil(2 / self.threshold))
        self.seen = 0

    def is_hot(self, key: int) -> bool:
        self.seen += 1
        count, self.is_new = self.summary.observe(key)
        return count >= self.threshold * self.seen


class Anywhere(HotKeys):
    """W-Choices."""

    def target(self, key: int) -> int:
        return self.least(range(self.n) if self.is_hot(key) else self.two(key))


def choices(shares: list[float], n: int, epsilon: float) -> int:
    """The inequality of D-Choices as the paper has it, with b instances instead of b/n."""
    if not shares:
        return min(2, n)
    head = sorted(shares, reverse=True)
    tail = max(0.0, 1 - sum(head))
    for d in range(max(2, ceil(head[0] * n)), n):
        fits = []
        for h in range(1, len(head) + 1):
            b = n - n * ((n - 1) / n) ** (h * d)
            load = sum(head[:h]) + (b / n) ** d * sum(head[h:]) + (b / n) ** 2 * tail
            fits.append(load <= b * (1 / n + epsilon))
        if all(fits):
            return d
    return n


class SomeChoices(HotKeys):
    """D-Choices."""

    refresh = 10_000
    d, due = 2, 1

    def target(self, key: int) -> int:
        hot = self.is_hot(key)
        if self.seen == self.due:
            counts = [count for _, count in self.summary.counters if count]
            head = [c / self.seen for c in counts if c >= self.threshold * self.seen]
            self.d = choices(head, self.n, 1e-4)
            self.due += min(self.seen, self.refresh)
        if not hot:
            return self.least(self.two(key))
        if self.d >= self.n:
            return self.least(range(self.n))
        functions = hash_functions(self.seed, self.d)
        return self.least([hashed(key, f, self.n) for f in functions])


class Score(HotKeys):
    """DAGreedy: the score of every instance, in fractions."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.had: dict[int, list[int]] = {}

    def target(self, key: int) -> int:
        hot, at_home = self.is_hot(key), hashed(key, hash_functions(self.seed, 1)[0], self.n)
        if self.is_new:
            self.had[key] = [at_home]
        if not hot:
            return at_home
        had, mean = self.had[key], Fraction(sum(self.loads), self.n)
        scores = {}
        for place in [*had, *(p for p in range(self.n) if p not in had)]:
            load = (self.loads[place] - mean) / mean if mean else 0
            scores[place] = Fraction(place in had) / 2 - Fraction(load) / 2
        best = max(scores, key=lambda place: scores[place])  # the first on a tie
        if best not in had:
            had.append(best)
        return best


class Bandit(HotKeys):
    """Dalton."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self.values: dict[int, list[float]] = {}
        self.fragments: dict[int, set[int]] = {}
        self.state = hash_functions(self.seed, 2)[1]
        self.hot = False

    def draw(self) -> int:
        self.state = (self.state + GOLDEN) & WORD
        return mixed(self.state)

    def target(self, key: int) -> int:
        self.hot = self.is_hot(key)
        place = hashed(key, hash_functions(self.seed, 1)[0], self.n)
        if self.is_new:
            self.values[key] = [-1.0 / self.n] * self.n
            self.values[key][place] = -0.5 / self.n
            self.fragments[key] = {place}
        if self.hot:
            if (self.draw() >> 11) * 2.0**-53 < 0.1:
                place = home(self.draw(), self.n)
            else:
                place = max(range(self.n), key=lambda p: self.values[key][p])
        return place

    def sent(self, key: int, target: int) -> None:
        if not self.hot:
            return
        self.fragments[key].add(target)
        load, mean = self.loads[target], self.seen / self.n
        uneven = (load - mean) / max(load, mean)
        reward = -(0.5 * uneven + 0.5 * len(self.fragments[key]) / self.n)
        self.values[key][target] += 0.1 * (reward - self.values[key][target])


def imbalance(targets: Iterable[int], instances: int) -> Fraction:
    loads = Counter(targets)
    mean = Fraction(sum(loads.values()), instances)
    return (max(loads.values()) - mean) / mean


def replication(keys: list[int], targets: list[int]) -> Fraction:
    return Fraction(len(set(zip(keys, targets, strict=True))), len(set(keys)))


def most_along_places(counts: list[int], places: list[set[int]], room: list[int]) -> int:
    """How many tuples fit where their keys are: by the theorem of minimum cuts, over all subsets
    of instances. The tuples of keys with no place outside a subset must fit into its room."""
    n, best = len(room), sum(counts)
    for subset in range(1 << n):
        inside = {i for i in range(n) if subset >> i & 1}
        bound = sum(c for c, p in zip(counts, places, strict=True) if not p <= inside)
        best = min(best, bound + sum(room[i] for i in inside))
    return best
