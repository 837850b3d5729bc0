CREATE TABLE customers (
    id integer PRIMARY KEY,
    name text NOT NULL,
    email text NOT NULL
);

CREATE TABLE orders (
    id integer PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customers (id),
    cents integer NOT NULL
);

INSERT INTO customers (id, name, email) VALUES
    (1, 'Ada Byron', 'ada@example.org'),
    (2, 'Grace Hopper', ' Grace@Example.org'),
    (3, 'Alan Turing', 'alan@example.org '),
    (4, 'Ada Lovelace', 'ADA@example.org'),
    (5, 'Edsger Dijkstra', 'edsger@example.org'),
    (6, 'G. Hopper', 'grace@example.org'),
    (7, 'Ada King', ' ada@Example.ORG ');

INSERT INTO orders (id, customer_id, cents) VALUES
    (1, 1, 1200), (2, 4, 350), (3, 7, 99), (4, 2, 4000), (5, 6, 1),
    (6, 3, 780), (7, 3, 20), (8, 5, 560), (9, 7, 2500);
