#!/usr/bin/env python3
"""Writes docs/worth.md from what `hugetext --json bench work` printed: worth-doc.py RECORD…"""
import json
import sys

HEAD = """# What it is worth on real work

Compilers, interpreters and databases on inputs from Debian's packages, each run from start to end. Every side
runs once in a round, in an order that changes from round to round, under the program's own path. The ratio is
that of the side to small folios in the same round: its median, with the interval that holds the true median
with 95 % confidence. Where the interval contains 1, nothing was shown, and the row says "no difference shown".

Regenerate: `make results-work`. One workload: `hugetext bench work NAME`.

- **small folios**: the program as it is, its text cached in pages of 4K, as after an ordinary read.
- **warmed**: the same file, its text in folios of 2M (`hugetext warm`).
- **fixed**: a copy that `hugetext fix` aligned, warmed. **merged**: with `--strategy merge`.
- **as it is**: the file holds no window of 2M, so its page cache is left alone.

Only one file is changed in each row. A compiler whose libraries hold more of its text gains from them too,
which is not counted here.
"""


def interval(value):
    """The ratio in words, and whether its interval excludes 1."""
    ratio = value.get("ratio")
    if ratio is None:
        return "-", False
    if "low" not in ratio:
        return f"{ratio['median']:.3f}", False
    words = f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
    return words, not ratio["low"] <= 1 <= ratio["high"]


def table(comparison):
    measures = {measure["name"]: measure for measure in comparison["measures"]}
    wall, processor, huge = (measures.get(name) for name in ("wall", "processor", "text on huge pages"))
    print("| side | processor time | ratio | wall ratio | huge text | |")
    print("|---|---:|---:|---:|---:|---|")
    for number, side in enumerate(comparison["sides"]):
        value = processor["values"][number]
        ratio, shown = interval(value)
        bytes_huge = huge["values"][number]["median"] / (1 << 20) if huge else 0
        verdict = ""
        if number:
            verdict = ("less" if value["ratio"]["median"] < 1 else "**more**") if shown else "no difference shown"
        print(
            f"| {side['name']} | {value['median']:.3f} s | {ratio} | {interval(wall['values'][number])[0]} | "
            f"{bytes_huge:.0f} MiB | {verdict} |"
        )


def main():
    reports = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as record:
            reports.append(json.load(record))
    print(HEAD)
    for machine in sorted({report["summary"] for report in reports}):
        print(f"Measured on: {machine}.")
    for comparison in (one for report in reports for one in report["benchmarks"]):
        print(f"\n## {comparison['benchmark'].removeprefix('work ')}\n")
        print(f"{comparison['title']}.\n")
        table(comparison)
        for note in comparison.get("notes", []):
            print(f"\nNote: {note}.")


main()
