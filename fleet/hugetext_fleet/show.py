"""Answers as a table, as CSV, and as one page of HTML."""

import csv
import html
import io
import re

# The rules of `hugetext report` that this page needs, line by line as they stand there: a test compares them.
STYLE = """
:root {
  --paper: #ffffff; --ink: #1c2430; --faint: #525d6b; --line: #d5dae1; --panel: #f5f7f9;
  --first: #7a8594; --other: #2f6fb7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --ink: #e7ebf0; --faint: #a7b1bd; --line: #343c46; --panel: #1c2229;
    --first: #8c97a5; --other: #6ca6e8;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .25rem 0 .75rem; }
.faint, figcaption { color: var(--faint); font-size: .875rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; vertical-align: top; }
th { font-weight: 600; color: var(--faint); }
th:first-child, td:first-child, .left { text-align: left; }
tbody th { color: var(--ink); font-weight: 500; white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
:focus-visible { outline: 2px solid var(--other); outline-offset: 2px; }
@media (max-width: 34rem) {
  body { padding: 1rem .75rem 3rem; }
  table { font-size: .8125rem; }
  th, td { padding: .3rem .25rem; }
  thead th { white-space: normal; }
  tbody th { min-width: 5.5rem; }
}
@media print { body { max-width: none; } }
"""
# Several columns of a row are text here; long paths must not push the numbers out of sight.
OWN = """body { max-width: 80rem; }
td.left { white-space: normal; overflow-wrap: anywhere; min-width: 10rem; }
"""


def shown(value):
    """A value for people: numbers with spaces between thousands."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, float):
        return f"{value:.3g}"
    return value


def is_number(answer, column):
    values = [row[column] for row in answer.rows if row[column] is not None]
    return bool(values) and all(isinstance(value, (int, float)) for value in values)


def table(query, answer):
    """Columns for a terminal, or for a document: it is Markdown."""
    lines = [f"**{query.question}**", ""]
    if not answer.rows:
        return "\n".join([*lines, "Nothing.", ""])
    marks = ["---:" if is_number(answer, n) else "---" for n in range(len(answer.columns))]
    rows = [answer.columns, marks]
    rows += [[shown(value).replace("|", "\\|") for value in row] for row in answer.rows]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, ""])


def comma_separated(query, answer):
    """CSV, with the question's name as its first column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["question", *answer.columns])
    writer.writerows([query.name, *row] for row in answer.rows)
    return text.getvalue()


def words(text):
    """A text whose words in backquotes are code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def cells(tag, values, kinds):
    """Cells of a row: the first names it, and text stands on the left."""
    return "".join(
        f"<{tag if n else 'th'}{kind}>{html.escape(str(value))}</{tag if n else 'th'}>"
        for n, (kind, value) in enumerate(zip(kinds, values))
    )


def drawn(query, answer):
    """A question and its answer, as HTML."""
    yield f'<h2 id="{query.name}">{words(query.question)}</h2>'
    if query.explanation:
        yield f"<p>{words(query.explanation)}</p>"
    if not answer.rows:
        yield "<p>Nothing.</p>"
        return
    sides = ["" if is_number(answer, n) else ' class="left"' for n in range(len(answer.columns))]
    yield f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{query.name}">'
    head = cells("th", answer.columns, [f' scope="col"{side}' for side in sides])
    yield f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>"
    for row in answer.rows:
        kinds = [' scope="row"', *sides[1:]]
        yield f"<tr>{cells('td', map(shown, row), kinds)}</tr>"
    yield "</tbody>\n</table>\n</div>"


def page(answers):
    """One page of HTML with every answer, as `hugetext report` looks; it loads nothing from elsewhere."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>hugetext fleet</title>\n<style>{STYLE}{OWN}</style>\n</head>\n<body>",
        "<header>\n<h1>Text of the fleet and huge pages</h1>",
        f'<p class="faint">{len(answers)} questions about an inventory · sizes are bytes</p>',
        "</header>\n<main>",
    ]
    for query, answer in answers:
        parts.extend(drawn(query, answer))
    return "\n".join([*parts, "</main>\n</body>\n</html>"]) + "\n"
