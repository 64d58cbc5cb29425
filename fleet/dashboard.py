#!/usr/bin/env python3
"""Writes the Grafana dashboard: dashboard.py > dashboard.json. Takes the package grafana-foundation-sdk."""

import json

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos

WIDTH, HEIGHT = 12, 8

# Title, kind of panel, unit, and queries with the names of their series.
PANELS = [
    ("Held", stat, "bytes", [('sum(hugetext_held_bytes{instance=~"$instance"})', "held")]),
    (
        "Share of text by huge leaves",
        stat,
        "percentunit",
        [
            (
                'sum(hugetext_text_bytes{instance=~"$instance",leaf=~".*M"})'
                ' / sum(hugetext_text_bytes{instance=~"$instance"})',
                "share",
            )
        ],
    ),
    (
        "Text by leaf",
        timeseries,
        "bytes",
        [('sum by (leaf) (hugetext_text_bytes{instance=~"$instance"})', "{{leaf}}")],
    ),
    (
        "Units with most text in small pages",
        timeseries,
        "bytes",
        [
            (
                'topk(10, sum by (unit) (hugetext_text_bytes{instance=~"$instance",leaf=~".*K"}))',
                "{{unit}}",
            )
        ],
    ),
    (
        "Held, allowed and budget",
        timeseries,
        "bytes",
        [
            (f'sum(hugetext_{name}_bytes{{instance=~"$instance"}})', name)
            for name in ("held", "allowed", "budget", "reachable")
        ],
    ),
    (
        "Starts",
        timeseries,
        "ops",
        [('sum(rate(hugetext_starts_total{instance=~"$instance"}[5m]))', "starts")],
    ),
    (
        "Files by state and reason",
        timeseries,
        "short",
        [
            (
                'sum by (state, reason) (hugetext_files{instance=~"$instance"})',
                "{{state}}: {{reason}}",
            )
        ],
    ),
    (
        "Decisions by reason",
        timeseries,
        "ops",
        [
            (
                "sum by (decision, reason)"
                ' (rate(hugetext_decisions_total{instance=~"$instance"}[5m]))',
                "{{decision}}: {{reason}}",
            )
        ],
    ),
    (
        "Given back under pressure",
        timeseries,
        "Bps",
        [
            (
                'sum by (pressure) (rate(hugetext_given_back_bytes_total{instance=~"$instance"}[5m]))',
                "{{pressure}}",
            )
        ],
    ),
    (
        "Errors",
        timeseries,
        "ops",
        [('sum by (error) (rate(hugetext_errors_total{instance=~"$instance"}[5m]))', "{{error}}")],
    ),
]


def panel(place, title, kind, unit, queries):
    """One panel, two in a row."""
    built = kind.Panel().title(title).unit(unit)
    built.grid_pos(
        GridPos(h=HEIGHT, w=WIDTH, x=place % 2 * WIDTH, y=place // 2 * HEIGHT)
    )
    built.datasource(DataSourceRef(type_val="prometheus", uid="$datasource"))
    for number, (query, name) in enumerate(queries):
        reference = "ABCDEFGH"[number]
        built.with_target(
            prometheus.Dataquery().expr(query).legend_format(name).ref_id(reference)
        )
    return built


def build():
    """The dashboard as a value of the library."""
    source = DataSourceRef(type_val="prometheus", uid="$datasource")
    instances = (
        dashboard.QueryVariable("instance")
        .datasource(source)
        .query("label_values(hugetext_build_info, instance)")
        .include_all(True)
        .all_value(".*")
        .multi(True)
    )
    built = (
        dashboard.Dashboard("hugetext: text on huge pages")
        .uid("hugetext")
        .tags(["hugetext"])
        .time("now-6h", "now")
        .refresh("1m")
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
        .with_variable(instances)
    )
    for place, (title, kind, unit, queries) in enumerate(PANELS):
        built.with_panel(panel(place, title, kind, unit, queries))
    return built.build()


if __name__ == "__main__":
    text = JSONEncoder(sort_keys=True).encode(build())
    print(json.dumps(json.loads(text), indent=2, sort_keys=True))
