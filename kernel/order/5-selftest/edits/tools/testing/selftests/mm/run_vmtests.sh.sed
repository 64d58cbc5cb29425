/^CATEGORY="thp" run_test \.\/transhuge-stress/i\
CATEGORY="thp" run_test ./exec_leaf\
\
CATEGORY="thp" run_test ./exec_leaf_race\

