-- Batches that are accepted in the background. A job has a row in `job_work` as long as it runs: what it still has to
-- do, written once. Its notifications name it; those without a job, nearly all, cost the partial index nothing.

CREATE TABLE jobs (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL,
  module     TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  status     TEXT NOT NULL,
  total      INTEGER NOT NULL,
  taken      INTEGER NOT NULL,
  refused    TEXT NOT NULL,                   -- JSON
  sum        INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_by_age ON jobs (created_at);

CREATE TABLE job_work (
  id   TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL,                         -- JSON
  sum  INTEGER NOT NULL
);

ALTER TABLE notifications ADD COLUMN job TEXT;
CREATE INDEX by_job ON notifications (job) WHERE job IS NOT NULL;
