#!/usr/bin/env python3
"""Writes docs/fleet.md: results.py EXAMPLE SYNTHETIC… where EXAMPLE is an inventory of real images, and the
others are made of it by synthesize.py."""

import os
import pathlib
import resource
import sys
import time

import duckdb

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from hugetext_fleet import engines, show  # noqa: E402
from hugetext_fleet.queries import queries  # noqa: E402

HEAD = """# Questions about many machines

`hugetext-fleet DIR` asks the questions below of what [`hugetext inventory`](inventory.md) wrote, with DuckDB,
which it brings along; `--master` asks Spark instead, by the same SQL. Answers come as a table, as CSV
(`--format csv`), or as one page of HTML (`--format html`).

    pip install ./fleet            # or: uv pip install ./fleet
    hugetext-fleet /srv/inventory
    hugetext-fleet --format html s3://bucket/inventory > fleet.html
    hugetext-fleet --master spark://host:7077 s3a://bucket/inventory costliest

The SQL is in [fleet/queries](../fleet/queries). `make test-fleet` compares the rows of DuckDB with those of Spark
in one process and of Spark with two workers. `make results-fleet` writes this document.
"""


def measured(place):
    """The number of rows and bytes, and the time of every question in seconds, with processor time."""
    files = list(pathlib.Path(place).rglob("*.parquet"))
    size = sum(path.stat().st_size for path in files)
    engine = engines.DuckDB(place, "8GB")
    rows = engine.run("SELECT count(*) FROM inventory").rows[0][0]
    times = {}
    for query in queries():
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        engine.run(query.sql)
        after, wall = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begun
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times[query.name] = (wall, spent)
    engine.close()
    return rows, size, times


def main(example, synthetic):
    """Prints the document."""
    print(HEAD)
    print("## What the questions cost\n")
    load = os.getloadavg()[0]
    print(
        f"DuckDB {duckdb.__version__} with at most 8 GB on {os.cpu_count()} processors, on rows that"
        " `fleet/synthesize.py`\nmakes of those below. Each cell is the time that passed, and the"
        f" processor time of it. The load of the machine\nwas {load:.0f} when this began: what else ran"
        " there takes its share of the time that passed.\n"
    )
    measures = [measured(place) for place in synthetic]
    columns = [f"{rows:,} rows".replace(",", " ") for rows, _, _ in measures]
    print("| question | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for query in queries():
        cells = [
            f"{wall:.1f} s ({spent:.1f} s)"
            for wall, spent in (times[query.name] for _, _, times in measures)
        ]
        print(f"| {query.name} | " + " | ".join(cells) + " |")
    cells = [f"{size / rows:.1f} B" for rows, size, _ in measures]
    print("| bytes a row | " + " | ".join(cells) + " |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nThe process took {peak:.0f} MiB at most.\n")
    print("## An example\n")
    engine = engines.DuckDB(example)
    rows = engine.run("SELECT count(*), count(DISTINCT digest) FROM inventory").rows[0]
    print(
        f"{rows[0]} rows of {rows[1]} images, each made of Debian's packages of a program"
        " (fleet/example.py), as they\nwould run on this machine. Nothing of them was started, so"
        " starts and processor time are 0. At most ten rows of\neach answer are shown.\n"
    )
    for query in queries():
        answer = engine.run(query.sql)
        answer.rows = answer.rows[:10]
        print(show.table(query, answer))
    engine.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
