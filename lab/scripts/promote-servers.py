#!/usr/bin/env python3
"""Promotes real servers and maps them back, again and again, while clients use them: promote-servers.py HUGETEXT SECONDS

Prints Markdown. For each server, a load counts requests and failures, and a client of this script compares every
answer with the known one. A server that is not installed is listed as such. Needs root.
"""
import contextlib
import glob
import http.client
import json
import os
import pathlib
import platform
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import record


BODY = "".join(f"{n} hugetext\n" for n in range(400)).encode()
PORT = 18080
# The answer to a question about 5000 numbers, which clients of databases and of the browser ask.
KNOWN = sum(n * 7 % 13 for n in range(1, 5001))
ERROR = re.compile(r"\b(error|emerg|crit|alert|fatal|panic|assert|segfault|exited on signal)\b", re.IGNORECASE)


def wait_for(port):
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port}")


def need(program):
    found = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")
    if not found:
        raise RuntimeError(f"{program} is not installed")
    return found


def as_user(name):
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups"]


class Server:
    """A server in a directory of its own. `load` runs a client once; `answer` makes one exchange."""

    name = ""
    port = PORT
    # Lines of the log that tell of no error.
    harmless = re.compile("(?!)")

    def __init__(self, work):
        self.work = pathlib.Path(work)
        self.processes = []
        self.start()

    def spawn(self, *command, **options):
        log = open(self.work / f"log.{len(self.processes)}", "wb")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.work, **options)
        self.processes.append(process)
        return process

    def in_round(self):
        """What happens to the server in each round."""

    def errors(self):
        lines = []
        for log in self.work.glob("log.*"):
            lines += log.read_text(errors="replace").splitlines()
        return [line for line in lines if ERROR.search(line) and not self.harmless.search(line)]

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


class Http(Server):
    def load(self, seconds):
        url = f"http://127.0.0.1:{self.port}/body"
        out = run("ab", "-q", "-t", str(seconds), "-n", "2000000", "-c", "8", url)
        failed = sum(number(out, what) for what in ("Failed requests", "Non-2xx responses"))
        return number(out, "Complete requests"), failed

    def answers(self):
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("GET", "/body")
            response = connection.getresponse()
            yield response.status == 200 and response.read() == BODY
            connection.close()


NGINX = """daemon off; worker_processes 2; pid {work}/nginx.pid; error_log {work}/log.nginx warn;
events {{ worker_connections 512; }}
http {{ access_log off; sendfile on; server {{ listen 127.0.0.1:{port} backlog=4096; root {work}/files; }} }}
"""


class Nginx(Http):
    name = "nginx, reloading"

    def start(self):
        self.nginx = need("nginx")
        files = self.work / "files"
        files.mkdir()
        (files / "body").write_bytes(BODY)
        self.work.chmod(0o755)
        self.config = self.work / "nginx.conf"
        self.config.write_text(NGINX.format(work=self.work, port=self.port))
        self.spawn(self.nginx, "-c", str(self.config))
        wait_for(self.port)

    def in_round(self):
        run(self.nginx, "-c", str(self.config), "-s", "reload")


HAPROXY = """global
  maxconn 1000
defaults
  mode http
  timeout connect 60s
  timeout client 60s
  timeout server 60s
frontend all
  bind 127.0.0.1:{port}
  default_backend nginx
backend nginx
  server one 127.0.0.1:{backend}
"""


class Haproxy(Nginx):
    name = "haproxy before nginx"
    port = PORT + 1

    def start(self):
        haproxy = need("haproxy")
        self.port += 1
        super().start()
        backend, self.port = self.port, self.port - 1
        config = self.work / "haproxy.cfg"
        config.write_text(HAPROXY.format(port=self.port, backend=backend))
        self.spawn(haproxy, "-db", "-f", str(config))
        wait_for(self.port)

    def in_round(self):
        """Only the server before reloads."""


NODE = """const http = require('http'), fs = require('fs');
http.createServer((request, response) => {
    fs.promises.readFile('body').then(
        body => { response.setHeader('content-length', body.length); response.end(body); },
        error => { console.log(`error: ${error}`); response.statusCode = 500; response.end(); });
}).listen(+process.argv[2], '127.0.0.1', 4096);
"""


class Node(Http):
    name = "node"
    port = PORT + 3

    def start(self):
        node = need("node")
        (self.work / "body").write_bytes(BODY)
        (self.work / "serve.js").write_text(NODE)
        environment = {**os.environ, "UV_USE_IO_URING": "1"}
        process = self.spawn(node, "serve.js", str(self.port), env=environment)
        wait_for(self.port)
        next(self.answers())
        links = [os.readlink(link) for link in glob.glob(f"/proc/{process.pid}/fd/*")]
        if any("io_uring" in link for link in links):
            self.name = "node with io_uring"


