-- Content and the work of jobs above 256 KiB, in parts that are written ahead of the row that refers to them, each in
-- a transaction of its own: so no commit waits for megabytes of another. The row then holds the number of its parts in
-- place of its body. Parts that no row refers to are left behind by a crash, or by a row that is gone: they are dropped.
CREATE TABLE parts (
  value  INTEGER NOT NULL,                    -- the key of the value that they make up
  number INTEGER NOT NULL,
  body   BLOB NOT NULL,
  sum    INTEGER NOT NULL,
  UNIQUE (value, number)
);
ALTER TABLE contents ADD COLUMN parts INTEGER;
ALTER TABLE job_work ADD COLUMN parts INTEGER;
CREATE INDEX contents_in_parts ON contents (parts) WHERE parts IS NOT NULL;
CREATE INDEX work_in_parts ON job_work (parts) WHERE parts IS NOT NULL;
