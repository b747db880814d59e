-- The sums of an account's usage by day (UTC) and model, so that a page with a year of it reads some hundred rows.
CREATE TABLE usage_days (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    -- Days since 1970.
    day BIGINT NOT NULL,
    sku TEXT NOT NULL,
    unit_type TEXT NOT NULL,
    events BIGINT NOT NULL,
    quantity_ms BIGINT NOT NULL,
    retail_cost_cents BIGINT NOT NULL,
    credit_applied_cents BIGINT NOT NULL,
    billable_cents BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, sku, unit_type)
);

-- A trigger, because nodes of an older version write events, too. It waits for their transactions and holds up new ones.
CREATE FUNCTION usage_days_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usage_days AS d VALUES (
        NEW.account_id, NEW.created_at / 86400000, NEW.sku, NEW.unit_type, 1, NEW.quantity_ms, NEW.retail_cost_cents,
        NEW.credit_applied_cents, NEW.billable_cents
    )
    ON CONFLICT (account_id, day, sku, unit_type) DO UPDATE SET
        events = d.events + 1,
        quantity_ms = d.quantity_ms + excluded.quantity_ms,
        retail_cost_cents = d.retail_cost_cents + excluded.retail_cost_cents,
        credit_applied_cents = d.credit_applied_cents + excluded.credit_applied_cents,
        billable_cents = d.billable_cents + excluded.billable_cents;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_days_sum AFTER INSERT ON usage_events FOR EACH ROW EXECUTE FUNCTION usage_days_sum();

INSERT INTO usage_days
SELECT account_id, created_at / 86400000, sku, unit_type, COUNT(*), SUM(quantity_ms), SUM(retail_cost_cents),
       SUM(credit_applied_cents), SUM(billable_cents)
FROM usage_events GROUP BY account_id, created_at / 86400000, sku, unit_type;

DROP INDEX usage_sums;
