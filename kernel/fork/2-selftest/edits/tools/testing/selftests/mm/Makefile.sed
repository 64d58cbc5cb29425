s/^TEST_GEN_FILES \+= gup_longterm$/TEST_GEN_FILES += fork_fails\
&/
