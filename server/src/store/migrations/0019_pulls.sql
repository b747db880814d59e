-- The last pull of a checkpoint that a process was asked for, as JSON, so that every process can show it.
ALTER TABLE nodes ADD COLUMN pull TEXT;
