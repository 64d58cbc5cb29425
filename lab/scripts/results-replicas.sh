#!/usr/bin/env bash
# Prints lab/results/replicas.md: lab/scripts/results-replicas.sh. It reads three records, and measures nothing:
#   lab/records/replicas-nodes.jsonl  of lab/scripts/replicas-lab.sh (lab/measure replicas-nodes)
#   docs/replicas.jsonl        of kernel/rfc/rmap/lab/measure.sh replicas (make test-replicas-locks)
#   lab/records/replicas-bench.json   of hugetext bench rmap --replicas (lab/measure replicas-bench)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
docs=$here/../../docs records=$here/../records
nodes=$records/replicas-nodes.jsonl

cat << 'END'
# Replicas: text near the processor that runs it, and divided locks

Written by `lab/measure replicas` from the records [replicas-nodes.jsonl](../records/replicas-nodes.jsonl),
[replicas.jsonl](../../docs/replicas.jsonl) and [replicas-bench.json](../records/replicas-bench.json).

On a machine of several NUMA nodes, the page cache holds a file once, on the node that read it first. Processes on the
other nodes fetch its text from there. All processes that map one file also take one lock when they start and end.
Several copies of the file help with both, because each has a page cache and a lock of its own.

    hugetext stat --nodes PID               on which node the text of a process lies, and which nodes run it
    hugetext warm --node 1 FILE             brings the page cache of a file onto a node; spread and local, too
    hugetext run --numa -- CMD              uses copies on the node that the command is bound to
    hugetext run --replicas 4 -- CMD        uses one of 4 copies, drawn for each command
    hugetext run --replicas auto -- CMD     as many as the autopilot found to be worth it, or none
    hugetext bench numa                     what remote text costs on this machine
    hugetext bench rmap --replicas 1,2,4    what copies give to starts on this machine

## How it works

- **Where pages lie**: move_pages(2) without nodes reports it. The call needs the rights that reading the page map of
  the process needs, and none for the user's own files. It reports single pages, so the nodes of each window are known.
  The page map itself hides frames from all but root, and /proc/PID/numa_maps has one sum for a mapping. Where a sandbox
  forbids the call, numa_maps is used, and windows are unknown. Text counts as local in the part in which its node runs
  the process, by the processor time of its threads and the processor that each ran on last.
- **`warm --node`** reads text that is not cached under a memory policy, and moves the rest by move_pages(2). Pages that
  other processes map are moved if the caller has CAP_SYS_NICE. Otherwise they are reported as refused, and the exit
  status is 1.
- **A replica** is an entry of the store: one for each node, or each number. It is found by the content of the file, as
  every entry is. So an upgraded file gets new ones, and `hugetext store gc` and `rm` remove old ones. On xfs and btrfs
  it shares its blocks with the original if the store is on the same filesystem; it still has its own page cache. On
  ext4 it is a full copy. `run --dry-run` prints the memory and the disk that copies would take. With `--backend store`
  a replica is a file of a tmpfs (huge=always, mpol=bind:NODE) that only the command and its children see.
- **Memory**: a command makes no replicas beyond a quarter of what the machine has free, nor beyond a third of the limit
  of its control group.
