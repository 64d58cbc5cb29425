s/^TEST_GEN_FILES \+= transhuge-stress$/TEST_GEN_FILES += text_place\
&/
