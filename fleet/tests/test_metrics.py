"""A real Prometheus scrapes a real endpoint; every panel of the dashboard and every rule has its result."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

FLEET = Path(__file__).resolve().parent.parent
ROOT = FLEET.parent
MIB = 1 << 20

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Prometheus is missing: scripts/setup.sh fleet",
)


def tool(*arguments, **options):
    """What promtool says."""
    done = subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, check=False, **options
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module", name="serve")
def built_example():
    """The example that serves made-up numbers."""
    subprocess.run(
        ["cargo", "build", "-q", "-p", "hugetext-metrics", "--example", "serve"],
        cwd=ROOT,
        check=True,
    )
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/examples/serve"


@needs_prometheus
def test_promtool_finds_nothing_in_the_metrics(serve):
    text = subprocess.run([serve], capture_output=True, check=True).stdout
    assert tool("check", "metrics", input=text.decode()) == (0, "")


def test_the_document_names_every_metric_and_no_other(serve):
    text = subprocess.run([serve], capture_output=True, text=True, check=True).stdout
    served = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    rows = (ROOT / "docs/metrics.md").read_text().splitlines()
    named = {row.split("`")[1] for row in rows if row.startswith("| `hugetext_")}
    assert named == served


@needs_prometheus
def test_the_rules_are_right_and_fire_as_they_should():
    code, said = tool("check", "rules", FLEET / "alerts.yml")
    assert code == 0 and "5 rules found" in said, said
    code, said = tool("test", "rules", FLEET / "tests/alerts.yml")
    assert code == 0 and "SUCCESS" in said, said


def free_port():
    """A port of this machine that nobody uses at this moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Prometheus:
    """A Prometheus of its own, which scrapes one endpoint."""

    def __init__(self, place, target):
        self.port = free_port()
        settings = {
            "global": {"scrape_interval": "1s"},
            "rule_files": [str(FLEET / "alerts.yml")],
            "scrape_configs": [
                {
                    "job_name": "hugetext",
                    "static_configs": [
                        {"targets": [target], "labels": {"instance": "here"}}
                    ],
                }
            ],
        }
        # JSON is YAML.
        (place / "prometheus.yml").write_text(json.dumps(settings))
        self.child = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={place}/prometheus.yml",
                f"--storage.tsdb.path={place}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def query(self, expression):
        """The result of a query, by labels; empty while Prometheus begins."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?"
        url += urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found = json.load(answer)
        except ConnectionError:
            return {}
        except urllib.error.HTTPError:
            return {}
        except urllib.error.URLError:
            return {}
        assert found["status"] == "success", found
        return {
            tuple(sorted(series["metric"].items())): float(series["value"][1])
            for series in found["data"]["result"]
        }

    def wait(self, expression, wanted):
        """Waits until a query has a result that `wanted` accepts; two minutes at most."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = self.query(expression)
            if wanted(found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"{expression}: {self.query(expression)}")

    def end(self):
        self.child.terminate()
        self.child.wait()


@pytest.fixture(scope="module", name="scraped")
def scraped_endpoint(serve, tmp_path_factory):
    """A Prometheus that has scraped three moments of the endpoint."""
    endpoint = subprocess.Popen(
        [serve, "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    target = endpoint.stdout.readline().strip()
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), target)
    try:
        for moment in range(4):
            prometheus.wait(
                "hugetext_starts_total",
                lambda found, moment=moment: list(found.values()) == [100.0 * moment],
            )
            if moment < 3:
                endpoint.stdin.write("\n")
                endpoint.stdin.flush()
        yield prometheus
    finally:
        prometheus.end()
        endpoint.kill()
        endpoint.wait()


@pytest.fixture(name="autopilot")
def real_autopilot(tmp_path):
    """The address of a `hugetext auto` that observes this machine and serves metrics on loopback."""
    if os.geteuid() != 0:
        pytest.skip("only root sees what all processes run")
    subprocess.run(["cargo", "build", "-q", "-p", "hugetext"], cwd=ROOT, check=True)
    program = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/hugetext"
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "auto.toml").write_text(f'mode = "observe"\n[metrics]\nlisten = "{address}"\n')
    (tmp_path / "lists").mkdir()
    command = [program, "auto", "--config", tmp_path / "auto.toml"]
    for option in ("state", "run-dir", "lists"):
        command += [f"--{option}", tmp_path / option]
    daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield address
    finally:
        daemon.terminate()
        assert daemon.wait() == 0


