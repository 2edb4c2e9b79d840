"""Job files for tests: one good step for each form of each operator, and bad ones."""

from __future__ import annotations

from typing import Any

import skewless as sk

HEAD = """\
checkpoint = "ckpt"

[inputs.orders]
format = "parquet"
path = "in/orders"
schema = "id BIGINT, cell BIGINT, price DOUBLE, city STRING, at TIMESTAMP, day DATE"

[inputs.tracks]
format = "parquet"
read = "columns"
path = "in/tracks"
schema = "taxi INT, cell BIGINT, speed DOUBLE, seen_at TIMESTAMP, day DATE, vector ARRAY<FLOAT>"

[inputs.payments]
format = "json"
path = "in/payments"
schema = "id BIGINT, amount DECIMAL(10, 2), paid_at TIMESTAMP, tags STRUCT<a: INT, b: STRING>"

[sink]
format = "noop"

"""

# The text of a step, and the call that it stands for: operator, inputs, arguments.
Call = tuple[str, tuple[str, ...], dict[str, Any]]
STEPS: dict[str, tuple[str, Call]] = {
    "join": (
        'join = ["orders", "tracks"]\non = "cell"\ntime = ["at", "seen_at"]\n'
        'within = "10 minutes"\nlate = "1 minute"',
        ("join", ("orders", "tracks"), {
            "on": "cell", "time": ("at", "seen_at"), "within": "10 minutes", "late": "1 minute",
        }),
    ),
    "join with a band, a condition and a filter": (
        'join = ["orders", "tracks"]\n'
        'on = [["cell", "cell"], { left = "price", right = "speed", width = 0.5 }]\n'
        'left_time = "at"\nright_time = "seen_at"\nwithin = ["-1 minute", "10 minutes"]\n'
        'condition = "price < speed and day = day_right"\nwhere = "taxi > 3"\n'
        'suffixes = ["", "_right"]\nstrategy = { strategy = "fastjoin", theta = 3.0 }\n'
        'slots = 64\ninstances = 4\nidle_after = ["1 hour", "2 hours"]\nmax_ahead = "1 day"',
        ("join", ("orders", "tracks"), {
            "on": [("cell", "cell"), sk.band("price", "speed", 0.5)],
            "left_time": "at", "right_time": "seen_at", "within": ("-1 minute", "10 minutes"),
            "condition": "price < speed and day = day_right", "where": "taxi > 3",
            "strategy": sk.FastJoin(theta=3.0), "slots": 64, "instances": 4,
            "idle_after": ("1 hour", "2 hours"), "max_ahead": "1 day",
        }),
    ),
    "join of any times": (
        'join = ["orders", "payments"]\non = { left = "id", right = "id", null_safe = true }\n'
        'within = "unbounded"\nhow = "left_semi"',
        ("join", ("orders", "payments"), {
            "on": sk.equal("id", "id", null_safe=True), "within": sk.UNBOUNDED, "how": "left_semi",
        }),
    ),
    "join, half open": (
        'join = ["orders", "payments"]\non = "id"\ntime = ["at", "paid_at"]\n'
        'within = ["0 seconds", "unbounded"]\non_null_time = "drop"\nbalance = "hash"',
        ("join", ("orders", "payments"), {
            "on": "id", "time": ("at", "paid_at"), "within": ("0 seconds", sk.UNBOUNDED),
            "on_null_time": "drop", "balance": sk.Hash(),
        }),
    ),
    **{
        f"join, {how}": (
            f'join = ["orders", "payments"]\non = "id"\ntime = ["at", "paid_at"]\n'
            f'within = "1 hour"\nhow = "{how}"',
            ("join", ("orders", "payments"), {
                "on": "id", "time": ("at", "paid_at"), "within": "1 hour", "how": how,
            }),
        )
        for how in ("inner", "left", "right", "full", "right_semi", "left_anti", "right_anti")
    },
    "asof": (
        'asof_join = ["orders", "tracks"]\non = ["cell"]\ntime = ["at", "seen_at"]\n'
        'direction = "nearest"\ntolerance = "10 seconds"\nallow_exact_matches = false\n'
        'how = "left"\nlate = ["1 second", "2 seconds"]',
        ("asof_join", ("orders", "tracks"), {
            "on": "cell", "time": ("at", "seen_at"), "direction": "nearest",
            "tolerance": "10 seconds", "allow_exact_matches": False, "how": "left",
            "late": ("1 second", "2 seconds"),
        }),
    ),
    "join3 by names": (
        'join3 = ["orders", "tracks", "payments"]\n'
        'on = [["orders.cell", "tracks.cell"], ["payments.id", "orders.id"]]\n'
        'time = ["at", "seen_at", "paid_at"]\nwithin = "1 minute"',
        ("join3", ("orders", "tracks", "payments"), {
            "on": [sk.equal("r.cell", "s.cell"), sk.equal("t.id", "r.id")],
            "time": ("at", "seen_at", "paid_at"), "within": "1 minute",
        }),
    ),
    "join3 by letters": (
        'join3 = ["orders", "tracks", "payments"]\n'
        'on = [{ left = "r.price", right = "s.speed", width = 5 }, ["r.id", "t.id"]]\n'
        'time = ["at", "seen_at", "paid_at"]\n'
        'within = { rs = "1 minute", rt = ["0 seconds", "5 minutes"] }\nstrategy = "tree"\n'
        'suffixes = ["_a", "_b", "_c"]\nlate = ["1 second", "2 seconds", "3 seconds"]',
        ("join3", ("orders", "tracks", "payments"), {
            "on": [sk.band("r.price", "s.speed", 5), sk.equal("r.id", "t.id")],
            "time": ("at", "seen_at", "paid_at"),
            "within": {"rs": "1 minute", "rt": ("0 seconds", "5 minutes")},
            "strategy": sk.Tree(), "suffixes": ("_a", "_b", "_c"),
            "late": ("1 second", "2 seconds", "3 seconds"),
        }),
    ),
    "similarity of two": (
        'similarity_join = ["orders", "tracks"]\n'
        'on = { left = ["price", "id"], right = ["speed", "taxi"] }\nmetric = "manhattan"\n'
        'threshold = 3\ntime = ["at", "seen_at"]\nwithin = "30 seconds"',
        ("similarity_join", ("orders", "tracks"), {
            "on": (["price", "id"], ["speed", "taxi"]), "metric": "manhattan", "threshold": 3,
            "time": ("at", "seen_at"), "within": "30 seconds",
        }),
    ),
    "similarity of one": (
        'similarity_join = "tracks"\non = "vector"\nthreshold = 0.5\nmetric = "angular"\n'
        'time = "seen_at"\nwindow = "1 minute"\nstrategy = "s3j"\ndimension = 3\non_bad = "drop"',
        ("similarity_join", ("tracks",), {
            "on": "vector", "threshold": 0.5, "metric": "angular", "time": "seen_at",
            "window": "1 minute", "strategy": sk.S3J(), "dimension": 3, "on_bad": "drop",
        }),
    ),
    "aggregate": (
        'aggregate = "orders"\nby = ["city", "cell"]\ntime = "at"\n'
        'window = ["10 minutes", "1 minute"]\nlate = "30 seconds"\ngrouping = "pdstream"\n'
        'aggs = { n = "count", total = ["sum", "price"], p95 = ["quantile", "price", 0.95] }',
        ("aggregate", ("orders",), {
            "by": ["city", "cell"], "time": "at", "window": ("10 minutes", "1 minute"),
            "late": "30 seconds", "grouping": sk.PdStream(),
            "aggs": {"n": "count", "total": ("sum", "price"), "p95": ("quantile", "price", 0.95)},
        }),
    ),
    "aggregate of all": (
        'aggregate = "orders"\nby = []\naggs = { cities = ["approx_distinct", "city"] }',
        ("aggregate", ("orders",), {"by": [], "aggs": {"cities": ("approx_distinct", "city")}}),
    ),
    "deduplicate": (
        'deduplicate = "payments"\nby = "id"\ntime = "paid_at"\nwithin = "10 minutes"\n'
        'instances = "auto"\nlate = "1 minute"',
        ("deduplicate", ("payments",), {
            "by": "id", "time": "paid_at", "within": "10 minutes", "late": "1 minute",
        }),
    ),
}  # fmt: skip

