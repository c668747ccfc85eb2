-- `sum` is a CRC-32 over the others: a changed byte would skip records of a topic. Rows of before have none.
ALTER TABLE intake_position ADD COLUMN sum INTEGER;
