-- Changes of state that the delivery log has not got yet: a row a transaction, written only where a log is configured.
-- `seq` counts the entries through, so that their number is a subtraction. `sum` is a CRC-32 over the body.
CREATE TABLE outbox (
  seq     INTEGER PRIMARY KEY,                -- the number of its first entry
  entries INTEGER NOT NULL,
  body    TEXT NOT NULL,                      -- JSON: a list of records
  sum     INTEGER NOT NULL
);