COMPOSED = """\
[steps.cheap]
from = "orders"
where = "price < 100"
select = ["id", "cell", "price", "at", "city AS town"]

[steps.rides]
join = ["cheap", "tracks"]
on = "cell"
time = ["at", "seen_at"]
within = "10 minutes"
late = "1 minute"
where = "price > 5"
select = ["id", "town", "at", "price"]

[steps.paid]
join = ["rides", "payments"]
on = "id"
time = ["at", "paid_at"]
within = "1 hour"
late = "1 minute"

[steps.revenue]
aggregate = "paid"
by = "town"
time = "paid_at"
window = "10 minutes"
aggs = { total = ["sum", "price"] }
select = ["town", "window.end AS until", "total"]
"""

JOBS = HEAD.replace('checkpoint = "ckpt"\n', "").replace('[sink]\nformat = "noop"\n', "") + (
    COMPOSED
    + """
[jobs.rides]
checkpoint = "ckpt/rides"
sink = { from = "rides", format = "parquet", path = "out/rides", partition_by = ["town"] }
trigger = { available_now = true }

[jobs.revenue]
checkpoint = "ckpt/revenue"
[jobs.revenue.sink]
from = "revenue"
table = "db.revenue"
mode = "update"
"""
)


def step_file(text: str, name: str = "found") -> str:
    return f"{HEAD}[steps.{name}]\n{text}\n"


