"""What tests of the inventory share: the program, and machines that run it."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

FLEET = Path(__file__).resolve().parent.parent
PLACE = "s3://bucket/inventory"


@pytest.fixture(scope="session", name="inventory")
def built_program():
    """hugetext-inventory, with every store it can write to."""
    features = ["--features", "gcs,azure"]
    subprocess.run(
        ["cargo", "build", "-q", "-p", "hugetext-inventory", *features], cwd=FLEET, check=True
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", FLEET / "target"))
    return target / "debug/hugetext-inventory"


class Machine:
    """A machine with a program of its own: where it keeps what is not sent, and how it writes. Its name tells its
    rows from those of the others: all of them have the same machine-id here, or none."""

    def __init__(self, inventory, home, program):
        self.inventory, self.name = inventory, home.name
        self.spool, self.programs = home / "spool", home / "programs"
        self.programs.mkdir(parents=True)
        shutil.copy(program, self.programs)

    def start(self, place, environment):
        """Starts to write to `place`."""
        return subprocess.Popen(
            [self.inventory, "-o", place, "--spool", self.spool]
            + ["--host", self.name, "--machine", self.name]
            + ["--scan", self.programs, "--run-dir", "/nonexistent"],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, place, environment):
        """Writes once. Returns the exit status, and the lines of stderr."""
        return result(self.start(place, environment))

    def waiting(self):
        """The keys of what is kept and not sent, and their bytes."""
        kept = [path for path in self.spool.rglob("*") if "~" in path.name]
        return {key(path.name): path.read_bytes() for path in kept}


def environment(port):
    """The settings of the store for writers."""
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "very-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }


def result(started):
    """How it ended: the exit status, and the lines of stderr."""
    _, said = started.communicate()
    return started.returncode, said.splitlines()


def key(name):
    """The key of a table, by its name in the spool."""
    date, host, digest = name.split("~")
    return f"date={date}/host={host}/{digest}.parquet"


def pass_on(source, sink, limit, at_limit):
    """Passes bytes of a connection until it ends; once there are more than `limit`, calls `at_limit`, and the rest
    is lost. Without a limit, it passes all."""
    passed = 0
    try:
        while data := source.recv(4096):
            passed += len(data)
            if limit is not None and passed > limit:
                at_limit()
                break
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


@pytest.fixture(name="machines")
def two_machines(inventory, tmp_path):
    """Two machines, which have different programs."""
    return [
        Machine(inventory, tmp_path / name, program)
        for name, program in [("one", "/bin/true"), ("two", "/bin/false")]
    ]