TOKIO = """use axum::{Router, http::StatusCode, routing::get};

async fn body() -> Result<Vec<u8>, (StatusCode, String)> {
    tokio::fs::read("body").await.map_err(|error| {
        println!("error: {error}");
        (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    })
}

#[tokio::main]
async fn main() {
    let port = std::env::args().nth(1).unwrap().parse().unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    axum::serve(listener, Router::new().route("/body", get(body))).await.unwrap();
}
"""
TOKIO_PACKAGE = """[package]
name = "serve"
version = "0.0.0"
edition = "2024"
[dependencies]
axum = "0.8"
tokio = { version = "1", features = ["full"] }
"""


class Tokio(Http):
    # Optimized, its text is smaller than a window. Without p_align of 2 MiB, it seldom fills one.
    name = "tokio (axum), not optimized, p_align 2M"
    port = PORT + 8

    def start(self):
        cargo = need("cargo")
        (self.work / "body").write_bytes(BODY)
        (self.work / "Cargo.toml").write_text(TOKIO_PACKAGE)
        (self.work / "src").mkdir()
        (self.work / "src/main.rs").write_text(TOKIO)
        aligned = 'build.rustflags=["-Clink-arg=-Wl,-z,max-page-size=2097152"]'
        run(cargo, "build", "--quiet", f"--manifest-path={self.work}/Cargo.toml", "--config", aligned)
        self.spawn(str(self.work / "target/debug/serve"), str(self.port))
        wait_for(self.port)


class Chromium(Server):
    """A browser without a window, which is asked through a pipe by the DevTools protocol."""

    name = "chromium, opening pages"
    # What it lacks here: a session bus, a graphics processor, a keyring.
    harmless = re.compile("dbus|gpu|vulkan|egl|angle|viz|gcm|registration|ssl_client|on_device|keyring", re.IGNORECASE)
    question = "Array.from({length: 5000}, (_, n) => (n + 1) * 7 % 13).reduce((sum, n) => sum + n)"

    def start(self):
        chromium = need("chromium")
        (self.work / "page.html").write_bytes(b"<pre>" + BODY + b"</pre>")
        (their_input, self.input), (self.output, their_output) = os.pipe(), os.pipe()
        script = f'exec "$@" 3<&{their_input} 4>&{their_output}'
        # Its sandbox is a seccomp filter, under which no process is promoted.
        self.spawn("sh", "-c", script, "sh", chromium, "--headless", "--no-sandbox", "--remote-debugging-pipe",
                   f"--user-data-dir={self.work}/profile", pass_fds=(their_input, their_output))
        os.close(their_input)
        os.close(their_output)
        self.lock, self.asked, self.received = threading.Lock(), 0, b""
        self.page = self.open_page()

    def ask(self, method, session=None, **parameters):
        with self.lock:
            self.asked += 1
            message = {"id": self.asked, "method": method, "params": parameters}
            message |= {"sessionId": session} if session else {}
            os.write(self.input, json.dumps(message).encode() + b"\0")
            while (answer := self.message()).get("id") != self.asked:
                pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def message(self):
        while b"\0" not in self.received:
            if not select.select([self.output], [], [], 60)[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self.output, 1 << 16)
            if not part:
                raise RuntimeError("the browser has closed its pipe")
            self.received += part
        first, self.received = self.received.split(b"\0", 1)
        return json.loads(first)

    def open_page(self):
        target = self.ask("Target.createTarget", url=f"file://{self.work}/page.html")["targetId"]
        return target, self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def evaluate(self, page, expression):
        return self.ask("Runtime.evaluate", page[1], expression=expression)["result"].get("value")

    def load(self, seconds):
        until, done, failed = time.monotonic() + seconds, 0, 0
        while time.monotonic() < until:
            page, length = self.open_page(), None
            loaded = time.monotonic() + 60
            while length != len(BODY) and time.monotonic() < loaded:
                length = self.evaluate(page, "document.querySelector('pre')?.textContent.length")
            self.ask("Target.closeTarget", targetId=page[0])
            done, failed = done + 1, failed + (length != len(BODY))
        return done, failed

    def answers(self):
        while True:
            yield self.evaluate(self.page, self.question) == KNOWN


class Lines(Server):
    """A server whose protocol has lines, and answers to questions that are known."""

    def exchanges(self):
        raise NotImplementedError

    def answers(self):
        with socket.create_connection(("127.0.0.1", self.port), 60) as connection:
            for question, answer in self.exchanges():
                connection.sendall(question)
                got = b""
                while len(got) < len(answer):
                    part = connection.recv(len(answer) - len(got))
                    if not part:
                        break
                    got += part
                yield got == answer


