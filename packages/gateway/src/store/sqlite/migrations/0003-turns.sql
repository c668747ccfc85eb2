-- When the turn of a notification came in the line before its tenant's and module's limits: these count it then, and
-- after a restart they must know it. Who stands in such a line is found by an index of its own.
ALTER TABLE states ADD COLUMN turned_at INTEGER;
CREATE INDEX turned ON states (turned_at) WHERE turned_at IS NOT NULL;
DROP INDEX promised;
CREATE INDEX in_line ON states (status) WHERE platform = 1 AND status = 1;
