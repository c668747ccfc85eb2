-- JSON of what a digest holds its instant as, where a limit holds it up. It takes part in `sum`.
ALTER TABLE digests ADD COLUMN held_as TEXT;