@needs_prometheus
def test_the_real_autopilot_is_scraped_and_promtool_finds_nothing(autopilot, tmp_path):
    (tmp_path / "prometheus").mkdir()
    prometheus = Prometheus(tmp_path / "prometheus", autopilot)
    try:
        prometheus.wait('up{job="hugetext"}', lambda found: list(found.values()) == [1.0])
        # Text of this test's own process is in memory, and any leaf may map it.
        prometheus.wait("sum(hugetext_text_bytes) > 0", lambda found: len(found) == 1)
        assert list(prometheus.query("hugetext_acts").values()) == [0.0]
    finally:
        prometheus.end()
    with urllib.request.urlopen(f"http://{autopilot}/metrics", timeout=30) as answer:
        assert tool("check", "metrics", input=answer.read().decode()) == (0, "")


def labels(**pairs):
    return tuple(sorted(pairs.items()))


# What each panel's queries must give. Rates are known by their sign.
GROWS, ZERO = "grows", 0.0
EXPECTED = {
    "Held": [{(): 64 * MIB}],
    "Share of text by huge leaves": [{(): 0.5}],
    "Text by leaf": [{labels(leaf="4K"): 30 * MIB, labels(leaf="2M"): 30 * MIB}],
    "Units with most text in small pages": [
        {
            labels(unit="postgresql.service"): 10 * MIB,
            labels(unit="container-0123456789ab"): 20 * MIB,
        }
    ],
    "Held, allowed and budget": [
        {(): 64 * MIB},
        {(): 256 * MIB},
        {(): 512 * MIB},
        {(): 200 * MIB},
    ],
    "Starts": [{(): GROWS}],
    "Files by state and reason": [
        {
            labels(state="held", reason="group_share"): 3.0,
            labels(state="refused", reason="not_worth_it"): 40.0,
        }
    ],
    "Decisions by reason": [
        {
            labels(decision="hold", reason="group_share"): GROWS,
            labels(decision="release", reason="pressure"): GROWS,
        }
    ],
    "Given back under pressure": [
        {
            labels(pressure="some"): GROWS,
            labels(pressure="full"): ZERO,
            labels(pressure="cgroup"): GROWS,
        }
    ],
    "Errors": [{labels(error="lost_records"): GROWS, labels(error="given_up"): ZERO}],
}


def matches(found, expected):
    return found.keys() == expected.keys() and all(
        found[key] > 0 if value == GROWS else found[key] == value
        for key, value in expected.items()
    )


@needs_prometheus
def test_every_panel_has_its_result(scraped):
    board = json.loads((FLEET / "dashboard.json").read_text())
    assert {panel["title"] for panel in board["panels"]} == EXPECTED.keys()
    for panel in board["panels"]:
        queries = [target["expr"] for target in panel["targets"]]
        expected = EXPECTED[panel["title"]]
        assert len(queries) == len(expected), panel["title"]
        for query, result in zip(queries, expected):
            query = query.replace("$instance", ".*")
            scraped.wait(query, lambda found, result=result: matches(found, result))


@needs_prometheus
def test_the_target_is_up_and_a_rule_is_evaluated(scraped):
    assert list(scraped.query('up{job="hugetext"}').values()) == [1.0]
    scraped.wait("hugetext_build_info", lambda found: len(found) == 1)


def test_the_dashboard_is_what_its_program_writes_and_a_typed_library_reads():
    library = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    written = (FLEET / "dashboard.json").read_text()
    program = [sys.executable, FLEET / "dashboard.py"]
    made = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert made == written
    board = json.loads(written)
    again = encoder.JSONEncoder(sort_keys=True).encode(library.Dashboard.from_json(board))
    # What the library does not know would be lost on the way.
    assert json.loads(again) == board
