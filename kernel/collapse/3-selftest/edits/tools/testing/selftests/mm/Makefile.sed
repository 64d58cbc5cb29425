s/^TEST_GEN_FILES \+= khugepaged$/TEST_GEN_FILES += collapse_punch\
&/
