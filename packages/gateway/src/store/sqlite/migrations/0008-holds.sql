-- Holds of operators: accounts taken out and notifications stopped, until an instant. A few rows in all.
CREATE TABLE holds (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL,                         -- JSON of the whole
  sum  INTEGER NOT NULL
) WITHOUT ROWID;
