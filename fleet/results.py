#!/usr/bin/env python3
"""Prints the record of lab/results/fleet.md: results.py EXAMPLE SYNTHETIC… where example.sh wrote EXAMPLE, and the others
are made of it by synthesize.py. Spark is asked of the first of these."""

import json
import os
import pathlib
import resource
import sys
import time

import duckdb

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "../lab/scripts")]

from hugetext_fleet import engines, show  # noqa: E402
from hugetext_fleet.queries import queries  # noqa: E402
from record import fact, row  # noqa: E402

# Two workers of one processor each, as processes of their own.
SPARK = "local-cluster[2,1,2048]"


def measured(engine):
    """The number of rows, and the time of every question in seconds, with processor time of this process."""
    rows = engine.run("SELECT count(*) FROM inventory").rows[0][0]
    times = {}
    for query in queries():
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        engine.run(query.sql)
        after, wall = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begun
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times[query.name] = (wall, spent)
        print(f"{query.name}: {rows} rows in {wall:.1f} s ({spent:.1f} s)", file=sys.stderr)
    engine.close()
    return rows, times


def size(place):
    """Bytes of all tables."""
    return sum(path.stat().st_size for path in pathlib.Path(place).rglob("*.parquet"))


def main(example, synthetic):
    """Prints the record."""
    fact("duckdb", duckdb.__version__)
    fact("processors", os.cpu_count())
    fact("load", round(os.getloadavg()[0]))
    fact("spark", SPARK)
    measures = [measured(engines.DuckDB(place, "8GB")) for place in synthetic]
    fact("peak_mib", round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
    fact("load_of_spark", round(os.getloadavg()[0]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    of_spark, spark = measured(engines.Spark(synthetic[0], SPARK))
    columns = [f"{rows:,} rows".replace(",", "\u202f") for rows, _ in measures]
    fact("columns", [*columns, f"Spark: {of_spark:,} rows".replace(",", "\u202f")])
    for query in queries():
        cells = [
            f"{wall:.1f} s ({spent:.1f} s)"
            for wall, spent in (times[query.name] for _, times in measures)
        ]
        row("cost", query.name, *cells, f"{spark[query.name][0]:.1f} s")
    cells = [f"{size(place) / rows:.1f} B" for place, (rows, _) in zip(synthetic, measures)]
    row("cost", "bytes a row", *cells, "")
    engine = engines.DuckDB(example)
    rows = engine.run("SELECT count(*), count(DISTINCT digest) FROM inventory").rows[0]
    fact("rows", rows[0])
    fact("images", rows[1])
    for query in queries():
        answer = engine.run(query.sql)
        answer.rows = answer.rows[:10]
        text = show.table(query, answer).rstrip("\n")
        print(json.dumps({"answer": text}, ensure_ascii=False), flush=True)
    engine.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
