s/^TEST_GEN_FILES \+= compaction_test$/&\
TEST_GEN_FILES += exec_leaf\
TEST_GEN_FILES += exec_leaf_race/
