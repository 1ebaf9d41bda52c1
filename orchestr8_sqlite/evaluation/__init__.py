"""How well an index answers: the measures, and the judgements that they rest on."""
