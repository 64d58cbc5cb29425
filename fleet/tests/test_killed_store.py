"""An object store that is killed while two machines write to it: no row is double or missing."""

import os
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
import xml.etree.ElementTree
from pathlib import Path

import pytest
from conftest import PLACE, environment, pass_on, result

duckdb = pytest.importorskip("duckdb")
FLEET = Path(__file__).resolve().parent.parent
# A server that speaks S3, and keeps in a file what it has: a killed one goes on where it was.
SERVER = "github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0"


@pytest.fixture(scope="session", name="server")
def built_server():
    """The server's program."""
    if not shutil.which("go"):
        pytest.skip("Go, which builds the server, is missing")
    directory = FLEET.parent / "target/fleet" / SERVER.rpartition("/")[2]
    if not (directory / "gofakes3").exists():
        subprocess.run(
            ["go", "install", SERVER], env={**os.environ, "GOBIN": str(directory)}, check=True
        )
    return directory / "gofakes3"


class Store:
    """A server that can be killed and started again."""

    def __init__(self, program, database):
        self.command = [program, "-backend", "bolt", "-bolt.db", database, "-quiet"]
        self.command += ["-initialbucket", "bucket"]
        self.start()

    def start(self):
        """Starts it, with what it had."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen([*self.command, "-host", f"127.0.0.1:{self.port}"])
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                assert self.process.poll() is None, "the server ended"

    def kill(self):
        """Ends it at once."""
        self.process.kill()
        self.process.wait()

    def ask(self, path, data=None):
        """What it answers."""
        method = "GET" if data is None else "PUT"
        url = f"http://127.0.0.1:{self.port}/bucket{path}"
        request = urllib.request.Request(url, data, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def objects(self):
        """All that it has, by key."""
        listed = xml.etree.ElementTree.fromstring(self.ask("?list-type=2"))
        keys = [found.text for found in listed.iter() if found.tag.endswith("Key")]
        return {name.removeprefix("inventory/"): self.ask(f"/{name}") for name in keys}


@pytest.fixture(name="store")
def running_store(server, tmp_path):
    """A server without objects."""
    store = Store(server, tmp_path / "objects.db")
    yield store
    store.kill()


class Gate:
    """Passes bytes to the store, and kills it when two writers are at the same moment of their uploads: `body`
    is when part of the table is on its way, `answer` when the store has it and has said so."""

    def __init__(self, store, moment):
        self.store, self.moment = store, moment
        self.both = threading.Barrier(2, action=store.kill, timeout=60)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        """Takes connections until it is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.join, args=(client,), daemon=True).start()

    def join(self, client):
        """Joins a client and the store."""
        try:
            server = socket.create_connection(("127.0.0.1", self.store.port))
        except OSError:
            client.close()
            return
        up, down = (8192, None) if self.moment == "body" else (None, 0)
        up_to_limit = (client, server, up, self.both.wait)
        threading.Thread(target=pass_on, args=up_to_limit, daemon=True).start()
        pass_on(server, client, down, self.both.wait)

    def close(self):
        """Takes no more connections."""
        self.listener.close()


def rows(objects, directory):
    """How many rows the objects have, and how many different ones."""
    for name, content in objects.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    table = f"read_parquet('{directory}/*/*/*.parquet', hive_partitioning = true)"
    counts = f"count(*), (SELECT count(*) FROM (SELECT DISTINCT * FROM {table}))"
    return duckdb.sql(f"SELECT {counts} FROM {table}").fetchall()[0]


@pytest.mark.parametrize("moment", ["body", "answer"])
def test_a_killed_store_gets_every_row_once(store, machines, tmp_path, moment):
    gate = Gate(store, moment)
    started = [machine.start(PLACE, environment(gate.port)) for machine in machines]
    for status, said in [result(one) for one in started]:
        assert status == 2 and len(said) == 1, said
        assert "run this again" in said[0] and "very-secret" not in said[0]
    gate.close()
    assert store.process.poll() is not None
    waiting = {}
    for machine in machines:
        waiting |= machine.waiting()
    assert len(waiting) == 2
    store.start()
    # What is there is whole: nothing that was cut off, or all that was sent.
    assert store.objects() == ({} if moment == "body" else waiting)
    for machine in machines:
        assert machine.write(PLACE, environment(store.port)) == (0, [])
        assert not machine.waiting()
    objects = store.objects()
    # What waited, and a table of the second run of each.
    assert len(objects) == 4 and waiting.items() <= objects.items()
    every, different = rows(objects, tmp_path / "found")
    assert every == different > 0
    # Once more, and nothing of it comes again.
    assert machines[0].write(PLACE, environment(store.port)) == (0, [])
    assert objects.items() < store.objects().items()


def test_half_a_table_that_a_store_shows_is_replaced(store, machines):
    store.kill()
    machine = machines[0]
    status, _ = machine.write(PLACE, environment(store.port))
    assert status == 2
    [(name, content)] = machine.waiting().items()
    # A store that shows what it has of an upload, and was killed then.
    store.start()
    store.ask(f"/inventory/{name}", content[: len(content) // 2])
    assert machine.write(PLACE, environment(store.port)) == (0, [])
    assert store.objects()[name] == content
