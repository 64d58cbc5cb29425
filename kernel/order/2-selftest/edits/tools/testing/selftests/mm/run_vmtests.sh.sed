/^CATEGORY="thp" run_test \.\/transhuge-stress/i\
CATEGORY="thp" run_test ./exec_large\

