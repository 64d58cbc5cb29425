-- What reaches less than at the first time of the machine or image: another layout, kernel or filesystem?
--
-- --from and --to set the two dates that are compared; without them, the first and the last time.
WITH best AS (
  SELECT file, segment, max(reach_now) AS reach_now
  FROM inventory
  WHERE leaf = 2097152
  GROUP BY file, segment
),
-- What reaches as much as ever anywhere has not fallen. Few rows remain, and only these are compared.
suspects AS (
  SELECT inventory.machine, inventory.file, inventory.segment
  FROM inventory
  JOIN best ON inventory.file = best.file AND inventory.segment = best.segment
  WHERE inventory.leaf = 2097152 AND inventory.reach_now < best.reach_now
)
SELECT *
FROM (SELECT host,
             machine,
             coalesce(image, digest, '') AS image,
             file,
             min_by(build_id, time) AS build_id_before,
             max_by(build_id, time) AS build_id_after,
             min_by(reach_now, time) AS reached_before,
             max_by(reach_now, time) AS reached_after
      FROM inventory
      WHERE leaf = 2097152 AND (machine, file, segment) IN (SELECT machine, file, segment FROM suspects)
      GROUP BY host, machine, coalesce(image, digest, ''), file, segment) AS ends
WHERE reached_after < reached_before
ORDER BY reached_before - reached_after DESC, host, machine, image, file
LIMIT 50
