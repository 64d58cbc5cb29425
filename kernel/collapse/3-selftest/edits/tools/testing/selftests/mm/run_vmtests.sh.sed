/^CATEGORY="thp" run_test \.\/khugepaged$/i\
CATEGORY="thp" run_test ./collapse_punch\

