#!/usr/bin/env python3
"""Writes lab/results/fleet.md: results.py EXAMPLE SYNTHETIC… where example.sh wrote EXAMPLE, and the others are made of it
by synthesize.py. Spark is asked of the first of these."""

import os
import pathlib
import resource
import sys
import time

import duckdb

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from hugetext_fleet import engines, show  # noqa: E402
from hugetext_fleet.queries import queries  # noqa: E402

# Two workers of one processor each, as processes of their own.
SPARK = "local-cluster[2,1,2048]"

HEAD = """# Questions about many machines

`hugetext-fleet DIR` asks the questions below of what [`hugetext inventory`](../../docs/inventory.md) wrote, with DuckDB,
which it brings along; `--master` asks Spark instead, by the same SQL. Answers come as a table, as CSV
(`--format csv`), or as one page of HTML (`--format html`).

    pip install ./fleet            # or: uv pip install ./fleet
    hugetext-fleet /srv/inventory
    hugetext-fleet --from 2026-11-01 --to 2026-11-08 /srv/inventory regressions
    hugetext-fleet --format html s3://bucket/inventory > fleet.html
    hugetext-fleet --master spark://host:7077 s3a://bucket/inventory costliest

The SQL is in [fleet/queries](../../fleet/queries). `make -C fleet test` compares the rows of DuckDB with those of Spark
in one process and of Spark with two workers. `lab/measure fleet` writes this document.
"""


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
    """Prints the document."""
    print(HEAD)
    print("## What the questions cost\n")
    load = os.getloadavg()[0]
    print(
        f"DuckDB {duckdb.__version__} with at most 8 GB on {os.cpu_count()} processors, on rows that"
        " `fleet/synthesize.py`\nmakes of those below. Each cell is the time that passed, and the"
        f" processor time of it. The load of the machine\nwas {load:.0f} when this began: what else ran"
        " there takes its share of the time that passed. The column of Spark\nis the time that passed with"
        f" `--master '{SPARK}'`; its first question pays for what the others use, too.\n"
    )
    measures = [measured(engines.DuckDB(place, "8GB")) for place in synthetic]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    load = os.getloadavg()[0]
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    of_spark, spark = measured(engines.Spark(synthetic[0], SPARK))
    columns = [f"{rows:,} rows".replace(",", " ") for rows, _ in measures]
    columns.append(f"Spark: {of_spark:,} rows".replace(",", " "))
    print("| question | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for query in queries():
        cells = [
            f"{wall:.1f} s ({spent:.1f} s)"
            for wall, spent in (times[query.name] for _, times in measures)
        ]
        cells.append(f"{spark[query.name][0]:.1f} s")
        print(f"| {query.name} | " + " | ".join(cells) + " |")
    cells = [f"{size(place) / rows:.1f} B" for place, (rows, _) in zip(synthetic, measures)]
    print("| bytes a row | " + " | ".join(cells) + " | |")
    print(f"\nThe process with DuckDB took {peak:.0f} MiB at most. The load was {load:.0f} when Spark began.\n")
    print("## An example\n")
    engine = engines.DuckDB(example)
    rows = engine.run("SELECT count(*), count(DISTINCT digest) FROM inventory").rows[0]
    print(
        f"{rows[0]} rows (fleet/example.sh). {rows[1]} images are each made of Debian's packages of a"
        " program, and\nare counted twice: as they would run on ext4, and on btrfs. Nothing of them was"
        " started. A host has three of the\nprograms in /srv, one that it linked itself, and an autopilot"
        " that observes. It is recorded twice: after the programs\nof packages were fixed, and after an upgrade"
        " replaced postgres. At most ten rows of each answer are shown. If a\nquestion has no row, no program"
        " fits it on this kernel and these filesystems.\n"
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
