# SPDX-License-Identifier: GPL-2.0-only
# The rows of lab/results/kernel-tlb.md from what tlb.sh recorded: a line for each file.

include "figures";

def thousandths: . * 1000 | round | "\(. / 1000 | floor).\(. % 1000 + 1000 | tostring | .[1:])";
def saved($before; $after): if $before == 0 then "" else "-\(100 * (1 - $after / $before) | tenths) %" end;

# Misses of all files together.
def misses($core; $layout; level): map(.cores[] | select(.core == $core) | .layouts[] | select(.layout == $layout) | level) | add;

. as $all
| (map(.instructions) | add) as $instructions
| map(.layouts[] | select(.layout == "fixed") | .pmd_mapped)[0] as $leaves
| {fact: "compiler", value: $gcc},
  {fact: "files", value: length},
  {fact: "billion_instructions", value: ($instructions / 1e9)},
  {fact: "leaves_mib", value: ($leaves / 1048576)},
  (.[] | . as $one | [.] as $file
   | ($file | misses("zen4"; "4k"; .l2_misses)) as $without | ($file | misses("zen4"; "fixed"; .l2_misses)) as $with
   | [.file, .lines, (.instructions / 1e6 | round),
      ($without * 1000 / $one.instructions | thousandths), ($with * 1000 / $one.instructions | thousandths), saved($without; $with)]
   | row("files")),
  (["zen4", "zen5", "golden-cove", "neoverse-v2", "cortex-a53", "cortex-a72"][] as $core
   | ($all | misses($core; "4k"; .l1_misses)) as $one | ($all | misses($core; "fixed"; .l1_misses)) as $one_with
   | ($all | misses($core; "4k"; .l2_misses)) as $two | ($all | misses($core; "fixed"; .l2_misses)) as $two_with
   | [$core, ($one * 1000 / $instructions | thousandths), ($one_with * 1000 / $instructions | thousandths), saved($one; $one_with),
      ($two * 1000 / $instructions | thousandths), ($two_with * 1000 / $instructions | thousandths), saved($two; $two_with)]
   | row("cores"))
