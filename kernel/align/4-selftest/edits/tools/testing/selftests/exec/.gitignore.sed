/^\/set-exec$/a\
/text_load
