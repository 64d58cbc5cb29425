s,^(main\.o: .* tests/mmap\.c) ,\1 tests/replace.c ,
