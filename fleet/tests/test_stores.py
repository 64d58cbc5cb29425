"""Each kind of object store: one that is away or refuses is one line, and what waits is sent later."""

import base64
import http.server
import socket
import threading
import urllib.parse

import pytest
from conftest import PLACE, environment

SECRET = "very-secret"


def gcs(port):
    """Google's."""
    return {"GOOGLE_BASE_URL": f"http://127.0.0.1:{port}", "GOOGLE_BEARER_TOKEN": SECRET}


def azure(port):
    """Microsoft's."""
    endpoint = {"AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}", "AZURE_ALLOW_HTTP": "true"}
    return {"AZURE_STORAGE_ACCOUNT_NAME": "account", **endpoint}


def azure_key(port):
    """By the key of an account."""
    key = base64.b64encode(SECRET.encode()).decode()
    return {**azure(port), "AZURE_STORAGE_ACCOUNT_KEY": key}


def azure_signature(port):
    """By a shared access signature, which is a part of each URL."""
    return {**azure(port), "AZURE_STORAGE_SAS_KEY": f"sv=2024-11-04&sig={SECRET}"}


class Handler(http.server.BaseHTTPRequestHandler):
    """What the stores have in common: an object is there as a whole, and is not replaced."""

    def object(self):
        """The object's path, without a signature."""
        return urllib.parse.unquote(self.path.partition("?")[0])

    def do_PUT(self):
        """Keeps an object."""
        path = self.object()
        content = self.rfile.read(int(self.headers["Content-Length"]))
        new = self.headers.get("If-None-Match") or self.headers.get("x-goog-if-generation-match")
        if self.server.refuses:
            return self.answer(403, b"<Error>\n<Code>AccessDenied</Code>\n</Error>\n")
        if new and path in self.server.objects:
            return self.answer(412)
        self.server.objects[path] = content
        return self.answer(201)

    def do_HEAD(self):
        """Tells of an object."""
        self.answer(200, self.server.objects[self.object()])

    def answer(self, status, body=b""):
        """Answers with what each store says of an object."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("x-goog-generation", "1")
        self.send_header("Last-Modified", "Mon, 23 Nov 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture(name="server")
def running_server():
    """A store in memory."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.objects, server.refuses = {}, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.mark.parametrize(
    "place, variables",
    [
        (PLACE, environment),
        ("gs://bucket/inventory", gcs),
        ("az://container/inventory", azure_key),
        ("az://container/inventory", azure_signature),
    ],
    ids=["s3", "gcs", "azure-key", "azure-signature"],
)
def test_a_store_that_is_away_or_refuses_gets_all_of_it_later(machines, server, place, variables):
    machine = machines[0]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        away = taken.getsockname()[1]
    server.refuses = True
    port = server.server_address[1]
    for runs, where in enumerate([away, port], start=1):
        status, said = machine.write(place, variables(where))
        assert status == 2 and len(said) == 1, said
        assert place in said[0] and str(machine.spool) in said[0]
        assert said[0].endswith("run this again")
        # If a store refuses, the error names the settings.
        assert (": check " in said[0]) == (where == port), said
        assert SECRET not in said[0] and base64.b64encode(SECRET.encode()).decode() not in said[0]
        assert len(machine.waiting()) == runs
    server.refuses = False
    waiting = machine.waiting()
    # One is there already: its answer was lost.
    prefix = {"s3": "/bucket", "gs": "/bucket", "az": "/container"}[place[:2]]
    first = min(waiting)
    server.objects[f"{prefix}/inventory/{first}"] = waiting[first]
    assert machine.write(place, variables(port)) == (0, [])
    assert not machine.waiting()
    found = {path.split("/inventory/")[1]: content for path, content in server.objects.items()}
    assert len(found) == 3 and waiting.items() <= found.items()
