"""The questions give the same rows on every engine, and the right ones."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

duckdb = pytest.importorskip("duckdb")
FLEET = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FLEET))

from hugetext_fleet import engines, show  # noqa: E402
from hugetext_fleet.queries import queries  # noqa: E402

MIB = 1 << 20
ROW = {
    "time": 1000,
    "machine": "m1",
    "image": None,
    "digest": None,
    "build_id": "aa",
    "file": "/usr/bin/a",
    "segment": 1,
    "leaf": 2 * MIB,
    "text": 10 * MIB,
    "layout_now": 0,
    "layout_fix": 8 * MIB,
    "layout_merge": 9 * MIB,
    "reach_now": 0,
    "reach_fix": 8 * MIB,
    "reach_merge": 9 * MIB,
    "cause": "incongruent",
    "needs_kernel": None,
    "linker": "GNU ld",
    "filesystem": "ext4",
    "kernel": "6.12.1",
    "kernel_number": 6012,
    "thp": "madvise",
    "refused": None,
    "starts": 5.0,
    "cpu_ns": 1000,
    "huge": 0,
    "memory_limit": None,
    "verdict": None,
}
TYPES = {
    "segment": "INTEGER",
    "needs_kernel": "INTEGER",
    "kernel_number": "INTEGER",
    "starts": "DOUBLE",
}
TEXTS = {"machine", "image", "digest", "build_id", "file", "cause", "linker", "filesystem"}
TEXTS |= {"kernel", "thp", "refused", "verdict"}


def column(name):
    kind = TYPES.get(name, "VARCHAR" if name in TEXTS else "BIGINT")
    return f"{name} {kind}"


def write(place, date, host, rows):
    """Writes rows as the program does. Older versions lack the columns of LATER: no row of a file has them, or all."""
    is_new = any(name in row for row in rows for name in engines.LATER)
    first = ROW if is_new else {name: ROW[name] for name in ROW if name not in engines.LATER}
    folder = place / f"date={date}" / f"host={host}"
    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE rows ({', '.join(map(column, first))})")
    marks = ", ".join("?" for _ in first)
    for row in rows:
        connection.execute(f"INSERT INTO rows VALUES ({marks})", list({**first, **row}.values()))
    name = f"{len(list(folder.iterdir()))}.parquet"
    connection.execute(f"COPY rows TO '{folder / name}' (FORMAT parquet, COMPRESSION zstd)")


@pytest.fixture(scope="module", name="place")
def small_fleet(tmp_path_factory):
    """Two machines, two images, three dates."""
    place = tmp_path_factory.mktemp("fleet")
    old = {"file": "/usr/bin/b", "build_id": "bb", "time": 900, "reach_now": 4 * MIB}
    write(place, "2026-11-20", "h1", [{**old, "time": 800, "build_id": "b0", "reach_now": 2 * MIB}])
    write(place, "2026-11-21", "h1", [{**old, "layout_now": 4 * MIB}])
    blocked = {"reach_now": 0, "reach_fix": 0, "reach_merge": 0, "cause": "kernel"}
    write(
        place,
        "2026-11-22",
        "h1",
        [
            {},
            {"segment": 2, "starts": 0.0, "cpu_ns": 0, "text": MIB, "reach_fix": 0, "reach_merge": 0},
            {**old, "time": 1000, "build_id": "b2", "reach_now": 0, "refused": "no_room"},
        ],
    )
    write(
        place,
        "2026-11-22",
        "12345",
        [
            {"machine": "m2"},
            {"machine": "m2", "file": "/usr/bin/c", "build_id": "cc", **blocked, "needs_kernel": 6018},
            {"machine": "m2", "file": "/usr/bin/d", "build_id": "dd", **blocked, "needs_kernel": 7002},
            {"machine": "m2", "image": "postgres", "digest": "sha256:1", "linker": "lld"},
            {"machine": "m2", "image": "go", "digest": "sha256:2", "build_id": "go", "linker": "Go's linker"},
            # 112 MiB leave room for 5.3 MiB of text, 128 MiB for 10.7 MiB.
            *(
                {"machine": "m2", "file": f"/{limit}", "build_id": "ll", "reach_now": 8 * MIB, "layout_now": 8 * MIB}
                | {"memory_limit": limit * MIB}
                for limit in (112, 128)
            ),
        ],
    )
    return place


# What is asked about: the rows of all dates, and of some.
ALL, FIRST, LAST = (None, None), (None, "2026-11-21"), ("2026-11-21", None)


def of_period(place, period):
    return answers(engines.DuckDB(str(place), period=engines.Period(*period)))


def answers(engine):
    found = {query.name: engine.run(query.sql) for query in queries()}
    engine.close()
    return found


@pytest.fixture(scope="module", name="asked")
def asked_duckdb(place):
    return answers(engines.DuckDB(str(place)))


def by_name(answer):
    return [dict(zip(answer.columns, row)) for row in answer.rows]


def test_the_costliest_build_ids_are_summed_over_machines(asked):
    first = by_name(asked["costliest"])[0]
    assert first["build_id"] == "aa" and first["hosts"] == 2 and first["images"] == 1
    assert first["saved_by_fix"] == 24 * MIB and first["starts"] == 15


def test_an_upgrade_counts_all_that_older_kernels_held_back(asked):
    assert [(row["upgrade_to"], row["gained_after_fix"]) for row in by_name(asked["upgrade"])] == [
        (6018, 8 * MIB),
        (7002, 16 * MIB),
    ]


def test_a_regression_is_seen_with_the_build_that_made_it(place, asked):
    fallen = {
        "host": "h1",
        "machine": "m1",
        "image": "",
        "file": "/usr/bin/b",
        "build_id_before": "b0",
        "build_id_after": "b2",
        "reached_before": 2 * MIB,
        "reached_after": 0,
    }
    assert by_name(asked["regressions"]) == [fallen]
    regressions = by_name(of_period(place, LAST)["regressions"])
    assert regressions == [{**fallen, "build_id_before": "bb", "reached_before": 4 * MIB}]
    assert of_period(place, FIRST)["regressions"].rows == []


def test_linkers_are_told_with_their_options(asked):
    rows = [row for row in by_name(asked["linkers"]) if row["cause"] == "incongruent"]
    found = {(row["image"], row["linker"]): row for row in rows}
    option = f"-Wl,-z,max-page-size={2 * MIB}"
    assert {key: row["options"] for key, row in found.items()} == {
        ("hosts", "GNU ld"): option,
        ("postgres", "lld"): option,
        ("go", "Go's linker"): None,
    }
    assert found["hosts", "GNU ld"]["hosts"] == 2


def test_obstacles_and_settings_are_told(asked):
    held_back = by_name(asked["obstacles"])
    assert [(row["cause"], row["lost_after_fix"]) for row in held_back] == [
        ("kernel", 16 * MIB),
        ("incongruent", 8 * MIB),
    ]
    prevented = {row["prevented_by"]: row for row in by_name(asked["prevented"])}
    assert prevented.keys() == {"nothing", "no_room", "memory_limit"}
    limited = prevented["memory_limit"]
    assert (limited["segments"], limited["lowest_limit"]) == (1, 112 * MIB)


def ensure_spark_gives_the_same_rows(place, master, period):
    pytest.importorskip("pyspark")
    # In a process of its own: a session keeps the master that it began with.
    environment = {**os.environ, "PYTHONPATH": str(FLEET), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "hugetext_fleet", "--master", master, "--format", "csv", place]
    for word, day in zip(["--from", "--to"], period):
        command += [word, day] if day else []
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    asked = of_period(place, period)
    expected = "\n".join(
        show.comma_separated(query, asked[query.name]) for query in queries()
    )
    assert done.stdout == expected


NEEDS_JAVA = pytest.mark.skipif(
    not shutil.which("java"), reason="Java is missing: scripts/setup.sh fleet"
)


@NEEDS_JAVA
@pytest.mark.parametrize("master, period", [("local[2]", LAST), ("local-cluster[2,1,1024]", ALL)])
def test_spark_gives_the_same_rows(place, master, period):
    ensure_spark_gives_the_same_rows(place, master, period)


@NEEDS_JAVA
def test_spark_gives_the_same_rows_of_older_programs_alone(tmp_path):
    write(tmp_path, "2026-11-21", "h1", [{}])
    ensure_spark_gives_the_same_rows(tmp_path, "local[2]", ALL)


def test_every_format_has_every_question(place):
    for form, mark in [("table", "**"), ("csv", "question,"), ("html", "<h2 id=")]:
        command = [sys.executable, "-m", "hugetext_fleet", "--format", form, place]
        done = subprocess.run(command, cwd=FLEET, capture_output=True, text=True, check=True)
        marks = done.stdout.count(mark) // (2 if form == "table" else 1)
        assert marks == len(queries()), form


def test_the_page_looks_like_a_report():
    report = FLEET.parent / "crates/hugetext/src/report/report.html"
    known = [line.strip() for line in report.read_text().splitlines()]
    assert [line for line in show.STYLE.splitlines() if line.strip() not in known] == []


def test_a_page_shows_what_is_in_the_rows_and_runs_none_of_it():
    answer = engines.Answer(["file", "text", "cause"], [("<script>", 4096, None), ("/a", 1, "x")])
    [query] = queries(["costliest"])
    page = show.page([(query, answer)])
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert '<td>4\u202f096</td><td class="left">–</td>' in page


def test_rows_of_older_programs_alone_have_no_limit(tmp_path):
    write(tmp_path, "2026-11-21", "h1", [{}])
    [row] = by_name(of_period(tmp_path, ALL)["prevented"])
    assert row["prevented_by"] == "nothing" and row["lowest_limit"] is None


def test_a_place_without_rows_is_one_line(tmp_path):
    command = [sys.executable, "-m", "hugetext_fleet", tmp_path]
    done = subprocess.run(command, cwd=FLEET, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
