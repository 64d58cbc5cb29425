/^TEST_GEN_PROGS \+= check-exec$/a\
TEST_GEN_PROGS += text_load
/^\$\(OUTPUT\)\/false: false\.c$/i\
$(OUTPUT)/text_load: text_load.c\
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIE -pie -Wl,-z,max-page-size=0x10000 $< -o $@
