#!/usr/bin/env python3
"""Makes many rows of few: synthesize.py FROM TO ROWS. Every made-up host has the first rows of a real one, at other
times, on other kernels and with other use; half of them have the files themselves, and half as images."""

import pathlib
import sys

import duckdb

# Rows of one made-up host and date, at most.
KERNELS = "[5010, 5015, 6001, 6006, 6012, 6018, 7002]"


def synthesize(source, target, wanted):
    """Writes at least `wanted` rows; returns how many."""
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    files = f"{source}/*/*/*.parquet"
    connection.execute(
        f"CREATE TABLE real AS SELECT * FROM read_parquet('{files}', hive_partitioning = true,"
        " hive_types = {'date': DATE, 'host': VARCHAR})"
        " QUALIFY time = min(time) OVER (PARTITION BY machine)"
    )
    rows = connection.execute("SELECT count(*) FROM real").fetchone()[0]
    dates, copies = 4, -(-wanted // rows)
    hosts = -(-copies // dates)
    written = 0
    for date in range(dates):
        # One file holds many hosts: a fleet of real ones would be compacted in the same way.
        folder = pathlib.Path(target) / f"date=2026-11-{10 + date}" / "host=fleet"
        folder.mkdir(parents=True, exist_ok=True)
        connection.execute(
            f"""
            COPY (
              SELECT 1794268800 + {date} * 86400 AS time,
                     left(md5(machine || copy.n), 16) AS machine,
                     CASE WHEN copy.n % 2 = 0 THEN image END AS image,
                     CASE WHEN copy.n % 2 = 0 THEN digest || '-' || (copy.n % 50) END AS digest,
                     left(md5(build_id || (copy.n % 20)), 40) AS build_id,
                     file, segment, leaf, text, layout_now, layout_fix, layout_merge,
                     CASE WHEN {date} = 3 AND hash(file, copy.n) % 100 = 0 THEN 0
                          ELSE reach_now END AS reach_now,
                     reach_fix, reach_merge, cause,
                     CASE WHEN reach_fix = 0 AND copy.n % 3 = 0 THEN 7002 ELSE needs_kernel END
                       AS needs_kernel,
                     linker, filesystem, kernel,
                     {KERNELS}[copy.n % 7 + 1]::INTEGER AS kernel_number,
                     thp, refused,
                     (hash(file, copy.n) % 10000)::DOUBLE AS starts,
                     (hash(copy.n, file) % 1000000000000)::BIGINT AS cpu_ns, huge,
                     CASE WHEN copy.n % 5 = 0 THEN 100663296 * (1 + copy.n % 4) END::BIGINT
                       AS memory_limit
              FROM real, (SELECT unnest(range({hosts})) AS n) AS copy
            ) TO '{folder}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 500000,
                             PER_THREAD_OUTPUT true, OVERWRITE_OR_IGNORE true)
            """
        )
        written += rows * hosts
    return written


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(synthesize(sys.argv[1], sys.argv[2], int(sys.argv[3])))
