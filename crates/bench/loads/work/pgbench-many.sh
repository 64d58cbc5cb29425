#!/bin/sh
# PostgreSQL answers sixteen connections, so as many processes share its text and the processors.
connections=16
# shellcheck source=crates/bench/loads/work/pgbench
. "$1/pgbench"