def keys():
    n = 0
    while True:
        n += 1
        value = f"{n * 7919:x}".encode() * 50
        yield f"hugetext:{n % 1000}".encode(), value


class Redis(Lines):
    name = "redis"
    port = PORT + 4

    def start(self):
        # Its default disables transparent huge pages, and then it cannot be promoted.
        options = ["--port", str(self.port), "--save", "", "--disable-thp", "no", "--dir", str(self.work)]
        self.spawn(need("redis-server"), *options)
        wait_for(self.port)

    def load(self, seconds):
        return repeated(seconds, 200_000, "redis-benchmark", "-p", str(self.port), "-q", "-n", "50000", "-c", "16",
                        "-t", "set,get,incr,lpush")

    def exchanges(self):
        for key, value in keys():
            yield b"SET %s %s\r\n" % (key, value), b"+OK\r\n"
            yield b"GET %s\r\n" % key, b"$%d\r\n%s\r\n" % (len(value), value)


class Memcached(Lines):
    name = "memcached"
    port = PORT + 5

    def start(self):
        self.spawn(need("memcached"), "-u", "nobody", "-l", "127.0.0.1", "-p", str(self.port), "-t", "4")
        wait_for(self.port)

    def load(self, seconds):
        return repeated(seconds, 40_000, need("memcslap"), f"--servers=127.0.0.1:{self.port}", "--concurrency=4",
                        "--execute-number=10000", "--test=get")

    def exchanges(self):
        for key, value in keys():
            yield b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n"
            yield b"get %s\r\n" % key, b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)


