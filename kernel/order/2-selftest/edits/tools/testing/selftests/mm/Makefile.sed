s/^TEST_GEN_FILES \+= compaction_test$/&\
TEST_GEN_FILES += exec_large/
