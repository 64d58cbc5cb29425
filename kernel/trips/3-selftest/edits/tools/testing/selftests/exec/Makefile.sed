/^TEST_GEN_PROGS \+= check-exec$/a\
TEST_GEN_PROGS += load_hole
/^\$\(OUTPUT\)\/false: false\.c$/i\
$(OUTPUT)/load_hole: load_hole.c\
	$(CC) $(CFLAGS) $(LDFLAGS) -fPIE -pie $< -o $@
