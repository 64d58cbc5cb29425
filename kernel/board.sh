# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2154 # the sourcing scripts set and use variables
# Sourced by boot.sh and rounds.sh: what QEMU emulates for the architecture $arch, in board, the name of its
# console, in serial, and a disk of the set paced.
case $arch in
x86_64) board=(qemu-system-x86_64 -machine q35 -cpu max) serial=ttyS0 ;;
arm64) board=(qemu-system-aarch64 -machine "virt,gic-version=3" -cpu max) serial=ttyAMA0 ;;
riscv64) board=(qemu-system-riscv64 -machine virt -cpu rv64) serial=ttyS0 ;;
*) echo "$0: unknown architecture $arch" >&2; exit 2 ;;
esac

# Puts QEMU's options for a disk of the set paced into devices.
paced_disk() { # FILE SIZE
    devices=(-object "memory-backend-file,id=disk,mem-path=$1,size=$2,share=off" -device "ivshmem-plain,memdev=disk")
}
