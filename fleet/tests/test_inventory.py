"""An object store that is cut off in mid-upload, with two writers: no row is double or missing."""

import socket
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import PLACE, environment, pass_on

duckdb = pytest.importorskip("duckdb")


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
            for arguments in [
                (client, server, limit, self.count),
                (server, client, None, self.count),
            ]:
                threading.Thread(target=pass_on, args=arguments, daemon=True).start()

    def count(self):
        self.cuts += 1


@pytest.fixture(name="store")
def local_store():
    """A server that speaks S3."""
    moto = pytest.importorskip("moto.server", reason="moto is missing: make -C fleet test")
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


def test_what_is_cut_off_is_sent_once(inventory, machines, store, tmp_path):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{store}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="very-secret",
    )
    client.create_bucket(Bucket="bucket")
    # More cuts than a run tries: it gives up, and a later one goes on.
    cut = Cut(store, [3000] * 8)
    first = [machine.write(PLACE, environment(cut.port)) for machine in machines]
    assert any(status == 2 for status, _ in first) and cut.cuts >= 4, first
    for status, said in first:
        assert status == 0 or len(said) == 1 and "run this again" in said[0], said
        assert "very-secret" not in "".join(said)
    for machine in machines:
        assert machine.write(PLACE, environment(store)) == (0, [])
    listed = client.list_objects_v2(Bucket="bucket")["Contents"]
    assert len(listed) == 4
    found = tmp_path / "found"
    for entry in listed:
        path = found / Path(entry["Key"]).relative_to("inventory")
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