GOOD = {
    **{name: step_file(text) for name, (text, _) in STEPS.items()},
    "composed": HEAD + COMPOSED,
    "jobs": JOBS,
    "a short join and a step": (
        HEAD + '[left]\nformat = "rate"\n[right]\nformat = "rate"\n[join]\non = "value"\n'
        'time = "timestamp"\nwithin = "1 minute"\n[steps.n]\naggregate = "join"\nby = "value"\n'
        'time = "timestamp"\nwindow = "1 minute"\naggs = { n = "count" }\n'
    ),
}

_JOIN = STEPS["join"][0]


def _with(old: str, new: str, name: str = "join") -> str:
    text = STEPS[name][0]
    assert old in text
    return step_file(text.replace(old, new))


# A file, and for each of its mistakes: the line (found by a part of its text) and what is said.
BAD: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "an operator that is none": (
        _with("join = ", "jion = "),
        [("[steps.found]", "must say what it does, by one of: join, asof_join, join3, "
          "similarity_join, aggregate, deduplicate, from (did you mean `join`?)")],
    ),
    "two operators": (
        _with("on = ", 'aggregate = "orders"\non = '),
        [("aggregate = ", "a step does one thing; here are join and aggregate")],
    ),
    "an input that is not there": (
        _with('"tracks"', '"track"'),
        [("join = ", "no input or step is called `track` (did you mean `tracks`?)")],
    ),
    "an input with a slip hides nothing else": (
        _with('"tracks"', '"track"') + 'where = "prize > 5"\n',
        [("join = ", "no input or step is called `track` (did you mean `tracks`?)"),
         ("where = ", "no column `prize` in `found` (did you mean `price`?)")],
    ),
    "three inputs of a join": (
        _with('"tracks"', '"tracks", "payments"'),
        [("join = ", "`steps.found.join` must be the names of 2 inputs or other steps")],
    ),
    "several mistakes": (
        _with('within = "10 minutes"\nlate', 'within = "10 minuts"\nlat').replace('"cell"', '""'),
        [
            ("on = ", "`steps.found.on` must be"),
            ("within = ", "`steps.found.within` must be a duration"),
            ("lat = ", "unknown key `steps.found.lat` (did you mean `late`?)"),
        ],
    ),
    "asof without tolerance": (
        _with('tolerance = "10 seconds"\n', "", "asof"),
        [("[steps.found]", "`steps.found.tolerance` is missing")],
    ),
    "asof with a band": (
        _with('["cell"]', '{ left = "price", right = "speed", width = 3 }', "asof"),
        [("on = ", "unknown key `steps.found.on.width`")],
    ),
    "join3 of one pair": (
        _with('["r.id", "t.id"]', '["r.id", "s.taxi"]', "join3 by letters"),
        [("on = ", "`steps.found.on` must be conditions that link all three inputs")],
    ),
    "join3 of unknown inputs": (
        _with("payments.id", "payment.id", "join3 by names"),
        [("on = ", "`payment` is none of the inputs: orders, tracks, payments, r, s, t "
          "(did you mean `payments`?)")],
    ),
    "join3 within of other pairs": (
        _with("rt = ", "st = ", "join3 by letters"),
        [("within = ", "`steps.found.within` must be one for each pair with a condition: rs, rt")],
    ),
    "a metric that is none": (
        _with('"angular"', '"cosine"', "similarity of one"),
        [("metric = ", '`steps.found.metric` must be one of: "euclidean"')],
    ),
    "within and window": (
        _with('window = "1 minute"', 'window = "1 minute"\nwithin = "1 minute"',
              "similarity of one"),
        [("window = ", "`steps.found.window` must be left out where `within` is given")],
    ),
    "an aggregate that is none": (
        _with('"count"', '"cuont"', "aggregate"),
        [("aggs = ", '(did you mean "count"?); received "cuont"')],
    ),
    "a quantile without a share": (
        _with(", 0.95", "", "aggregate"),
        [("aggs = ", '`steps.found.aggs.p95` must be ["quantile", "column", 0.95]')],
    ),
    "a window without time": (
        _with('time = "at"\n', "", "aggregate"),
        [("[steps.found]", "`steps.found.time` is missing")],
    ),
    "late without window": (
        step_file(STEPS["aggregate of all"][0] + '\nlate = "1 minute"'),
        [("late = ", "`steps.found.late` must be left out where there is no `window`")],
    ),
    "a strategy of another operator": (
        _with('"pdstream"', '"fastjoin"', "aggregate"),
        [("grouping = ", "`steps.found.grouping` must be one of")],
    ),
    "an outer join without a bound": (
        _with('"left_semi"', '"left_anti"', "join of any times"),
        [("how = ", "where `within` has no upper bound")],
    ),
    "totals taken further": (
        step_file(STEPS["aggregate of all"][0])
        + '[steps.more]\ndeduplicate = "found"\nby = "cities"\ntime = "t"\nwithin = "1 hour"\n',
        [
            ("deduplicate = ", "`found` has no `window`: its totals change with every batch"),
            ('time = "t"', "no column `t` in `found`"),
        ],
    ),
    "a circle": (
        HEAD + '[steps.a]\nfrom = "b"\n[steps.b]\nfrom = "a"\n',
        [("[steps.a]", "steps go round in a circle: a, b")],
    ),
    "no operator at all": (
        HEAD + '[steps.a]\nfrom = "orders"\n',
        [("[steps.a]", "`a` takes no operator")],
    ),
    "late of a result": (
        HEAD + COMPOSED.replace('window = "10', 'late = "1 second"\nwindow = "10'),
        [('late = "1 second"', "`steps.revenue.late` must be left out")],
    ),
    "which step?": (
        step_file(_JOIN) + f"[steps.other]\n{_JOIN}\n",
        [("[sink]", "`sink.from` is missing: several steps could be written: found, other")],
    ),
    "a step that is not there": (
        step_file(_JOIN).replace("[sink]", '[sink]\nfrom = "fuond"'),
        [('from = "fuond"', "`sink.from` must be the name of a step: found (did you mean")],
    ),
    "a job's keys beside jobs": (
        'name = "x"\n' + JOBS,
        [('name = "x"', "`name` belongs into each job where there are [jobs]")],
    ),
    "append of totals": (
        step_file(STEPS["aggregate of all"][0]).replace("[sink]", '[sink]\nmode = "append"'),
        [('mode = "append"', '`sink.mode` must be "update"')],
    ),
    "kafka as columns": (
        step_file(_JOIN).replace('format = "json"', 'format = "kafka"\nread  = "columns"'),
        [('read  = "columns"', '`inputs.payments.read` must be "spark" for kafka')],
    ),
    "a variable that is not there": (
        step_file(_JOIN).replace('"in/orders"', '"${SKEWLESS_NOT_SET}/orders"'),
        [("SKEWLESS_NOT_SET", "the environment variable SKEWLESS_NOT_SET is not set")],
    ),
    "several mistakes in one value": (
        _with('"count", total = ["sum"', '"cuont", total = ["smu"', "aggregate"),
        [("aggs = ", '(did you mean "count"?); received "cuont"'),
         ("aggs = ", '(did you mean "sum"?); received ["smu", "price"]')],
    ),
    "several mistakes in conditions": (
        _with('["cell", "cell"], { left = "price", right = "speed", width = 0.5 }',
              '{ lft = "cell", right = "" }, { left = "price", right = "speed", width = -1 }, 3',
              "join with a band, a condition and a filter"),
        [("on = ", "unknown key `steps.found.on[0].lft` (did you mean `left`?)"),
         ("on = ", "`steps.found.on[0].right` must be the name of a column"),
         ("on = ", "`steps.found.on[1].width` must be a number from 0 on"),
         ("on = ", "`steps.found.on[2]` must be")],
    ),
    "several mistakes in bounds": (
        _with('within = "10 minutes"\nlate = "1 minute"',
              'within = ["1 minuet", "x"]\nlate = ["y", "z"]'),
        [("within = ", "`steps.found.within[0]` must be a duration"),
         ("within = ", "`steps.found.within[1]` must be a duration"),
         ("late = ", "`steps.found.late[0]` must be a duration"),
         ("late = ", "`steps.found.late[1]` must be a duration")],
    ),
    "several mistakes of a strategy": (
        _with('strategy = { strategy = "fastjoin", theta = 3.0 }',
              'strategy = { strategy = "auto", tolerence = 1, patience = "x", noise = -1 }',
              "join with a band, a condition and a filter"),
        [("strategy = ", "unknown key `steps.found.strategy.tolerence`"),
         ("strategy = ", "`steps.found.strategy.patience` must be"),
         ("strategy = ", "`steps.found.strategy.noise` must be")],
    ),
    "several mistakes in settings": (
        step_file(_JOIN) + '[spark.conf]\nui.enabled = false\nspark.x = [1]\n',
        [("ui.enabled", "`ui.enabled` is not a Spark setting"),
         ("spark.x", "`spark.conf.spark.x` must be a text, a number, true or false")],
    ),
    "a slip in a key, and one in its value": (
        _with('within = "10 minutes"', 'wihtin = "10 minuets"'),
        [("wihtin", "unknown key `steps.found.wihtin` (did you mean `within`?)"),
         ("wihtin", "`steps.found.within` must be a duration")],
    ),
    "a slip in an operator, and in what it needs": (
        _with("join = ", "jion = ").replace('within = "10', 'within = "x'),
        [("[steps.found]", "must say what it does"),
         ("within = ", "`steps.found.within` must be a duration")],
    ),
    "a table misspelt": (
        step_file(_JOIN).replace("[steps.", "[stpes."),
        [("[stpes.", "unknown key `stpes` (did you mean `steps`?)")],
    ),
    "a step that cannot be read is there": (
        HEAD + '[steps.a]\nmerge = ["orders", "tracks"]\n'
        '[steps.b]\ndeduplicate = "a"\nby = "id"\ntime = "at"\nwithin = "1 hour"\n',
        [("[steps.a]", "the step `a` must say what it does")],
    ),
    "jobs with one checkpoint and one output": (
        JOBS.replace('"ckpt/revenue"', '"ckpt/rides/"').replace(
            'table = "db.revenue"', 'format = "csv"\npath = "out/rides/"'),
        [('checkpoint = "ckpt/rides/"', "must be another folder than that of `rides`"),
         ('path = "out/rides/"', "must be another folder than that of `rides`")],
    ),
    "options of our own": (
        step_file(_JOIN).replace('"noop"', '"noop"\noptions = { skewless.keepComits = 3, '
                                 '"skewless.keepHistory" = "x", skewless.store.fs.a = "b" }'),
        [("options = ", "no option `skewless.keepComits` (did you mean `skewless.keepCommits`?)"),
         ("options = ", "`sink.options.skewless.keepHistory` must be a whole number")],
    ),
    "kafka without brokers": (
        step_file(_JOIN).replace('format = "json"\npath = "in/payments"', 'format = "kafka"'),
        [("[inputs.payments]", "the option `kafka.bootstrap.servers` is missing"),
         ("[inputs.payments]", "the option `subscribe` is missing")],
    ),
    "an input and a step of one name": (
        step_file(_JOIN, "orders") + f"[steps.found]\n{_JOIN}\n",
        [("[steps.orders]", "`orders` is the name of an input or step already")],
    ),
}  # fmt: skip

