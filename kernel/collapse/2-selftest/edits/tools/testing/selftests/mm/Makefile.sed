s/^TEST_GEN_FILES = cow$/&\
TEST_GEN_FILES += collapse_punch/