class Database(Server):
    """A database that is asked by a client that reads questions from its standard input."""

    query = "select sum(id * 7 % 13) from known;"
    fill = "create table known (id int primary key);"

    def answers(self):
        client = subprocess.Popen(self.client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            while True:
                client.stdin.write(self.query + "\n")
                client.stdin.flush()
                yield client.stdout.readline().strip() == str(KNOWN)
        finally:
            client.kill()
            client.wait()


class Postgres(Database):
    name = "postgres"
    port = PORT + 6
    harmless = re.compile("terminating connection due to administrator command|pg_ctl")

    def start(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        if not found:
            raise RuntimeError("postgresql is not installed")
        self.bin, data = found[-1], self.work / "data"
        data.mkdir()
        self.work.chmod(0o755)
        shutil.chown(data, "postgres")
        user = as_user("postgres")
        run(*user, f"{self.bin}/initdb", "-D", str(data), "-A", "trust", "--no-sync")
        self.spawn(*user, f"{self.bin}/postgres", "-D", str(data), "-p", str(self.port), "-k", str(data),
                   "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
        wait_for(self.port)
        self.where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        self.client = [f"{self.bin}/psql", *self.where, "-q", "-A", "-t", "postgres"]
        time.sleep(1)
        run(*self.client, "-c", self.fill, "-c", "insert into known select generate_series(1, 5000)")
        run(f"{self.bin}/pgbench", *self.where, "-i", "-q", "-s", "2", "postgres")

    def load(self, seconds):
        out = run(f"{self.bin}/pgbench", *self.where, "-S", "-c", "8", "-j", "2", "-T", str(seconds), "postgres")
        return number(out, "number of transactions actually processed"), number(out, "number of failed transactions")


class Mariadb(Database):
    name = "mariadb"
    port = PORT + 7
    # Clients end without a word at the end.
    harmless = re.compile("Aborted connection")

    def start(self):
        server, data, user = need("mariadbd"), self.work / "data", "nobody"
        data.mkdir()
        self.work.chmod(0o755)
        for directory in (data / "mysql", data / "bench"):
            directory.mkdir()
        shutil.chown(data, user)
        for directory in data.iterdir():
            shutil.chown(directory, user)
        self.socket = f"{data}/socket"
        self.spawn(server, "--no-defaults", f"--user={user}", f"--datadir={data}", f"--socket={self.socket}",
                   f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-grant-tables", "--skip-log-bin",
                   "--skip-slave-start", "--innodb-flush-log-at-trx-commit=0")
        wait_for(self.port)
        self.client = [need("mariadb"), f"--socket={self.socket}", "-N", "--batch", "--unbuffered", "bench"]
        fill = self.fill + "insert into known select seq from seq_1_to_5000;"
        run(*self.client, "-e", fill)
        self.sysbench("prepare")

    def sysbench(self, what, *options):
        return run("sysbench", "oltp_read_only", f"--mysql-socket={self.socket}", "--mysql-db=bench", "--mysql-user=root",
                   "--tables=1", "--table-size=10000", "--threads=4", "--db-ps-mode=disable", *options, what)

    def load(self, seconds):
        out = self.sysbench("run", f"--time={seconds}")
        return number(out, r"\s+queries"), number(out, r"\s+ignored errors") + number(out, r"\s+reconnects")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()[-300:] or done.stdout.strip()[-300:]}")
    return done.stdout


def number(text, what):
    found = re.search(rf"^{what}:\s*(\d+)", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def repeated(seconds, requests, *command):
    """Runs a load again and again. A run that fails counts as a failure."""
    until, done, failed = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        ended = subprocess.run(command, capture_output=True, text=True)
        done += requests
        failed += ended.returncode != 0 or bool(re.search(r"\berror\b|\bERR\b", ended.stdout + ended.stderr))
    return done, failed


class Background(threading.Thread):
    """Calls a function in a thread, and keeps what it returns or raises."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.result, self.error = function, None, None
        self.start()

    def run(self):
        try:
            self.result = self.function()
        except Exception as error:  # Any failure of a client is what this script looks for.
            self.error = error


def compare(server, stop):
    right = wrong = 0
    answers = server.answers()
    for is_right in answers:
        right, wrong = right + is_right, wrong + (not is_right)
        if stop.is_set():
            answers.close()
            return right + wrong, wrong
        time.sleep(0.002)


def family(processes):
    """The processes of a server: those started, and all below them."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            stat = pathlib.Path(path).read_text()
            parents[int(stat.split()[0])] = int(stat.rsplit(")", 1)[1].split()[1])
    found = {process.pid for process in processes}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


class Promotions:
    def __init__(self, hugetext):
        self.hugetext, self.stops, self.longest, self.most, self.words = hugetext, 0, 0, 0, set()

    def change(self, server, *options):
        pids = [str(pid) for pid in family(server.processes)]
        done = subprocess.run([self.hugetext, "promote", "--json", *options, *pids], capture_output=True, text=True)
        document = json.loads(done.stdout)
        document = document.get("promote", document)
        pauses = [pause["total_ns"] for process in document["processes"] for pause in process["pauses"]]
        self.stops += len(pauses)
        self.longest = max([self.longest, *pauses])
        self.most = max([self.most, *(process["after"]["pmd_mapped"] for process in document["processes"])])
        # A process that ends meanwhile is no news. It gives up its memory first, as one that executes a program.
        ended = {"no such process", "exiting", "it executed another program meanwhile; try again"}
        self.words |= {refused["reason"] for refused in document["refused"]} - ended


def survey(kind, hugetext, seconds):
    with tempfile.TemporaryDirectory(prefix="promote-servers.") as work:
        server = kind(work)
        try:
            done, stop = Promotions(hugetext), threading.Event()
            load = Background(lambda: server.load(seconds))
            check = Background(lambda: compare(server, stop))
            while load.is_alive():
                for options in (["--merge"], ["--revert"], [], ["--revert"]):
                    done.change(server, *options)
                    time.sleep(0.1)
                server.in_round()
            stop.set()
            check.join(60)
            alive = all(process.poll() is None for process in server.processes)
            return server, done, load, check, alive, server.errors()
        finally:
            server.stop()


def main():
    hugetext, seconds = os.path.realpath(sys.argv[1]), int(sys.argv[2])
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    for name, value in [("seconds", seconds), ("kernel", platform.release()), ("processors", os.cpu_count()), ("load", load)]:
        record.fact(name, value)
    notes, is_well = [], True
    for kind in (Nginx, Haproxy, Redis, Memcached, Postgres, Mariadb, Node, Tokio, Chromium):
        try:
            server, done, load, check, alive, errors = survey(kind, hugetext, seconds)
        except RuntimeError as error:
            notes.append({"server": kind.name, "said": str(error)})
            continue
        requests, failed = load.result or (0, "?")
        answers, wrong = check.result or (0, "?")
        row = [server.name, done.stops, f"{done.longest / 1e6:.1f}", f"{done.most / (1 << 20):.1f} MiB", requests, failed,
               answers, wrong, len(errors)]
        record.row("servers", *row)
        notes += [{"server": server.name, "said": words} for words in sorted(done.words)]
        harm = [{"server": server.name, "said": str(error)} for error in (load.error, check.error) if error]
        harm += [{"server": server.name, "log": line} for line in errors[:5]]
        harm += [] if alive else [{"server": server.name, "ended": True}]
        notes += harm
        is_well = is_well and not harm and failed == 0 and wrong == 0
    record.fact("notes", notes)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
