"""An object store that is cut off in mid-upload, with two writers: no row is double or missing."""

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

duckdb = pytest.importorskip("duckdb")
FLEET = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module", name="inventory")
def built_program():
    """hugetext-inventory."""
    subprocess.run(["cargo", "build", "-q"], cwd=FLEET, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", FLEET / "target"))
    return target / "debug/hugetext-inventory"


class Cut:
    """Passes bytes to a server, and ends the first connections after so many."""

    def __init__(self, target, limits):
        self.target, self.limits = target, list(limits)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.target))
            limit = self.limits.pop(0) if self.limits else None
            threading.Thread(
                target=self.copy, args=(client, server, limit), daemon=True
            ).start()
            threading.Thread(
                target=self.copy, args=(server, client, None), daemon=True
            ).start()

    def copy(self, source, sink, limit):
        passed = 0
        try:
            while data := source.recv(4096):
                passed += len(data)
                if limit is not None and passed > limit:
                    self.cuts += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.fixture(name="store")
def local_store():
    """A server that speaks S3."""
    moto = pytest.importorskip("moto.server", reason="moto is missing: make test-fleet")
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


def environment(port):
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }


def write(inventory, place, spool, port, host):
    """Runs the program once."""
    return subprocess.run(
        [inventory, "-o", "s3://bucket/inventory", "--spool", spool, "--host", host]
        + ["--scan", place, "--run-dir", "/nonexistent"],
        env=environment(port),
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_cut_off_is_sent_once(inventory, store, tmp_path):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{store}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="very-secret",
    )
    client.create_bucket(Bucket="bucket")
    # Two machines of one name have different programs.
    for writer, program in (("one", "/bin/true"), ("two", "/bin/false")):
        (tmp_path / f"programs-{writer}").mkdir()
        shutil.copy(program, tmp_path / f"programs-{writer}")
    rows = 0
    # More cuts than a run tries: it gives up, and a later one goes on.
    cut = Cut(store, [3000] * 8)
    first = [
        write(inventory, tmp_path / f"programs-{writer}", tmp_path / writer, cut.port, "same-name")
        for writer in ("one", "two")
    ]
    assert any(done.returncode == 2 for done in first) and cut.cuts >= 4, first
    for done in first:
        if done.returncode == 2:
            assert len(done.stderr.splitlines()) == 1, done.stderr
            assert "run this again" in done.stderr
    # Nothing that is there is cut short.
    listed = client.list_objects_v2(Bucket="bucket").get("Contents", [])
    second = [
        write(inventory, tmp_path / f"programs-{writer}", tmp_path / writer, store, "same-name")
        for writer in ("one", "two")
    ]
    for done in first + second:
        assert "very-secret" not in done.stdout + done.stderr
        rows += int(re.match(r"(\d+) rows", done.stdout)[1]) if done.stdout else 0
    assert all(done.returncode == 0 for done in second), second
    listed = client.list_objects_v2(Bucket="bucket")["Contents"]
    assert len(listed) == 4
    found = tmp_path / "found"
    for entry in listed:
        path = found / Path(entry["Key"]).parent.relative_to("inventory") / Path(entry["Key"]).name
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file("bucket", entry["Key"], str(path))
    everything = f"read_parquet('{found}/*/*/*.parquet', hive_partitioning = true)"
    counted, once = duckdb.sql(
        f"SELECT count(*), (SELECT count(*) FROM (SELECT DISTINCT * FROM {everything})) FROM {everything}"
    ).fetchall()[0]
    shown = [
        subprocess.run(
            [inventory, "--show", path], capture_output=True, text=True, check=True
        ).stdout
        for path in found.rglob("*.parquet")
    ]
    assert counted == sum(int(line.split()[0]) for line in shown)
    assert len(shown) == 4 and once == counted
    assert rows <= counted


def test_a_store_that_is_away_is_one_line_and_nothing_is_lost(inventory, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    begun = time.monotonic()
    done = write(inventory, "/bin/true", tmp_path / "spool", port, "h")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "run this again" in done.stderr and "very-secret" not in done.stderr
    assert time.monotonic() - begun < 120
    waiting = [path for path in (tmp_path / "spool").iterdir() if "~" in path.name]
    assert len(waiting) == 1
