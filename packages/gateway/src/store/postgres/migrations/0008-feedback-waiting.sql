-- Reports about notifications that are not on record yet: ten minutes at most. `body` is JSON.
CREATE TABLE feedback_waiting (
  id       text COLLATE "C" PRIMARY KEY,
  reporter text COLLATE "C" NOT NULL,
  until    bigint NOT NULL,
  body     text NOT NULL
);
CREATE INDEX feedback_waiting_of ON feedback_waiting (reporter);
