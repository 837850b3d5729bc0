#!/bin/bash
set -euo pipefail

psql --quiet --set=ON_ERROR_STOP=1 --single-transaction <<'SQL'
CREATE TEMPORARY TABLE kept AS
SELECT id, min(id) OVER (PARTITION BY lower(btrim(email))) AS keeper FROM customers;

UPDATE orders SET customer_id = keeper FROM kept WHERE kept.id = orders.customer_id;
DELETE FROM customers USING kept WHERE kept.id = customers.id AND kept.id <> kept.keeper;
UPDATE customers SET email = lower(btrim(email));
CREATE UNIQUE INDEX customers_email ON customers (lower(email));
SQL
