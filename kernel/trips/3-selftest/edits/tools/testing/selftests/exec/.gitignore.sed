/^\/set-exec$/i\
/load_hole
