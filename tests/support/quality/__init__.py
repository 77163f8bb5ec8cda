"""How tests are run and judged: examples, work counted, mutations, stalls, bare environments."""
