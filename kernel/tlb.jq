# SPDX-License-Identifier: GPL-2.0-only
# docs/kernel-tlb.md from what tlb.sh recorded: a line for each file.

include "figures";

def thousandths: . * 1000 | round | "\(. / 1000 | floor).\(. % 1000 + 1000 | tostring | .[1:])";
def saved($before; $after): if $before == 0 then "" else "-\(100 * (1 - $after / $before) | tenths) %" end;

# Misses of all files together.
def misses($core; $layout; level): map(.cores[] | select(.core == $core) | .layouts[] | select(.layout == $layout) | level) | add;

. as $all
| (map(.instructions) | add) as $instructions
| map(.layouts[] | select(.layout == "fixed") | .pmd_mapped)[0] as $leaves
| "# A kernel build's misses of the instruction TLB",
  "",
  "Written by `make docs-kernel-tlb`. cc1 (\($gcc)) compiles \(length) files of Linux 7.3 at -O2, a sample of those that x86_64_defconfig",
  "builds: \($instructions / 1e9 | tenths) billion instructions under an emulator that counts, with models of cores ([tlb.md](../lab/tlb.md)). *Without* is text in",
  "base pages, as a cold start maps it today. *With* has \($leaves | mib) MiB of the text in PMD leaves and the rest in base pages. That is",
  "what the series gives cc1 in a guest ([kernel.md](kernel.md), cc1 on x86-64). Both execute the same instructions in user space.",
  "",
  "| file | preprocessed lines | million instructions | Zen 4: walks per 1000 instructions, without | with | |",
  "|---|---:|---:|---:|---:|---:|",
  (.[] | . as $one | [.] as $file
   | ($file | misses("zen4"; "4k"; .l2_misses)) as $without | ($file | misses("zen4"; "fixed"; .l2_misses)) as $with
   | [.file, .lines, (.instructions / 1e6 | round),
      ($without * 1000 / $one.instructions | thousandths), ($with * 1000 / $one.instructions | thousandths), saved($without; $with)]
   | row),
  "",
  "All files together, by core. L1 is what misses the first level, L2 what misses the second and walks the page table.",
  "",
  "| core | L1 per 1000 instructions, without | with | | L2, without | with | |",
  "|---|---:|---:|---:|---:|---:|---:|",
  (["zen4", "zen5", "golden-cove", "neoverse-v2", "cortex-a53", "cortex-a72"][] as $core
   | ($all | misses($core; "4k"; .l1_misses)) as $one | ($all | misses($core; "fixed"; .l1_misses)) as $one_with
   | ($all | misses($core; "4k"; .l2_misses)) as $two | ($all | misses($core; "fixed"; .l2_misses)) as $two_with
   | [$core, ($one * 1000 / $instructions | thousandths), ($one_with * 1000 / $instructions | thousandths), saved($one; $one_with),
      ($two * 1000 / $instructions | thousandths), ($two_with * 1000 / $instructions | thousandths), saved($two; $two_with)]
   | row),
  "",
  "The thread \"binfmt_elf: Align eligible read-only PT_LOAD segments to PMD_SIZE for THP\" (v4, cover letter) counted whole builds of",
  "Linux 7.0-rc1 in hardware: on a Ryzen 9 7950X (Zen 4) 0.445 walks per 1000 instructions without and 0.003 with, -99.3 %. On an",
  "RK3399 with all cores 2.969 and 0.911, -68.2 %. There, builds have make, shell, assembler, linker, thousands of cold starts and",
  "the kernel in the same TLBs. Compare how much is saved, and not the number of misses."
