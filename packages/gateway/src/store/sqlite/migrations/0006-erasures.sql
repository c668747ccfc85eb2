-- People who are being erased: a row from the beginning to the end of it, so that a restart goes on where it was.
-- `until_seq` is the newest row that the erasure is about; what is accepted after is of somebody who came back.
CREATE TABLE erasures (
  tenant    TEXT NOT NULL,
  recipient TEXT NOT NULL,
  until_seq INTEGER,
  PRIMARY KEY (tenant, recipient)
) WITHOUT ROWID;
