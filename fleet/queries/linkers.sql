-- Which options of which linkers would bring text within reach, in which images, and on how many machines?
--
-- All linkers know the option but Go's own; `hugetext fix` helps there. Many distributions take the mark of the
-- linker out of their programs.
WITH machines AS (
  SELECT linker,
         coalesce(image, digest, 'hosts') AS image,
         cause,
         machine,
         count(*) AS segments,
         sum(starts) AS starts,
         sum(text) AS text,
         sum(layout_now) AS layout_now,
         sum(layout_fix) AS layout_fix
  FROM files
  WHERE layout_fix > layout_now
  GROUP BY linker, coalesce(image, digest, 'hosts'), cause, machine
)
SELECT linker,
       CASE WHEN linker IS NULL OR linker NOT LIKE 'Go_s linker' THEN '-Wl,-z,max-page-size=2097152' END AS options,
       image,
       cause,
       count(*) AS hosts,
       sum(segments) AS segments,
       sum(starts) AS starts,
       sum(text) AS text,
       sum(layout_now) AS reached_by_layout,
       sum(layout_fix - layout_now) AS gained_by_options
FROM machines
GROUP BY linker, image, cause
ORDER BY gained_by_options DESC, linker NULLS LAST, image, cause NULLS LAST
LIMIT 50
