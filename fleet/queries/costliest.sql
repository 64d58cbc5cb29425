-- Which build ids cost most, and what does one relink or one `fix` of each save across the fleet?
--
-- Text counts once for each host that runs the file; saved is text that huge leaves reach after a fix, and do
-- not reach now.
SELECT build_id,
       min(file) AS file,
       min(linker) AS linker,
       count(DISTINCT machine) AS hosts,
       count(DISTINCT digest) AS images,
       sum(starts) AS starts,
       sum(cpu_ns) AS cpu_ns,
       sum(text) AS text,
       sum(reach_fix - reach_now) AS saved_by_fix,
       sum(reach_merge - reach_now) AS saved_by_merge
FROM files
WHERE build_id IS NOT NULL AND reach_merge > reach_now
GROUP BY build_id
ORDER BY saved_by_fix DESC, saved_by_merge DESC, build_id
LIMIT 50
