#!/bin/sh
# PostgreSQL answers one connection, so one process runs.
connections=1
# shellcheck source=crates/bench/loads/work/pgbench
. "$1/pgbench"
