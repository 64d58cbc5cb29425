"""Rows of real machines: two hosts of one name, and a process under a memory limit."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

duckdb = pytest.importorskip("duckdb")
FLEET = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FLEET))

from hugetext_fleet import engines  # noqa: E402
from hugetext_fleet.queries import queries  # noqa: E402

MIB = 1 << 20


def write(inventory, place, machine, *arguments):
    """Writes the rows of a machine of that identity, whose name is `same`."""
    command = [inventory, "-o", place, "--spool", place.parent / f"spool-{machine}", "--host", "same"]
    command += ["--machine", machine, "--run-dir", "/nonexistent", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_two_hosts_of_one_name_are_two_machines(inventory, tmp_path):
    place, programs = tmp_path / "place", tmp_path / "programs"
    programs.mkdir()
    shutil.copy("/bin/true", programs)
    for machine in ("one", "two"):
        write(inventory, place, machine, "--scan", programs)
    engine = engines.DuckDB(str(place))
    file = programs / "true"
    rows = engine.run(f"SELECT host, count(DISTINCT machine), count(*) FROM files WHERE file = '{file}' GROUP BY host")
    assert rows.rows == [("same", 2, 2)]
    # What differs between them has not fallen: each is compared with itself.
    [regressions] = queries(["regressions"])
    assert engine.run(regressions.sql).rows == []
    engine.close()


@pytest.fixture(name="group")
def limited_group(tmp_path):
    """A control group that allows 64 MiB."""
    for root, file in [
        ("/sys/fs/cgroup", "memory.max"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ]:
        group = Path(root) / f"hugetext-{tmp_path.name}"
        if not (Path(root) / "cgroup.procs").exists():
            continue
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / file).exists():
            (group / file).write_text(str(64 * MIB))
            yield group
            group.rmdir()
            return
        group.rmdir()
    pytest.skip("no memory control group can be made here")


def test_the_memory_limit_of_a_process_is_told(inventory, group, tmp_path):
    program = tmp_path / "sleep"
    shutil.copy("/bin/sleep", program)
    running = subprocess.Popen([program, "600"])
    try:
        (group / "cgroup.procs").write_text(str(running.pid))
        write(inventory, tmp_path / "place", "one")
    finally:
        running.kill()
        running.wait()
    engine = engines.DuckDB(str(tmp_path / "place"))
    limits = engine.run(f"SELECT DISTINCT memory_limit FROM inventory WHERE file = '{program}'")
    assert limits.rows == [(64 * MIB,)]
    engine.close()