# Mistakes in columns and types, told without Spark.
BAD_COLUMNS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "a key that is not there": (
        _with('on = "cell"', 'on = ["cel"]'),
        [("on = ", "no column `cel` in `orders` (did you mean `cell`?)"),
         ("on = ", "no column `cel` in `tracks` (did you mean `cell`?)")],
    ),
    "keys that are not compared": (
        _with('on = "cell"', 'on = [["id", "day"]]'),
        [("on = ", "Spark does not compare id (bigint) with day (date): cast one of them")],
    ),
    "a time that is none": (
        _with('["at", "seen_at"]', '["day", "seen_at"]'),
        [("time = ", "the event time must be a timestamp; day (date) is none")],
    ),
    "a time that is not there": (
        _with('["at", "seen_at"]', '["att", "seen_at"]'),
        [("time = ", "no column `att` in `orders`")],
    ),
    "times of two types": (
        _with("late", "late").replace("seen_at TIMESTAMP", "seen_at TIMESTAMP_NTZ"),
        [("time = ", "must be of one type; these are timestamp and timestamp_ntz")],
    ),
    "a condition on what is not there": (
        _with('condition = "price < speed', 'condition = "price < speeed',
              "join with a band, a condition and a filter"),
        [("condition = ", "no column `speeed` in `found` (did you mean `speed`?)")],
    ),
    "a filter on what is not there": (
        _with('where = "taxi > 3"', 'where = "taxis > 3"',
              "join with a band, a condition and a filter"),
        [("where = ", "no column `taxis` in `found` (did you mean `taxi`?)")],
    ),
    "a filter on what a semi join has not": (
        step_file(STEPS["join of any times"][0] + '\nwhere = "amount > 3"'),
        [("where = ", "no column `amount` in `found`")],
    ),
    "a selected column that is not there": (
        HEAD + COMPOSED.replace('"town", "at", "price"]', '"town", "at", "prize"]'),
        [("prize", "no column `prize` in `rides` (did you mean `price`?)"),
         ("total = ", "no column `price` in `paid`")],
    ),
    "a band of texts": (
        _with('left = "price", right = "speed"', 'left = "city", right = "speed"',
              "join with a band, a condition and a filter"),
        [("on = ", "a band of city (string) with speed (double): must be two numeric columns")],
    ),
    "a band of dates by the hour": (
        _with('on = "cell"', 'on = { left = "day", right = "day", width = "1 hour" }'),
        [("on = ", "the width must be whole days, as the columns are dates")],
    ),
    "a sum of texts": (
        _with('["sum", "price"]', '["sum", "city"]', "aggregate"),
        [("aggs = ", '"sum" of city (string)')],
    ),
    "an aggregate of what is not there": (
        _with('["sum", "price"]', '["sum", "prize"]', "aggregate"),
        [("aggs = ", "no column `prize` in `orders` (did you mean `price`?)")],
    ),
    "a struct as key": (
        _with('by = "id"', 'by = "tags"', "deduplicate"),
        [("by = ", "keys hold no other values; tags (struct<a: int, b: string>) does")],
    ),
    "vectors of texts": (
        _with('on = "vector"', 'on = ["seen_at"]', "similarity of one"),
        [("on = ", "compares")],
    ),
    "partitions that are not there": (
        step_file(_JOIN).replace("[sink]", '[sink]\npartition_by = ["dya"]'),
        [("partition_by = ", "no column `dya` in `found` (did you mean `day`?)")],
    ),
    "a field that is not there": (
        _with('aggs = {', 'select = ["window.strt", "n"]\naggs = {', "aggregate"),
        [("select = ", "`window` has no field `strt` (did you mean `start`?); it has: start, end")],
    ),
    "a schema of JSON": (
        step_file(_JOIN + "\nselect = [\"from_json(city, 'a BIGNT') AS v\", 'id']"),
        [("select = ", "`BIGNT`, of the column `a`, is no type (did you mean `bigint`?)")],
    ),
    "formats that are nearly there": (
        step_file(_JOIN).replace('"noop"', '"nop"').replace(
            'format = "parquet"\npath = "in/orders"', 'format = "parqet"\npath = "in/orders"'
        ),
        [('"parqet"', 'no format "parqet" (did you mean "parquet"?)'),
         ('"nop"', 'no format "nop" (did you mean "noop"?)')],
    ),
    "what kafka takes": (
        step_file(_JOIN).replace(
            'format = "noop"',
            'format = "kafka"\noptions = { kafka.bootstrap.servers = "a:1" }'),
        [('format = "kafka"', "kafka takes a column named `value`"),
         ("options = ", "kafka needs a `topic`")],
    ),
    "a type that is none": (
        step_file(_JOIN).replace("id BIGINT, cell", "id BIGINTT, cell"),
        [("schema = ", "`BIGINTT`, of the column `id`, is no type (did you mean `bigint`?)")],
    ),
    "files without a schema": (
        step_file(_JOIN).replace('path = "in/orders"\nschema', 'path = "in/orders"\n#'),
        [("[inputs.orders]", "`orders` needs a `schema`, as files may come later")],
    ),
    "suffixes that leave names twice": (
        _with('late = "1 minute"', 'suffixes = ["", ""]'),
        [("suffixes = ", "`suffixes` must be such that no output column appears twice: ['day']")],
    ),
}  # fmt: skip

