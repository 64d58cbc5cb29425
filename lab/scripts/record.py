"""Lines of a record that lab/run hugetext-report reads: facts, and rows of the tables of a page."""
import json


def fact(name, value):
    print(json.dumps({"fact": name, "value": value}), flush=True)


def row(table, *cells):
    print(json.dumps({"table": table, "row": [str(cell) for cell in cells]}, ensure_ascii=False), flush=True)