- **Whether it is worth it**: `decide_replicas` in `crates/leaf` decides from the part of fetches that are remote, the
  starts per second of one file, and the memory. `hugetext auto` counts the starts with every file in each second, libc
  and the loader included. On machines of several nodes it also counts, by node, the processor time of what it holds.
  It decides by that function, reports it (`auto status`, `auto why`), and writes the decisions for programs that start
  commands. `run --replicas auto` follows them, and so does the plugin of containers ([containers.md](../../docs/containers.md#kubernetes)),
  which gives containers of one image different copies. The daemon makes no copies itself.

END

rows() { jq -r -s "$1" "$nodes"; }

cat << 'END'
## Guests of several nodes

A compiler (cc1) is read on node 0 and bound to the last node, where it waits for input. *Before* is the compiler
alone, *after* is `hugetext run --numa`, and *tmpfs* is the same with `--backend store`. Figures are KiB of its text and
of that of its libraries in its page tables, local and remote. *Own path* counts the mappings under the compiler's own
path in the process.

| kernel | nodes | filesystem | before: local | remote | after: local | remote | tmpfs: local | remote | own path |
|---|---:|---|---:|---:|---:|---:|---:|---:|---:|
END
# shellcheck disable=SC2016 # jq's own variables
rows 'def kib: if . == null then "" else (. / 1024 | floor | tostring) end;
    group_by([.kernel, .nodes, .fs]) | sort_by([(.[0].kernel | split(".") | map(tonumber)), .[0].nodes, .[0].fs]) | .[]
    | . as $all
    | def at(w): [$all[] | select(.what == "stat" and .when == w) | .said.processes[0].nodes] | first;
    "| \(.[0].kernel) | \(.[0].nodes) | \(.[0].fs) | " +
    ([at("before").local, at("before").remote, at("after").local, at("after").remote, at("in-memory").local,
      at("in-memory").remote] | map(kib) | join(" | ")) +
    " | \([$all[] | select(.what == "path") | .mappings] | first // "") |"'

cat << 'END'

*Told* is what `run --dry-run` printed beforehand as the most that one replica takes. The kernel counted how the page
cache and the page tables of the last node grew, in KiB. The growth of the page cache includes other files that the
guest cached there meanwhile. *On disk* is what the entries take (`store ls`), shared blocks included. On a tmpfs of huge
pages a copy takes whole windows of 2 MiB. The record of its entry takes one more, which `store ls` does not count.

| kernel | nodes | filesystem | told: memory | told: disk | page cache grew | page tables grew | entries | on disk |
|---|---:|---|---:|---:|---:|---:|---:|---:|
END
# shellcheck disable=SC2016
rows 'def kib: if . == null then "" else (. / 1024 | floor | tostring) end;
    group_by([.kernel, .nodes, .fs]) | sort_by([(.[0].kernel | split(".") | map(tonumber)), .[0].nodes, .[0].fs]) | .[]
    | . as $all
    | def one(w; t): [$all[] | select(.what == w and .when == t)] | first;
    (one("memory"; "before")) as $before | (one("memory"; "after")) as $after
    | (one("plan"; "").said.replicas) as $told | (one("store"; "made").said.entries) as $made
    | "| \(.[0].kernel) | \(.[0].nodes) | \(.[0].fs) | \($told.memory | kib) | \($told.disk | kib) | " +
    "\(if $after then $after.file_kib - $before.file_kib else "" end) | " +
    "\(if $after then $after.tables_kib - $before.tables_kib else "" end) | " +
    "\($made // [] | length) | \([$made[]?.size] | add | kib) |"'

cat << 'END'

`warm --node` of the compiler: text that is not on the node where it is wanted, in KiB of all text, and the exit
status. *Refused* is by a user who is not root while the compiler runs. The others are by root when it has ended:
*moved* onto the last node, and *spread* over all nodes. Where the kernel makes no huge folios (btrfs, and ext4 of
Linux 6.12), the exit status is 1 for that reason alone.

| kernel | nodes | filesystem | refused | | moved | | spread | |
|---|---:|---|---:|---|---:|---|---:|---|
END
# shellcheck disable=SC2016
rows 'group_by([.kernel, .nodes, .fs]) | sort_by([(.[0].kernel | split(".") | map(tonumber)), .[0].nodes, .[0].fs]) | .[]
    | . as $all
    | def cell(w): ([$all[] | select(.what == "warm" and .when == w)] | first) as $it
        | $it.said.files[0].nodes as $placed
        | "\(if $placed then "\($placed.elsewhere / 1024 | floor) of \([$placed.after[]] | add / 1024 | floor)" else "" end)" +
          " | \($placed.obstacle // "") exit \($it.exit // "")";
    "| \(.[0].kernel) | \(.[0].nodes) | \(.[0].fs) | \(cell("refused")) | \(cell("moved")) | \(cell("spread")) |"'

cat << 'END'

Entries of the store for the compiler and its libraries: after the first command, after the compiler was replaced
by another file, which gets an entry of its own, and after `store rm --all`. *Told* is the warning for a command that
spans all nodes.

| kernel | nodes | filesystem | made | after the upgrade | removed | told |
|---|---:|---|---:|---:|---:|---|
END
# shellcheck disable=SC2016
rows 'group_by([.kernel, .nodes, .fs]) | sort_by([(.[0].kernel | split(".") | map(tonumber)), .[0].nodes, .[0].fs]) | .[]
    | . as $all
    | def entries(w): ([$all[] | select(.what == "store" and .when == w)] | first | .said.entries // null)
        | if . then length else "" end;
    def told: [$all[] | select(.what == "plan" and .when == "spans") | .errors] | first // "";
    "| \(.[0].kernel) | \(.[0].nodes) | \(.[0].fs) | \(entries("made")) | \(entries("upgraded")) | \(entries("removed")) | \(told) |"'

cat << 'END'

The autopilot runs on node 0 and holds the text of a compiler there. The compiler has worked on the last node for a
while. The autopilot then reports the part of the compiler's fetches that is remote, and the copies that are worth it.
The last column is the copy that `run --replicas auto` would give to the next compiler on the last node.

| kernel | nodes | filesystem | remote, of a thousand | decision | copies | the next compiler gets |
|---|---:|---|---:|---|---:|---|
END
# shellcheck disable=SC2016
rows 'group_by([.kernel, .nodes, .fs]) | sort_by([(.[0].kernel | split(".") | map(tonumber)), .[0].nodes, .[0].fs]) | .[]
    | . as $all
    | select(any(.what == "auto"))
    | ([$all[] | select(.what == "auto" and .when == "") | .said.files[]?] | max_by(.remote_per_mille)) as $file
    | ([$all[] | select(.what == "plan" and .when == "advised") | .said.replicas.replica] | first) as $next
    | "| \(.[0].kernel) | \(.[0].nodes) | \(.[0].fs) | \($file.remote_per_mille // "") | \($file.decision.replicas // "") | " +
    "\($file.decision.copies // "") | \($next // "" | tostring | gsub("[{}\"]"; "")) |"'

cat << 'END'

`hugetext bench numa` ran in these guests too, which shows that it runs. The ratio is remote over local, the median of
three rounds. It says nothing here, because the nodes of an emulated guest are equally far.

| kernel | nodes | filesystem | ratio |
|---|---:|---|---:|
END
# shellcheck disable=SC2016
rows 'map(select(.what == "bench")) | sort_by([(.kernel | split(".") | map(tonumber)), .nodes, .fs]) | .[]
    | "| \(.kernel) | \(.nodes) | \(.fs) | \(.said.benchmarks[0].measures[0].values[1].ratio.median // .errors // "" | if type == "number" then (. * 100 | round / 100) else . end) |"'
echo

"$here/../run" hugetext-rmap "$docs/rmap.jsonl" --replicas "$docs/replicas.jsonl"

cat << 'END'
## On a machine

Starts by many workers at once, on an unchanged kernel. Ratios are those of starts per second over those with the files
themselves; brackets hold the 95 % interval of the median. An interval that includes 1 shows no difference.

END
jq -r '"\(.summary). `\(.invocation | sub("^.*/"; ""))`: \(.benchmarks[0].title).\n",
    (.benchmarks[0] | . as $bench
    | "| | " + ([.sides[].name] | join(" | ")) + " |", "|---|" + ([.sides[] | "---:|"] | join("")),
    (.measures[] | select(.name | test("^[0-9]+ worker"))
    | "| \(.name) | " + ([.values[] | if .ratio then "\(.ratio.median * 1000 | round / 1000) (\(.ratio.low // .ratio.interval.low // 0 | . * 1000 | round / 1000) to \(.ratio.high // .ratio.interval.high // 0 | . * 1000 | round / 1000))" else "\(.median | round) a second" end] | join(" | ")) + " |"))' \
    "$records/replicas-bench.json"

cat << 'END'

## What was not measured

- What remote text costs. That needs a machine of two sockets; `hugetext bench numa` measures it there. The guests are
  emulated on one.
- Contention on machines of more cores than the one above; the prediction is a model.
- Servers and builds with replicas: no gain in throughput was measured anywhere.
- More starts in a second than one lock serves: no machine here reaches 13,000. The tests of the autopilot and of the
  plugin set a lower number.
END