# Mistakes that the engine tells later: in the first batch, or when others are mended.
BAD_TOLD_EARLY: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "columns that are there twice": (
        step_file(_JOIN + '\nselect = ["id", "day AS Id"]').replace(
            "id BIGINT, amount", "Id INT, id BIGINT"
        ),
        [("schema = \"Id INT", "two columns are called `id`"),
         ("select = ", "two columns are called `Id`")],
    ),
    "a type that is none hides nothing else": (
        _with('["at", "seen_at"]', '["att", "seen_at"]').replace("price DOUBLE", "price DUOBLE")
        + 'where = "prize > 5"\n',
        [("price DUOBLE", "`DUOBLE`, of the column `price`, is no type (did you mean `double`?)"),
         ("time = ", "no column `att` in `orders`"),
         ("where = ", "no column `prize` in `found` (did you mean `price`?)")],
    ),
    "a column without a type hides nothing else": (
        _with('["at", "seen_at"]', '["att", "seen_at"]').replace("price DOUBLE", "price")
        + 'where = "prize > 5"\n',
        [("price, city", '`price` is no column and type, such as "id BIGINT"'),
         ("time = ", "no column `att` in `orders`"),
         ("where = ", "no column `prize` in `found` (did you mean `price`?)")],
    ),
    "a format with a slip hides nothing else": (
        step_file(_JOIN + '\nselect = ["cell", "prize"]').replace('"noop"', '"kafak"')
        .replace('path = "in/orders"', "").replace('"parquet"', '"parqet"', 1),
        [("[inputs.orders]", "`inputs.orders.path` is missing"),
         ('"parqet"', 'no format "parqet" (did you mean "parquet"?)'),
         ("[sink]", "the option `kafka.bootstrap.servers` is missing"),
         ("[sink]", "kafka needs a `topic`"),
         ('"kafak"', 'no format "kafak" (did you mean "kafka"?)'),
         ('"kafak"', "kafka takes a column named `value`"),
         ("select = ", "no column `prize` in `found` (did you mean `price`?)")],
    ),
    "what csv cannot hold": (
        step_file(_JOIN).replace('format = "noop"', 'format = "csv"\npath = "out"'),
        [('format = "csv"', "csv has plain values only, not vector (array<float>)")],
    ),
    "the rest of a value with a mistake": (
        _with('"count", total = ["sum", "price"]', '"cuont", total = ["sum", "prize"]',
              "aggregate"),
        [("aggs = ", 'received "cuont"'), ("aggs = ", "no column `prize` in `orders`")],
    ),
    "columns of a circle": (
        HEAD + '[steps.a]\nfrom = "b"\n[steps.b]\njoin = ["a", "tracks"]\non = "cel"\n'
        'time = "seen_at"\nwithin = "1 minute"\n',
        [("[steps.a]", "steps go round in a circle: a, b"),
         ("on = ", "no column `cel` in `tracks` (did you mean `cell`?)")],
    ),
}  # fmt: skip
