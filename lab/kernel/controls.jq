# SPDX-License-Identifier: GPL-2.0-only
# The rows of lab/results/kernel.md from the lines of controls.sh: each start as it is today and with the sets.

include "figures";

def times($today; $with): $with.elapsed_us / $today.elapsed_us * 1000 | round | "\(. / 1000 | floor).\(. % 1000 + 1000 | tostring | .[1:])";

# Pairs of a row: as it is today, with the sets.
def pairs($kind): map(select(.kind == $kind)) | group_by(.program)
    | map([(.[] | select(.thp == "never")), (.[] | select(.thp != "never"))] | select(length == 2));
def short: sub("^.*/"; "");
def shown: "\(.[0].elapsed_us | ms) → \(.[1].elapsed_us | ms)";

["cc1", "ld.lld", "mold", "pie-24m", "library-24m", "joined-24m", "joined-3m", "library-800k", "8 at once"] as $programs
| ($rows[0] | map(select(. != ""))) as $rows
| . as $all
| def of($row): $all | map(select(.row == $row)) | (pairs("start") + pairs("together"));
  def cell($row; $program): of($row) | map(select(.[0].program == $program)) | if length == 1 then .[0] | shown else "" end;
  def sides($row): of($row) | map({(.[0].program): .[1]}) | add // {};
  # Pairs of two rows: with the sets of the one, and with those of the other.
  def beside($base; $row): sides($base) as $without | sides($row) as $with
    | [$programs[] | select($without[.] and $with[.]) | [$without[.], $with[.]]];
  def named($names): map(select(.[0].program | IN($names[])));
  def gain($pairs): $pairs | map("\(.[0].program) \(times(.[0]; .[1]))") | join(", ");
  def mapped($pairs): $pairs | map("\(.[0].program) \(.[0].pmd | mib) → \(.[1].pmd | mib) MiB") | join(", ");
  def worst($pairs): $pairs | if length == 0 then "" else max_by(.[1].elapsed_us / .[0].elapsed_us)
    | "\(.[0].program), \(.[1].row): \(shown) ms, \(times(.[0]; .[1]))" end;
  def apart: ["align alone", "align and khugepaged, 1 minute", "align and khugepaged, 5 minutes", "order alone",
    "overlayfs, order alone", "eMMC, were it not named slow", "SD card, were it not named slow"];
  # What each patch gives, on NVMe, beside what is applied before it: the times, the text on PMDs, and the worst of the rows.
  def patch($name):
    if $name | test("filemap") then
      (of("order alone") | named(["cc1", "ld.lld", "pie-24m", "library-24m", "joined-24m"])) as $pairs
      | [gain($pairs), "", worst([($rows - apart)[] as $row | of($row)[]])]
    elif $name | test("binfmt_elf") then
      beside("order alone"; "NVMe") as $pairs
      | ($pairs | named(["pie-24m", "joined-24m"])) as $gain
      | [gain($gain), mapped($gain), worst($pairs)]
    elif $name | test("-ovl-|: ovl-") then
      (beside("overlayfs, order alone"; "overlayfs") | named(["ld.lld", "library-24m"])) as $pairs
      | [gain($pairs), mapped($pairs), worst($pairs)]
    else ["", "", ""] end;
{fact: "packages", value: ($all | map(.package) | unique | join(", "))},
{fact: "dates", value: ($all | map(.date) | unique | join(", "))},
{fact: "programs", value: $programs},
{fact: "without", value: ([$rows[] as $row | select(of($row) | length == 0) | $row] | join("; "))},
($lines[0][] | select(.lines > 0) | [.patch, .lines] + patch(.patch) | row("patches")),
($rows[] as $row | select(of($row) | length > 0) | [$row, ($programs[] as $p | cell($row; $p))] | row("rows")),
(of("NVMe")[] | select(.[0].kind == "start")
 | [.[0].program, (.[0].text | mib), (map(.pmd | mib) | join(" → ")), (map(.read | mib) | join(" → ")),
    (map(.major) | map(tostring) | join(" → ")), (map(.minor) | map(tostring) | join(" → ")), (map(.cpu_us / 1000 | tenths) | join(" → "))]
 | row("pmds")),
($programs[] as $p
 | ([$p] + [("NVMe", "NVMe", "align alone", "align and khugepaged, 1 minute", "align and khugepaged, 5 minutes") as $row
    | [$all[] | select(.row == $row and .kind == "again" and .program == $p)]]) as $cells
 | select($cells[1] | length > 0)
 | [$p, ($cells[1] | map(select(.thp == "never"))), ($cells[2] | map(select(.thp != "never"))),
    ($cells[3, 4, 5] | map(select(.thp != "never")))]
 | [.[0]] + (.[1:] | map(if length == 1 then .[0] | "\(.elapsed_us | ms) (\(.pmd | mib) MiB)" else "" end)) | row("again"))
