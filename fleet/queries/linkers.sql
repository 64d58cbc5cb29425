-- Which linkers, in which images, would gain from other options, and how much?
--
-- `hugetext check FILE` prints the option of each linker.
SELECT linker,
       coalesce(image, digest, 'hosts') AS image,
       cause,
       count(*) AS segments,
       sum(text) AS text,
       sum(layout_now) AS reached_by_layout,
       sum(layout_fix - layout_now) AS gained_by_options
FROM files
WHERE layout_fix > layout_now
GROUP BY linker, coalesce(image, digest, 'hosts'), cause
ORDER BY gained_by_options DESC, linker NULLS LAST, image, cause NULLS LAST
LIMIT 50
